"""Interpreters as the worker makes them, without a box: one that runs cells and saves, another that loads and goes on.

Two processes are started once, each with an order of its own for the items of sets, and fork for each job.
"""

import contextlib
import itertools
import json
import os
import pickle
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from actloop.sandbox import program

_PARTS = tuple(name for name in program._WORKER if name != "box_worker")

_START = """
import builtins, inspect, json, os, pickle, sys, types
box = _package
box.box_carried.carried("box_variables")
sys.dont_write_bytecode = True
sys.argv = [""]
getfile = inspect.getfile

def begin(order):
    global compiler, settings, main, space
    main = types.ModuleType("__main__"); main.__dict__["__builtins__"] = builtins; sys.modules["__main__"] = main
    space = main.__dict__
    os.chdir(order["root"])
    compiler = box.box_code.Compiler()
    settings = box.box_memory.Memory(compiler, order["root"]).prepare()
    inspect.getfile = lambda thing: compiler.inspect_file(thing) or getfile(thing)

def run(cell, number):
    body, last, _ = compiler.compile(cell, box.box_code.CELL_PREFIX + str(number) + ">")
    if body is not None:
        exec(body, space)
    return None if last is None else repr(eval(last, space))

def fork(call, *arguments):
    pid = os.fork()
    if not pid:
        code = 1
        try:
            call(*arguments)
            code = 0
        except BaseException:
            sys.__excepthook__(*sys.exc_info())
        finally:
            sys.stdout.flush()
            os._exit(code)
    return os.waitpid(pid, 0)[1]

def write(path, value):
    with open(path, "wb") as file:
        pickle.dump(value, file)

def save_once(order, taken, path):
    begun = []
    limits = box.box_budget.SaveLimits(*order["limits"])
    found = list(box.box_variables.save(space, limits, compiler.class_cells, begun.append, order["refused"]))
    units = [(u.names, u.needs, [bytes(part) for part in u.contents], u.notes) for u in found if hasattr(u, "names")]
    skipped = {u.name: (u.type, u.why) for u in found if not hasattr(u, "names")}
    write(path, (units, skipped, begun, box.box_settings.pack(taken)))

def save(order):
    begin(order)
    for number, cell in enumerate(order["cells"]):
        run(cell, number + 1)
    taken = settings.take()
    for path in order["paths"]:
        assert fork(save_once, order, taken, path) == 0, "the process that saves has died"
    write(order["result"], [run(cell, 100 + number) for number, cell in enumerate(order["then"])])

def load(order):
    begin(order)
    with open(order["path"], "rb") as file:
        units, skipped, begun, packed = pickle.load(file)
    state = box.box_settings.unpack(packed)
    problems = settings.begin_restore(state)
    failed = {}
    for names, needs, contents, notes in units:
        contents = [contents[0], *map(bytearray, contents[1:])]
        failed.update(box.box_loading.load(names, contents, space, compiler.class_cells))
    problems += settings.end_restore(state)
    write(order["result"], (failed, problems, [run(cell, 100 + number) for number, cell in enumerate(order["then"])]))

def job(order):
    file = os.open(order["output"], os.O_WRONLY | os.O_CREAT, 0o600)
    os.dup2(file, 1)
    os.dup2(file, 2)
    {"save": save, "load": load}[order["do"]](order)

answer = os.dup(1)
for line in sys.stdin:
    os.write(answer, b"%d\\n" % fork(job, json.loads(line)))
"""


@dataclass(frozen=True)
class Taken:
    """A snapshot of variables: units as `box_variables.Saved`, type and reason by name of what was skipped."""

    path: Path
    units: list[tuple[list[str], list[str], list[bytes], list[str]]]
    skipped: dict[str, tuple[str, str]]
    begun: list[str]
    results: list[str | None]

    @property
    def names(self) -> list[str]:
        return [name for unit in self.units for name in unit[0]]

    @property
    def notes(self) -> list[str]:
        return [note for unit in self.units for note in unit[3]]

    def contents(self, name: str) -> list[bytes]:
        return next(unit[2] for unit in self.units if name in unit[0])


@dataclass(frozen=True)
class Loaded:
    failed: dict[str, str]
    problems: list[str]
    results: list[str | None]


class Forks:
    """The two processes that fork for each job.

    Args:
        folder: for their program.
        python: what runs it.
    """

    def __init__(self, folder: Path, python: str = sys.executable) -> None:
        file = folder / "program.py"
        file.write_text(f"{program._sources(_PARTS)}\n{program._carried()}{_START}", encoding="utf-8")
        self._processes = [
            subprocess.Popen(
                # Without the host's packages, cloudpickle among them.
                [python, *(["-S"] if python == sys.executable else []), "-u", str(file)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": "", "PYTHONWARNINGS": "ignore"},
            )
            for seed in ("1", "2")
        ]

    def run(self, order: dict[str, Any]) -> int:
        """Have a job done; its exit status."""
        process = self._processes[order["do"] == "load"]
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps(order).encode() + b"\n")
        process.stdin.flush()
        return int(process.stdout.readline())

    def close(self) -> None:
        for process in self._processes:
            process.communicate()


@contextlib.contextmanager
def forks(folder: Path, python: str = sys.executable) -> Iterator[Forks]:
    """Start the two processes."""
    made = Forks(folder, python)
    try:
        yield made
    finally:
        made.close()


@dataclass
class Interpreters:
    """Interpreters for one test.

    Args:
        forks: make them.
        folder: their workspace.
        limits: of a snapshot, as `box_budget.SaveLimits`.
        refused: variables to leave out.
    """

    forks: Forks
    folder: Path
    limits: list[float] = field(default_factory=lambda: [64 << 20, 256 << 20, 20.0])
    refused: dict[str, str] = field(default_factory=dict)
    _count: Iterator[int] = field(default_factory=itertools.count)

    def _do(self, order: dict[str, Any]) -> tuple[Any, str]:
        result, output = self._file("result"), self._file("output")
        status = self.forks.run({**order, "root": str(self.folder), "result": str(result), "output": str(output)})
        text = output.read_text(encoding="utf-8")
        assert status == 0, text[-3000:]
        return pickle.loads(result.read_bytes()), text

    def _file(self, name: str) -> Path:
        return self.folder.parent / f"{self.folder.name}-{name}-{next(self._count)}"

    def save(self, *cells: str, then: list[str] | None = None) -> Taken:
        """Run cells, save twice, each time in a fork, and check that both are the same; then run more cells."""
        paths = [self._file("snapshot") for _ in range(2)]
        order: dict[str, Any] = {"do": "save", "cells": cells, "paths": list(map(str, paths)), "then": then or []}
        results, printed = self._do({**order, "limits": self.limits, "refused": self.refused})
        assert printed == ""
        first, second = (pickle.loads(path.read_bytes()) for path in paths)
        assert first == second, "two forks of one state must give the same bytes"
        units, skipped, begun, _ = first
        return Taken(paths[0], units, skipped, begun, results)

    def load(self, taken: Taken, *then: str) -> Loaded:
        """Load a snapshot in a new interpreter and run cells there."""
        return Loaded(*self._do({"do": "load", "path": str(taken.path), "then": then})[0])
