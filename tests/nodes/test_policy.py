"""Policies: profiles, single rules switched, and what the documents say of them."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args

import pytest

from actloop import Policy, create_agent
from actloop.errors import ConfigError
from actloop.nodes.policy import RULES, Level, Profile
from actloop.nodes.safety_check import check
from actloop.testing import ScriptedModel

FLAGGED = {
    "process": "import subprocess",
    "network": "import socket\nsocket.socket()",
    "metadata_address": "fetch('http://169.254.169.254/')",
    "native_code": "import ctypes",
    "dynamic_code": "eval(text)",
    "obfuscation": "import base64\nexec(base64.b64decode(blob))",
    "introspection": "().__class__.__base__.__subclasses__()",
    "unsafe_load": "import pickle\npickle.loads(blob)",
    "pickle_file": "import joblib\njoblib.load('m.joblib')",
    "permissions": "import os\nos.setuid(0)",
    "environment": "import os\nprint(os.environ)",
    "environment_variable": "import os\nos.environ['HOME']",
    "secret_path": "open('/etc/shadow')",
    "system_path": "open('/etc/passwd')",
    "outside_read": "open('/data/x.csv')",
    "outside_write": "open('/data/x.csv', 'w')",
    "delete": "import os\nos.remove('/data/x.csv')",
    "delete_inside": "import os\nos.remove('x.csv')",
}
"""A cell for each rule that no other rule finds anything in."""


def test_there_is_a_cell_for_each_rule() -> None:
    assert set(FLAGGED) == set(RULES)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("level", get_args(Level))
def test_each_rule_can_be_set_and_switched_off(rule: str, level: Level) -> None:
    verdict = check(FLAGGED[rule], Policy("strict", {rule: level}))
    assert verdict.decision == level
    assert [finding.rule for finding in verdict.findings] == ([] if level == "allow" else [rule])


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("profile", ["standard", "strict"])
def test_each_profile_does_what_its_table_says(rule: str, profile: Profile) -> None:
    expected = RULES[rule].standard if profile == "standard" else RULES[rule].strict
    assert check(FLAGGED[rule], profile).decision == expected
    assert check(FLAGGED[rule], Policy(profile)) == check(FLAGGED[rule], profile)


@pytest.mark.parametrize("rule", RULES)
def test_a_rule_may_stand_alone_on_an_open_policy(rule: str) -> None:
    alone = Policy("open", {rule: "deny"})
    assert {other for other in RULES if check(FLAGGED[other], alone).decision == "deny"} == {rule}


def test_no_policy_lets_code_pass_that_does_not_parse() -> None:
    off: Mapping[str, Level] = dict.fromkeys(RULES, "allow")
    verdict = check("x = (", Policy(rules=off))
    assert (verdict.decision, verdict.findings[0].rule) == ("deny", "syntax")


def test_a_policy_does_not_change_with_the_mapping_it_was_made_from() -> None:
    levels: dict[str, Level] = {"process": "allow"}
    policy = Policy(rules=levels)
    levels.clear()
    assert check("import subprocess", policy).decision == "allow"
    assert hash(policy) == hash(Policy("standard", {"process": "allow"}))


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: Policy("lax"), "open, standard, strict"),  # type: ignore[arg-type]
        (lambda: Policy(rules={"processes": "ask"}), "process, network"),
        (lambda: Policy(rules={"process": "off"}), "allow, ask, deny"),  # type: ignore[dict-item]
        (lambda: check("1", "lax"), "open, standard, strict"),  # type: ignore[arg-type]
        (lambda: create_agent(ScriptedModel(["1"]), policy="lax"), "open, standard, strict"),  # type: ignore[arg-type]
    ],
)
def test_a_name_that_does_not_exist_is_a_config_error_that_lists_those_that_do(make: Any, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        make()


def test_the_document_says_of_each_rule_what_the_profiles_do() -> None:
    text = (Path(__file__).parents[2] / "docs" / "POLICY.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\w+)` \| (\w+) \| (\w+) \| (.+) \|$", text, re.MULTILINE)
    assert rows == [(name, *rule) for name, rule in RULES.items()]
