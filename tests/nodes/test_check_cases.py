"""Faults that other agents were reported for: what was let through, and what was refused for no reason."""

import pytest

from actloop.nodes.safety_check import check


@pytest.mark.parametrize(
    ("code", "line", "hint"),
    [
        ('report = f"""total: {1}\nnext\n', 1, "quotes"),
        ("rows = 1\nreport = '''total\nnext\n", 2, "quotes"),
        ("x = 1\nprint('total)\n", 2, "quote"),
        ("x = 1\ny = [1, 2\nz = 3\n", 2, "bracket"),
        ("for x in range(3) print(x)", 1, ""),
        ("if x:\nprint(1)", 2, "Indent"),
    ],
)
def test_code_that_does_not_parse_is_denied_with_line_and_hint(code: str, line: int, hint: str) -> None:
    verdict = check(code)
    assert verdict.decision == "deny"
    assert [(finding.rule, finding.line) for finding in verdict.findings] == [("syntax", line)]
    assert hint in verdict.findings[0].message


@pytest.mark.parametrize(
    ("code", "line"),
    [
        ('def f():\n    import subprocess\n    return subprocess.run(["id"])\nf()', 2),
        ("class A:\n    class B:\n        import subprocess", 3),
        ("x = 1\nf = lambda m=__import__('subprocess'): m", 2),
        ("if False:\n    from subprocess import run", 2),
        ("try:\n    pass\nfinally:\n    import subprocess", 4),
        ("match 1:\n    case _:\n        import subprocess", 3),
        ("async def f():\n    async with a as b:\n        import subprocess as s", 3),
        ("x = [y for y in [1] if __import__('subprocess')]", 1),
        ("f'{__import__(\"subprocess\")}'", 1),
        ("@(lambda f: __import__('subprocess'))\ndef f(): ...", 1),
        ("def f(x: __import__('subprocess') = 1): ...", 1),
        ("assert __import__('subprocess')", 1),
    ],
)
def test_an_import_is_found_at_any_depth_with_its_line(code: str, line: int) -> None:
    assert ("process", line) in {(finding.rule, finding.line) for finding in check(code).findings}


@pytest.mark.parametrize(
    "code",
    [
        'import logging\nlogging.os.system("id > /tmp/owned")',
        'import pathlib\npathlib.os.system("id")',
        'import glob as g\ng.os.popen("id")',
        'from logging import os as quiet\nquiet.system("id")',
        'import pandas as pd\npd.core.common.builtins.exec("import subprocess")',
        'import tempfile\ntempfile._os.system("id")',
        'import random\ngetattr(random, "_os").system("id")',
        "import urllib.request\nurllib.request.socket.socket()",
        'import os.path\nos.path.os.system("id")',
    ],
)
def test_a_module_reached_through_another_is_found(code: str) -> None:
    assert check(code).decision == "ask"


@pytest.mark.parametrize(
    "code",
    [
        'note = "never call os.system or eval() in here!"  # import subprocess\nprint(len(note) - 2)',
        '"""Docs: subprocess.run, eval, __import__("os")."""\nx = 1',
        "def f():\n    '''Never use os.system(\"id\").'''\n    return 1",
        "words = ['eval', 'exec', 'os.system', 'subprocess']\nprint(words)",
        "evaluate = 1; my_exec = 2; system = 3; popen = 4",
        "class Model:\n    def eval(self): ...\n    def compile(self): ...\nModel().eval(); Model().compile()",
        "import re\nre.compile('os.system'); re.search('import os', 'x')",
        "df['system'] = 1; df.system; row['exec']",
        "import os.path\nfrom os import path, sep, listdir, makedirs\npath.join('a', 'b')",
        "text = f'eval({1 + 1}) and open(/etc/passwd)'\nprint(text)",
        "import ast\nast.literal_eval('[1]')",
    ],
)
def test_text_that_mentions_a_forbidden_name_is_allowed(code: str) -> None:
    assert check(code).findings == ()


@pytest.mark.parametrize(
    "source",
    [
        "-" * 100_000 + "1",
        "~" * 100_000 + "1",
        "[" * 5_000 + "]" * 5_000,
        "x = 1\0",
        "\0",
        "x = '\udcff'",
        "f(" * 1_000 + ")" * 1_000,
        "1" + "**1" * 20_000,
        "x" + "[0]" * 20_000,
        "if 1:\n        x = 1\n\ty = 2",
    ],
)
def test_source_that_breaks_the_parser_is_refused_with_a_message(source: str) -> None:
    verdict = check(source)
    assert verdict.decision == "deny"
    assert verdict.findings[0].message


@pytest.mark.parametrize("policy", ["standard", "strict"])
def test_a_long_program_is_checked_to_its_end(policy: str) -> None:
    code = "x = 1\n" * 3_000 + "import subprocess"
    (finding,) = check(code, policy).findings  # type: ignore[arg-type]
    assert finding.line == 3_001
