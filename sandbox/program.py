"""The program that runs in a box, as one text that is sent over the box's stream.

Nothing of ours has to be in the image and nothing is mounted: any image with Python 3.9 or later serves, and an engine
on another machine works like a local one. The text is sent over stdin and not as an argument, because the arguments of
PID 1 can be read by everything in the box.
"""

from functools import cache
from importlib.resources import files
from typing import Any

from actloop.config import Limits

WORKSPACE = "/workspace"

_SUPERVISOR = (
    "box_wire",
    "box_proc",
    "box_capture",
    "box_files",
    "box_host",
    "box_calls",
    "box_cell",
    "box_lease",
    "box_pipes",
    "box_processes",
    "box_interpreters",
    "box_restoring",
    "box_saving",
    "box_supervisor",
)
_WORKER = (
    "box_wire",
    "box_proc",
    "box_files",
    "box_essentials",
    "box_imports",
    "box_ipython",
    "box_reserve",
    "box_signals",
    "box_streams",
    "box_code",
    "box_names",
    "box_show",
    "box_tools",
    "box_variables",
    "box_snapshot",
    "box_worker",
)

BOOT = (
    "import os\n"
    "def r(n):\n"
    " b=b''\n"
    " while len(b)<n:\n"
    "  c=os.read(0,n-len(b))\n"
    "  if not c: os._exit(1)\n"
    "  b+=c\n"
    " return b\n"
    "exec(compile(r(int(r(10))),'<actloop>','exec'))\n"
)
"""What PID 1 is started with: it reads ten digits, then a program of that many bytes, and runs it."""

# User code may replace any builtin and any function of a module; ours keeps those it began with.
_LOAD = """
import builtins, sys, types
_builtins = dict(vars(builtins))
_package = types.ModuleType("_box"); _package.__path__ = []; sys.modules["_box"] = _package
for _name, _text in _SOURCES:
    _module = types.ModuleType("_box." + _name); _module.__package__ = "_box"
    _module.__dict__["__builtins__"] = _builtins
    sys.modules[_module.__name__] = _module; setattr(_package, _name, _module)
    exec(compile(_text, "<actloop " + _name + ">", "exec", dont_inherit=True), _module.__dict__)
    for _key, _value in list(vars(_module).items()):
        if isinstance(_value, types.ModuleType) and _key not in ("sys", "builtins"):
            _own = types.ModuleType(_value.__name__); _own.__dict__.update(vars(_value)); setattr(_module, _key, _own)
"""


@cache
def _sources(names: tuple[str, ...]) -> str:
    folder = files("actloop.sandbox")
    return f"_SOURCES = {[(name, folder.joinpath(name + '.py').read_text('utf-8')) for name in names]!r}\n{_LOAD}"


def _worker_program(limits: Limits) -> bytes:
    return f"{_sources(_WORKER)}\n_package.box_worker.main(4, {limits.memory}, {WORKSPACE!r})\n".encode()


def supervisor_program(limits: Limits, ttl_s: float | None = None) -> bytes:
    """What is written to a new box first: the length as ten digits, then the supervisor with its settings.

    Args:
        limits: of the box.
        ttl_s: seconds without work after which it ends; None where it ends with its stream.
    """
    settings: dict[str, Any] = {
        "root": WORKSPACE,
        "transfer": limits.transfer,
        "grace_s": limits.grace_s,
        "ttl_s": ttl_s,
        "snapshot": limits.snapshot,
        "output": limits.output,
        # A flood must leave room for what the user makes.
        "output_file": min(limits.disk // 4, 64 << 20),
    }
    start = f"_package.box_supervisor.Supervisor({settings!r}, {_worker_program(limits)!r}).run()\n"
    program = f"{_sources(_SUPERVISOR)}\n{start}".encode()
    return b"%010d" % len(program) + program
