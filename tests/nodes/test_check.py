"""The safety check: what it stops or asks about, what it lets pass, and code that would break it."""

import sys
import textwrap

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actloop.nodes.policy import RULES, Policy, Profile
from actloop.nodes.safety_check import check


def rules(code: str, policy: Profile | Policy = "standard") -> set[str]:
    return {finding.rule for finding in check(textwrap.dedent(code), policy).findings}


# Code that does not parse


def test_unclosed_quotes_are_denied_with_line_and_hint() -> None:
    verdict = check('rows = 3\ntext = f"""rows: {rows}\nend\n')
    assert verdict.decision == "deny"
    (finding,) = verdict.findings
    assert (finding.rule, finding.line) == ("syntax", 2)
    assert "quotes" in finding.message


@pytest.mark.parametrize("policy", ["open", "standard", "strict"])
@pytest.mark.parametrize(
    "source",
    [
        "-" * 100_000 + "1",
        "lambda:" * 50_000 + "1",
        "(" * 100_000,
        "not " * 50_000 + "x",
        "a" + ".b" * 50_000,
        "x = 1\0",
        "x = '\ud800'",
        "if x:\n" + "elif x:\n  pass\n" * 5000,
        "x = (",
        "return 1",
        "break",
        "!ls",
    ],
)
def test_source_that_breaks_a_parser_is_denied_in_words(source: str, policy: Profile) -> None:
    verdict = check(source, policy)
    assert verdict.decision == "deny"
    assert verdict.findings[0].rule == "syntax"
    assert verdict.findings[0].message


def test_a_long_sum_is_allowed_where_the_parser_takes_it_and_denied_elsewhere() -> None:
    # Python 3.11 and 3.12 give up on it; later ones do not.
    verdict = check("+".join(["1"] * 5000))
    assert verdict.decision == ("allow" if sys.version_info >= (3, 13) else "deny")


def test_await_may_stand_at_the_top() -> None:
    assert check("import asyncio\nr = await asyncio.sleep(0, 1)").decision == "allow"


def test_warnings_of_the_compiler_are_no_errors() -> None:
    assert check('import re\nre.findall("\\d", "1")').decision == "allow"


@settings(max_examples=300, deadline=None)
@given(
    st.one_of(
        st.text(),
        st.lists(st.sampled_from([*"ab.()[]{}'\"=:,\n\\ ", "import os", "eval", "lambda "])).map("".join),
    )
)
def test_no_text_raises(source: str) -> None:
    check(source)


# What is found


@pytest.mark.parametrize(
    "code",
    [
        "def f():\n    import subprocess\n    return subprocess.run(['ls'])",
        "class A:\n    def go(self):\n        import subprocess",
        "f = lambda m=__import__('subprocess'): m",
        "if False:\n    import subprocess",
        "async def f():\n    from subprocess import run",
        "[__import__('subprocess') for _ in ()]",
    ],
)
def test_an_import_is_found_at_any_depth(code: str) -> None:
    assert "process" in rules(code)


EVASIONS = [
    "import logging\nlogging.os.system('ls')",
    "import random\nrandom._os.system('ls')",
    "import pandas as pd\npd.io.common.os.system('ls')",
    "from os import *\nsystem('ls')",
    "from posix import system as s\ns('ls')",
    "import os as o\no.__dict__['sys' + 'tem']('ls')",
    "import os\nvars(os)['popen']('ls')",
    "import sys\nsys.modules['os'].system('ls')",
    "import sys\nsys.modules.get('o' + 's').system('ls')",
    "getattr(__import__('os'), 'sys' + 'tem')('ls')",
    "import importlib\nimportlib.import_module('sub' + 'process').run(['ls'])",
    "from importlib import import_module as load\nload('os').popen('ls')",
    "__builtins__.__dict__['__imp' + 'ort__']('os').system('ls')",
    "import os\nlist(map(os.system, ['ls']))",
    "from functools import partial\nimport os\npartial(os.system, 'ls')()",
    "f = lambda: __import__('os')\nf().system('ls')",
    "import operator, os\noperator.attrgetter('system')(os)('ls')",
    "object.__getattribute__(__import__('os'), 'system')('ls')",
    "__import__(''.join(chr(c) for c in [111, 115])).system('ls')",
    "__import__(''.join(map(chr, [111, 115]))).system('ls')",
    "__import__('so'[::-1]).system('ls')",
    "import codecs\n__import__(codecs.decode('bf', 'rot13')).system('ls')",
    "import asyncio\nasyncio.create_subprocess_shell('ls')",
    "def g(m):\n    return m.system\ng(__import__('os'))('ls')",
    "import os\nclass A:\n    m = os\nA.m.system('ls')",
    "import os\nclass A:\n  def __init__(self, m):\n    self.m = m\n  def go(self):\n    self.m.system('ls')\nA(os)",
    "d = {'a': __import__}\nd['a']('os').system('ls')",
    "exec('import os\\nos.system(\"ls\")')",
    "eval(compile('__import__(\"os\").system(\"ls\")', 'x', 'eval'))",
    'import timeit\ntimeit.timeit(\'__import__("os").system("ls")\')',
    "eval('__import__(\"os\")').system('ls')",
    "name, x = 'os', 1\n__import__(f'{name}').system('ls')",
    "os.system('ls')",
]


@pytest.mark.parametrize("code", EVASIONS)
def test_a_process_is_found_by_whichever_way_it_is_reached(code: str) -> None:
    assert "process" in rules(code)


@pytest.mark.parametrize(
    ("code", "rule"),
    [
        ("open('/etc/passwd')", "system_path"),
        ("import io\nio.open('/etc/shadow')", "secret_path"),
        ("from pathlib import Path\n(Path('/etc') / 'passwd').read_text()", "system_path"),
        ("from pathlib import Path\nPath.home().joinpath('.ssh', 'id_rsa').read_bytes()", "secret_path"),
        ("import os\nopen(os.path.join('/usr', '../etc/passwd'))", "system_path"),
        ("import os\nopen(os.path.expanduser('~/.aws/credentials'))", "secret_path"),
        ("import pandas as pd\npd.read_csv('/etc/passwd')", "system_path"),
        ("open('../../etc/passwd')", "system_path"),
        ("def show(path):\n    return open(path).read()\nshow('/proc/self/environ')", "secret_path"),
        ("for name in ['passwd', 'group']:\n    open(f'/etc/{name}')", "system_path"),
        ("open('/etc/' + input())", "system_path"),
        ("open('/var/run/docker.sock')", "secret_path"),
        ("import glob\nglob.glob('/etc/*')", "system_path"),
        ("x = [open]\nx[0]('/etc/shadow')", "secret_path"),
        ("import os\nos.open('/etc/passwd', os.O_RDONLY)", "system_path"),
        ("with open('/usr/x.py', 'w') as f:\n    f.write('')", "outside_write"),
        ("df.to_csv('/srv/out.csv')", "outside_write"),
        ("import shutil\nshutil.copy('a', '/usr/b')", "outside_write"),
        ("import os\nos.remove('/etc/passwd')", "delete"),
        ("from pathlib import Path\nPath('/var/x').unlink()", "delete"),
        ("import shutil\nshutil.rmtree('/workspace')", "delete"),
        ("import shutil\nshutil.rmtree(target)", "delete"),
        ("import os\nprint(dict(os.environ))", "environment"),
        ("import os\nkey = os.getenv('OPENAI_API_KEY')", "environment"),
        ("import socket\ns = socket.socket()", "network"),
        ("import requests\nrequests.Session()", "network"),
        ("import pandas as pd\npd.read_csv('https://example.org/x.csv')", "network"),
        ("import requests\nrequests.get('http://169.254.169.254/latest')", "metadata_address"),
        ("import urllib.request as r\nr.urlopen('http://2852039166/')", "metadata_address"),
        ("eval(input())", "dynamic_code"),
        ("import os\ngetattr(os, input())('ls')", "dynamic_code"),
        ("list(map(eval, lines))", "dynamic_code"),
        ("import base64\nexec(base64.b64decode(blob))", "obfuscation"),
        ("import base64\nexec(base64.b64decode('eCA9IDE=').decode())", "obfuscation"),
        ("exec(bytes.fromhex('78203d2031').decode())", "obfuscation"),
        ("().__class__.__base__.__subclasses__()", "introspection"),
        ("getattr(f, '__glob' + 'als__')", "introspection"),
        ("import ctypes\nctypes.CDLL(None)", "native_code"),
        ("import pickle\npickle.loads(data)", "unsafe_load"),
        ("class A:\n    def __reduce__(self):\n        return (eval, ('1',))", "unsafe_load"),
        ("import os\nos.chmod('x', 0o777)", "permissions"),
    ],
)
def test_each_rule_finds_its_kind(code: str, rule: str) -> None:
    verdict = check(code)
    assert rule in {finding.rule for finding in verdict.findings}
    assert verdict.decision == ("deny" if RULES[rule].standard == "deny" else verdict.decision) != "allow"


def test_a_pickle_is_read_without_loading_it() -> None:
    (finding,) = check("import pickle\npickle.loads(b\"cos\\nsystem\\n(S'ls'\\ntR.\")").findings
    assert "os.system" in finding.message


def test_a_finding_names_its_line() -> None:
    (finding,) = check("x = 1\ny = 2\n\nopen('/etc/passwd')\n").findings
    assert finding.line == 4


def test_findings_in_a_text_that_is_run_name_the_line_of_the_call() -> None:
    findings = check("x = 1\nexec('y = 1\\nimport subprocess')").findings
    assert [(finding.rule, finding.line) for finding in findings] == [("process", 2)]


# What passes

HARMLESS = [
    'note = "never call os.system or eval() in here!"  # import subprocess',
    'print("/etc/passwd"); path = "/etc/shadow"',
    'df = df[df.path == "/etc/passwd"]; df["path"].str.contains("/etc/passwd")',
    'import logging\nlogging.getLogger("x").info("/etc/passwd")',
    'import pandas as pd\ndf = pd.read_csv("sales.csv"); df.to_csv("out.csv"); df.query("a > 3").eval("c = a + b")',
    'import matplotlib.pyplot as plt\nplt.plot([1]); plt.savefig("/workspace/figure.png")',
    'open("out.txt", "w").write("x"); open("/tmp/x", "w"); open("/dev/null", "w")',
    'from pathlib import Path\nPath("x").write_text("y"); Path("d").mkdir(); [p.name for p in Path(".").iterdir()]',
    'import os\nos.makedirs("out", exist_ok=True); os.listdir(); os.path.join("a", "b")',
    'import os\nos.path.exists("/etc/passwd")',
    'import os, glob\nfor p in glob.glob("*.tmp"):\n    os.remove(p)',
    'import os\nos.environ["MPLBACKEND"] = "Agg"; os.environ.get("HOME")',
    'import re, ast\nre.compile("x"); ast.literal_eval("1"); model.eval(); model.compile()',
    'import pickle\npickle.dump(1, open("m", "wb")); pickle.load(open("m", "rb")); pickle.loads(pickle.dumps(1))',
    'import sqlite3\nsqlite3.connect(":memory:").execute("select 1"); sqlite3.connect("x.db")',
    'import shutil, tempfile\nshutil.copy("a", "b"); shutil.rmtree("build"); shutil.rmtree(tempfile.mkdtemp())',
    "import threading, multiprocessing, concurrent.futures, asyncio",
    'exec("y = 1"); eval("1 + 2"); x.__class__.__name__; x.__dict__',
    'url = "https://example.org"; print(url)\nfrom urllib.parse import urlparse\nurlparse(url)',
    'import sys\nif "x" in sys.modules:\n    pass\nsys.path.append("/workspace/lib")',
    'import yaml, json\nyaml.safe_load("a: 1"); yaml.load("a: 1", Loader=yaml.SafeLoader); json.loads("{}")',
    'import os\nos.kill_switch = 1 if False else 2\nclass os_like:\n    system = "x"',
]


@pytest.mark.parametrize("code", HARMLESS)
def test_ordinary_code_passes(code: str) -> None:
    assert check(code).findings == ()


@pytest.mark.parametrize("code", [*EVASIONS[:5], *HARMLESS])
def test_open_allows_everything_that_parses(code: str) -> None:
    assert check(code, "open").decision == "allow"


@pytest.mark.parametrize("code", EVASIONS)
def test_strict_denies_what_standard_asks_about(code: str) -> None:
    assert check(code).decision != "allow"
    assert check(code, "strict").decision == "deny"


def test_strict_asks_about_more() -> None:
    assert rules("import os\nos.environ.get('HOME')", "strict") == {"environment_variable"}
    assert rules("import os\nos.remove('a.csv')", "strict") == {"delete_inside"}
    assert rules("open('/data/a.csv')", "strict") == {"outside_read"}


def test_equal_code_gives_equal_verdicts() -> None:
    code = "\n".join(EVASIONS[:3])
    assert check(code) == check(code)


def test_a_flood_of_findings_is_bounded() -> None:
    assert len(check("import os\n" + "os.system('x')\n" * 500).findings) <= 50
