"""Policies of the safety check: its rules by name, what each profile does about them, and how to switch one.

A policy is advice and a reason to ask a person. It is not the boundary: that is the box.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal, NamedTuple, TypeAlias, get_args

from actloop.errors import ConfigError

Profile: TypeAlias = Literal["open", "standard", "strict"]
Level: TypeAlias = Literal["allow", "ask", "deny"]


class Rule(NamedTuple):
    """What the profiles do about a rule, and what it means."""

    standard: Level
    strict: Level
    means: str


RULES: Mapping[str, Rule] = MappingProxyType(
    {
        "process": Rule("ask", "deny", "starts, replaces or signals a process, or runs a shell"),
        "network": Rule("ask", "deny", "reaches for the network, or reads a URL"),
        "metadata_address": Rule("deny", "deny", "names the address of a cloud's metadata service"),
        "native_code": Rule("ask", "deny", "reaches memory or the C library, past the interpreter"),
        "dynamic_code": Rule("ask", "deny", "runs code, or takes a module's attribute, that is only known at run time"),
        "obfuscation": Rule("deny", "deny", "runs code that an encoding hides"),
        "introspection": Rule("ask", "deny", "walks from an object to the interpreter's own"),
        "unsafe_load": Rule("ask", "deny", "loads data of unknown origin that can run code"),
        "pickle_file": Rule("allow", "ask", "loads a file that can run code, such as a stored model"),
        "permissions": Rule("ask", "deny", "changes rights or identities"),
        "environment": Rule("ask", "deny", "reads the whole environment, or a variable that may hold a secret"),
        "environment_variable": Rule("allow", "ask", "reads any other variable of the environment"),
        "secret_path": Rule("deny", "deny", "touches a file that holds keys, passwords or control of the system"),
        "system_path": Rule("ask", "deny", "reads a folder of the system"),
        "outside_read": Rule("allow", "ask", "reads elsewhere outside the workspace"),
        "outside_write": Rule("ask", "deny", "writes outside the workspace"),
        "delete": Rule("ask", "deny", "deletes outside the workspace, the workspace itself, or an unknown tree"),
        "delete_inside": Rule("allow", "ask", "deletes in the workspace"),
    }
)
"""All rules. `open` allows each; code that does not parse is denied by every policy, under the name `syntax`."""


@dataclass(frozen=True)
class Policy:
    """What the safety check does about each rule.

    ```python
    Policy()                                              # the same as "standard"
    Policy("strict", {"network": "ask"})                  # one rule milder than its profile
    Policy("open", {"secret_path": "deny"})               # this rule alone
    Policy(rules={"delete": "allow"})                     # "allow" switches a rule off
    ```

    Raises:
        ConfigError: there is no such profile, rule or level.
    """

    profile: Profile = "standard"
    rules: Mapping[str, Level] = field(default_factory=dict)
    """Levels that differ from those of the profile, by the name of the rule."""

    def __post_init__(self) -> None:
        if self.profile not in get_args(Profile):
            raise ConfigError(f"There is no policy {self.profile!r}; choose one of {', '.join(get_args(Profile))}.")
        for name, level in self.rules.items():
            if name not in RULES:
                raise ConfigError(f"There is no rule {name!r} of the safety check; choose among {', '.join(RULES)}.")
            if level not in get_args(Level):
                raise ConfigError(f"Rule {name} cannot be {level!r}; choose one of {', '.join(get_args(Level))}.")
        object.__setattr__(self, "rules", MappingProxyType(dict(self.rules)))

    def __hash__(self) -> int:
        return hash((self.profile, frozenset(self.rules.items())))

    @classmethod
    def of(cls, policy: "Profile | Policy") -> "Policy":
        """A policy from the name of a profile, or itself.

        Raises:
            ConfigError: there is no such profile.
        """
        return policy if isinstance(policy, Policy) else cls(policy)

    def level(self, rule: str) -> Level:
        """What is done about a rule; `allow` means that it is off."""
        if rule in self.rules:
            return self.rules[rule]
        if self.profile == "open":
            return "allow"
        return RULES[rule].standard if self.profile == "standard" else RULES[rule].strict

    @property
    def silent(self) -> bool:
        """Whether every rule is off."""
        return all(self.level(rule) == "allow" for rule in RULES)
