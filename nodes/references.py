"""Rules on what code refers to: a module or function whose mere use says what the code can do.

A reference counts wherever it stands: called, handed on, or kept in a name.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class Reference:
    """Places in the world of modules that belong to one rule."""

    rule: str
    pattern: re.Pattern[str]
    """Matches a whole canonical path."""
    says: str
    """What such a place does; follows its name in the message."""


def _rule(rule: str, says: str, *patterns: str) -> Reference:
    return Reference(rule, re.compile("|".join(patterns)), says)


REFERENCES = (
    _rule(
        "process",
        "starts or signals processes",
        r"os\.(?:system|popen\w*|exec[lv]\w*|spawn\w*|posix_spawnp?|fork|forkpty|kill|killpg|pidfd_open|startfile)",
        r"subprocess(?:\.\w+)?",
        r"asyncio\.(?:create_subprocess_\w+|subprocess(?:\..*)?)",
        r"(?:pty|pexpect|plumbum|fabric|paramiko|sh|ensurepip|_posixsubprocess)(?:\.\w+)?",
        r"psutil\..*\.(?:kill|terminate|send_signal|suspend)",
        r"(?:asyncio|uvloop)\..*\.subprocess_(?:exec|shell)",
        r"pip\.(?:main|_internal.*)|platform\.popen|webbrowser\.\w+|antigravity|signal\.(?:pthread_kill|pidfd_send_signal)",
        r"(?:builtins\.|IPython\.)?get_ipython\(\)\.(?:system|getoutput|run_cell|run_cell_magic|run_line_magic)",
    ),
    _rule(
        "network",
        "reaches for the network",
        r"socket\.(?:socket|create_connection|create_server|SocketType|getaddrinfo|gethostbyname\w*|fromfd)",
        r"ssl\.(?:wrap_socket|get_server_certificate|.*\.wrap_(?:socket|bio))|select\.epoll",
        r"urllib\.request\.(?:urlopen|urlretrieve|build_opener|Request|URLopener|FancyURLopener)",
        r"http\.client\.HTTPS?Connection|http\.server(?:\.\w+)?|socketserver(?:\.\w+)?|wsgiref\.simple_server.*",
        r"urllib3\.(?:PoolManager|request|ProxyManager|HTTPS?ConnectionPool|connection_from_url)",
        r"requests\.(?:get|post|put|patch|delete|head|options|request|Session|session|api\.\w+)",
        r"httpx\.(?:get|post|put|patch|delete|head|options|request|stream|Client|AsyncClient)",
        r"aiohttp\.(?:ClientSession|request|web.*)|pycurl\.Curl|wget\.download",
        r"(?:ftplib|smtplib|telnetlib|poplib|imaplib|nntplib|xmlrpc\.client|xmlrpc\.server)\.\w+",
        r"asyncio\.(?:open_connection|start_server|open_unix_connection|start_unix_server)",
        r"asyncio\..*\.(?:create_connection|create_server|create_datagram_endpoint|sock_connect)",
        r"(?:websockets|websocket)\.\w+|boto3\.(?:client|resource|Session)|multiprocessing\.connection\.\w+",
    ),
    _rule(
        "native_code",
        "reaches into memory and the C library, past every check of the interpreter",
        r"ctypes(?:\.\w+)?|cffi(?:\.\w+)?|numpy\.ctypeslib\.load_library|mmap\.mmap",
    ),
    _rule(
        "dynamic_code",
        "runs code that cannot be read here",
        r"(?:runpy|codeop|zipimport|imp)\.\w+|code\.(?:interact|Interactive\w+|compile_command)",
        r"importlib\.util\.(?:spec_from_file_location|module_from_spec|spec_from_loader)",
        r"importlib\.machinery\.\w+Loader|types\.(?:FunctionType|CodeType)",
        r"(?:importlib|pkgutil)\..*\.(?:load_module|exec_module)|importlib\._bootstrap\w*\..*",
    ),
    _rule(
        "introspection",
        "walks the interpreter's own objects",
        r"gc\.(?:get_objects|get_referrers|get_referents)|sys\._current_frames",
        r"(?:sys|threading)\.set(?:trace|profile)",
    ),
    _rule(
        "permissions",
        "changes rights or identities",
        r"os\.(?:l?chmod|fchmod|l?chown|fchown|set(?:e|re|res)?[ug]id|setgroups|chroot|mknod|unshare|setns|setxattr)",
        r"shutil\.chown",
    ),
)

INTROSPECTION = frozenset(
    {
        "__subclasses__",
        "__globals__",
        "__builtins__",
        "__loader__",
        "__self__",
        "f_globals",
        "f_locals",
        "f_builtins",
        "f_back",
        "gi_frame",
        "cr_frame",
        "ag_frame",
        "tb_frame",
    }
)
"""Attributes that lead from any object to the interpreter's internals."""

CODE_RUNNERS = frozenset(
    {
        "timeit.timeit",
        "timeit.repeat",
        "timeit.Timer",
        "cProfile.run",
        "cProfile.runctx",
        "profile.run",
        "pdb.run",
        "pdb.Pdb().run",
        "bdb.Bdb().run",
        "cProfile.Profile().run",
        "profile.Profile().run",
        "trace.Trace().run",
        "doctest.run_docstring_examples",
    }
)
"""Functions that run a text as code, besides `eval` and `exec`."""

LOADERS = frozenset(
    {
        "pickle.loads",
        "marshal.loads",
        "marshal.load",
        "dill.loads",
        "cloudpickle.loads",
        "pickle.Unpickler().load",
        "dill.Unpickler().load",
        "jsonpickle.decode",
        "yaml.load",
        "yaml.unsafe_load",
        "yaml.full_load",
        "yaml.load_all",
        "yaml.unsafe_load_all",
    }
)
"""Functions that can run code which lies in their data."""


FILE_LOADERS = frozenset(
    {
        "pickle.load",
        "dill.load",
        "cloudpickle.load",
        "joblib.load",
        "torch.load",
        "pandas.read_pickle",
        "numpy.load",
    }
)
"""Functions that can run code which lies in a file; stored models and tables are read by them all day."""

IMPORTERS = frozenset(
    {
        "importlib.import_module",
        "importlib.__import__",
        "pkgutil.resolve_name",
        "pydoc.locate",
        "unittest.mock._importer",
    }
)
"""Functions that import what a text names, besides `__import__`."""

POWERFUL = frozenset({"os", "subprocess", "builtins", "importlib", "socket", "pty", "ctypes"})
"""Modules whose functions reach past the workspace."""


def matches(path: str) -> Iterator[Reference]:
    """Rules that a canonical path belongs to."""
    for reference in REFERENCES:
        if reference.pattern.fullmatch(path):
            yield reference
