"""The program that runs in a box, as one text that is sent over the box's stream.

Nothing of ours has to be in the image and nothing is mounted: any image with Python 3.9 or later serves, and an engine
on another machine works like a local one. The text is sent over stdin and not as an argument, because the arguments of
PID 1 can be read by everything in the box.
"""

from functools import cache
from importlib.resources import files
from typing import Any

from actloop.config import Limits

from .box_carried import pack

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
    "box_journal",
    "box_reception",
    "box_saving",
    "box_restoring",
    "box_orders",
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
    "box_forks",
    "box_hints",
    "box_values",
    "box_tools",
    "box_telling",
    "box_carried",
    "box_memory",
    "box_snapshot",
    "box_worker",
)
_SNAPSHOTS = (
    "box_kinds",
    "box_makers",
    "box_class_rules",
    "box_array_rules",
    "box_pickler",
    "box_budget",
    "box_loading",
    "box_variables",
    "box_settings",
)
"""What the worker loads when it makes or restores its first snapshot."""

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


def _texts(names: tuple[str, ...]) -> list[tuple[str, str]]:
    folder = files("actloop.sandbox")
    return [(name, folder.joinpath(name + ".py").read_text("utf-8")) for name in names]


@cache
def _sources(names: tuple[str, ...]) -> str:
    return f"_SOURCES = {_texts(names)!r}\n{_LOAD}"


@cache
def _carried() -> str:
    """Give the worker what it loads later: cloudpickle, which no image has to have, and the parts for snapshots."""
    parts = [("cloudpickle", files("cloudpickle").joinpath("cloudpickle.py").read_text("utf-8")), *_texts(_SNAPSHOTS)]
    return f"_package.box_carried.TEXTS.append({pack(parts)!r})\n"


def _worker_program(limits: Limits) -> bytes:
    return f"{_sources(_WORKER)}\n{_carried()}_package.box_worker.main(4, {limits.memory}, {WORKSPACE!r})\n".encode()


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
