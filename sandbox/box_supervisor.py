"""The supervisor: PID 1 of a box. It owns the stream to the host, the time limits, the output and the journal of cells.

It runs no user code and reads none: a cell goes to the worker, a process of its own. Nothing in the box can kill
PID 1, and since it is not dumpable nothing in the box can read its memory or use its descriptors. What the worker says
is a claim, since user code shares that process: it can lie about its own result and about nothing else.

Between cells the worker makes a frozen copy of itself. When a cell kills the worker, the copy takes over, with the
variables as they were before that cell.

Standard library only, Python 3.9 and later.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import sys
import time
from typing import Any

from .box_calls import Calls
from .box_cell import Cell
from .box_files import Workspace
from .box_host import Host
from .box_interpreters import Interpreter, Interpreters
from .box_lease import Lease
from .box_pipes import Pipes
from .box_proc import end_all_but, oom_counter, set_dumpable, signal_name
from .box_processes import Processes
from .box_restoring import Restoring
from .box_saving import Saving, Writer
from .box_wire import Message

COPY_AFTER_S = 0.005
"""Seconds between a cell's end and the making of a copy: the record is on its way, and a fork would slow it down."""
MAX_FAILED_STARTS = 3
"""Workers in a row that may end before they are ready."""
JOURNAL = 16
"""Records kept, so that a host that missed one can ask again."""

_LATE_OUTPUT = "output that processes of an earlier cell wrote later is not shown"


class Supervisor:
    """The loop.

    Args:
        settings: limits, as `sandbox/program.py` writes them.
        worker_program: source text of the worker.
    """

    def __init__(self, settings: dict[str, Any], worker_program: bytes) -> None:
        self._settings = settings
        self._selector = selectors.DefaultSelector()
        self._host = Host(0, 1)
        self._lease = Lease(settings["ttl_s"])
        self._files = Workspace(settings["root"], settings["transfer"])
        self._pipes = Pipes(self._selector)
        self._processes = Processes()
        self._interpreters = Interpreters(self._selector, worker_program, self._processes.dying)
        self._oom = oom_counter()
        self._cell: Cell | None = None
        self._cells = 0
        self._point = ""
        self._journal: dict[str, Message] = {}
        self._news: list[str] = []
        self._missing: set[str] = set()
        self._copy_at: float | None = None
        self._writing = False
        self._python = ""
        self._waiting: list[Message] = []
        self._failed_starts = 0
        self._tools: list[Message] = []
        self._calls = Calls("")
        self._restoring = Restoring(self._host, self._files, self._interpreters)
        self._saving = Saving(self._selector, self._files, self._host, self._interpreters, settings["snapshot"])

    def run(self) -> None:
        """Serve until the host goes away."""
        set_dumpable(False)
        read, write = os.pipe()
        for fd in (read, write):
            os.set_blocking(fd, False)
        signal.set_wakeup_fd(write, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        # The kernel spares PID 1 every signal from inside that it has no handler for, and Python has one for SIGINT.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        signal.signal(signal.SIGPIPE, signal.SIG_IGN)
        self._selector.register(read, selectors.EVENT_READ, "signal")
        self._selector.register(0, selectors.EVENT_READ, "host")
        self._interpreters.start()
        watched = self._selector.get_map()
        while not self._host.gone and not self._is_over():
            self._want_write()
            for key, _ in self._selector.select(self._timeout()):
                # What came before it in this round may have closed it.
                if watched.get(key.fd) == key:
                    self._on_ready(key)
            self._on_time()
        end_all_but({os.getpid()})

    def _on_ready(self, key: selectors.SelectorKey) -> None:
        if isinstance(key.data, Interpreter):
            self._on_interpreter(key.data)
        elif key.data == "host":
            for message in self._host.read():
                self._on_host(message)
        elif key.data == "output" and self._cell is not None:
            if not self._cell.read(key.fd, self._pipes.now[key.fd], self._host):
                self._pipes.close(key.fd)
        elif key.data in ("output", "old"):
            if self._pipes.empty(key.fd) and _LATE_OUTPUT not in self._news:
                self._news.append(_LATE_OUTPUT)
        elif key.data == "write":
            self._host.flush()
        elif key.data == "signal":
            with contextlib.suppress(BlockingIOError):
                os.read(key.fd, 4096)
            self._reap()

    def _want_write(self) -> None:
        if self._host.pending and not self._writing:
            self._selector.register(1, selectors.EVENT_WRITE, "write")
        elif not self._host.pending and self._writing:
            self._selector.unregister(1)
        self._writing = self._host.pending

    # -- the host -------------------------------------------------------------------------------------------------

    def _on_host(self, message: Message) -> None:
        op = message.get("op")
        if op == "hello":
            self._on_hello(message)
        elif op == "who":
            self._host.send({"ev": "who", "by": message.get("by"), **self._about()})
        elif not self._lease.admits(message):
            self._host.send({"ev": "ousted", "by": message.get("by"), "holder": self._lease.holder})
        else:
            self._lease.heard(work=op != "beat")
            self._on_order(op, message)

    def _on_order(self, op: Any, message: Message) -> None:
        if op == "run":
            self._on_run(message)
        elif op == "interrupt":
            if self._cell is not None and message.get("id") in (None, self._cell.id):
                self._cell.stop("cancelled", self._interpreters.worker, self._settings["grace_s"])
        elif op == "cell":
            self._on_asked(str(message.get("id")))
        elif op in ("put", "get", "ls"):
            self._host.send(self._files.answer(message))
        elif op == "tools":
            self._tools = message["tools"]
        elif op in ("taken", "result"):
            self._on_call_of_host(op, message)
        elif op == "stored":
            self._saving.stored(str(message.get("id")))
        elif op == "confirmed":
            self._saving.confirmed(message)
        elif op == "bye":
            self._lease.let_go()
        elif self._cell is not None:
            self._host.send({"ev": "reply", "n": message.get("n"), "ok": False, "error": "busy", "text": "a cell runs"})
        elif op == "snapshot":
            self._saving.ask(str(message["id"]))
        elif op == "empty":
            self._on_empty(message)
        elif op == "unit":
            self._restoring.unit(message)
        elif op == "arrive":
            self._on_arrive(message)

    def _on_hello(self, message: Message) -> None:
        worker = self._interpreters.worker
        if worker is None or not worker.ready:
            self._waiting.append(message)
            return
        ok = self._lease.take(message)
        about = {**self._about(), "cells": list(self._journal)} if ok else self._about()
        self._host.send({"ev": "hello", "by": message.get("by"), "ok": ok, **about})

    def _about(self) -> Message:
        worker = self._interpreters.worker
        return {
            "python": self._python,
            "thread": self._lease.thread,
            "title": self._lease.title,
            "holder": self._lease.holder,
            "silent_s": self._lease.silent_s,
            "idle_s": self._lease.idle_s,
            "ttl_s": self._lease.ttl_s,
            "point": self._point,
            "running": self._cell.id if self._cell is not None else None,
            "waits": bool(self._calls.pending),
            "names": worker.names if worker is not None else [],
        }

    def _on_asked(self, cell_id: str) -> None:
        """Tell a host that has come anew of a cell, and of what it waits for."""
        self._host.send(self._cell_status(cell_id))
        if self._cell is not None and self._cell.id == cell_id:
            self._cell.live = True
            self._calls.tell_again(self._host)

    def _on_call_of_host(self, op: str, message: Message) -> None:
        if self._cell is None or message.get("id") != self._cell.id:
            return
        if op == "taken":
            self._calls.take_up(message)
            return
        self._calls.answer(message)
        if not self._calls.pending:
            self._cell.go_on()

    # -- to another point -----------------------------------------------------------------------------------------

    def _on_empty(self, message: Message) -> None:
        """Begin anew: no variable, no file, no process of a cell is left."""
        self._saving.give_up("the session was brought to another point")
        self._interpreters.drop_all()
        end_all_but({os.getpid()})
        self._processes.collect({os.getpid()})
        self._processes.forget_stock()
        self._pipes.retire()
        self._restoring.empty()
        self._point, self._journal, self._news, self._missing, self._copy_at = "", {}, [], set(), None
        self._waiting.append(message)
        self._interpreters.start()

    def _on_arrive(self, message: Message) -> None:
        """All of a snapshot is here."""
        self._files.place(message["folders"], message["links"])
        self._saving.assume(message)
        self._point = str(message["point"])
        self._cells = max(self._cells, int(message["cells"]))
        if self._interpreters.worker is not None:
            self._interpreters.worker.names = [str(name) for name in message["names"]]
        self._copy_at = time.monotonic()
        self._host.send({"ev": "reply", "n": message.get("n"), "ok": True})

    def _cell_status(self, cell_id: str) -> Message:
        if cell_id in self._journal:
            return self._journal[cell_id]
        running = self._cell is not None and self._cell.id == cell_id
        return {"ev": "status", "id": cell_id, "status": "running" if running else "unknown"}

    def _on_run(self, message: Message) -> None:
        cell_id = str(message["id"])
        if cell_id in self._journal or (self._cell is not None and self._cell.id == cell_id):
            self._host.send(self._cell_status(cell_id))
            return
        if self._cell is not None:
            self._host.send({"ev": "refused", "id": cell_id})
            return
        self._cells += 1
        self._cell = Cell(message, self._cells, self._settings)
        self._calls = Calls(cell_id)

    def _advance(self) -> None:
        """Take the steps between two cells that are possible now: a copy, a snapshot, then the next cell."""
        worker = self._interpreters.worker
        if worker is None or not worker.ready or (self._cell is not None and self._cell.started):
            return
        if self._copy_at is not None and (self._cell is not None or time.monotonic() >= self._copy_at):
            self._ask_for_copy()
        if self._saving.asked and self._copy_at is None and self._interpreters.coming is None:
            self._saving.begin()
        if self._cell is not None and not self._saving.holds_up:
            self._begin(self._cell, worker)

    def _begin(self, cell: Cell, worker: Interpreter) -> None:
        if worker.tools is not self._tools:
            worker.tools = self._tools
            with contextlib.suppress(OSError):
                worker.channel.send({"op": "tools", "tools": self._tools})
        ends = self._pipes.renew()
        if not self._processes.stock_taken:
            self._saving.settle()
            self._processes.take_stock(self._interpreters.own())
        self._processes.begin(worker.threads)
        cell.begin(worker, ends, self._processes.known, self._oom.read())
        for fd in ends:
            os.close(fd)

    # -- the interpreters -----------------------------------------------------------------------------------------

    def _on_interpreter(self, who: Interpreter) -> None:
        if isinstance(who, Writer):
            self._saving.on_writer(who)
            return
        try:
            messages, alive = who.channel.poll()
        except EOFError:
            messages, alive = [], False
        for message in messages:
            self._on_message(who, message)
        if alive:
            return
        with contextlib.suppress(KeyError, ValueError):
            self._selector.unregister(who.channel)
        if who is self._interpreters.coming:
            self._interpreters.coming = None
            who.channel.close()
            self._news.append("no copy of the interpreter could be made before this cell")
        elif who is self._interpreters.worker:
            # It closed its socket or became another program. In a cell it may go on until it ends or its time is
            # over; nobody but the cell started it.
            if self._cell is None or not self._cell.started:
                with contextlib.suppress(OSError):
                    os.kill(who.pid, signal.SIGKILL)
            self._reap()

    def _on_message(self, who: Interpreter, message: Message) -> None:
        op = message.get("op")
        if op == "frozen" and who is self._interpreters.coming:
            self._interpreters.on_frozen(message)
            self._reap()
            if self._cell is None and not self._saving.asked:
                self._processes.take_stock(self._interpreters.own())
        elif who is not self._interpreters.worker:
            return
        elif op == "ready":
            who.ready = True
            self._failed_starts = 0
            self._python = str(message.get("python"))
            waiting, self._waiting = self._waiting, []
            for asked in waiting:
                if asked["op"] == "hello":
                    self._on_hello(asked)
                else:
                    self._host.send({"ev": "reply", "n": asked.get("n"), "ok": True})
        elif self._cell is not None and op == "display" and isinstance(message.get("display"), dict):
            self._cell.show(message["display"], self._host)
        elif op == "call":
            self._on_call(message)
        elif op == "loaded":
            self._restoring.on_loaded(message)
        elif self._cell is not None and op == "done" and message.get("id") == self._cell.id:
            self._finish(who, message)

    def _on_call(self, message: Message) -> None:
        fds = message.pop("fds", [])
        if len(fds) != 1:
            for fd in fds:
                os.close(fd)
            return
        fd = fds[0]
        if self._cell is None or not self._cell.started:
            os.close(fd)
            return
        self._cell.hold()
        self._calls.begin(message, fd, self._host)

    def _ask_for_copy(self) -> None:
        self._copy_at = None
        why_not = self._interpreters.ask_for_copy()
        if why_not:
            self._news.append(why_not)

    def _reap(self) -> None:
        """Collect every process that ended; PID 1 is the parent of all that others left behind."""
        fallen: Any | None = None
        ended = 0
        while True:
            try:
                pid, status, usage = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                break
            if pid == 0:
                break
            ended += 1
            self._processes.dying.discard(pid)
            worker, copy = self._interpreters.worker, self._interpreters.copy
            if worker is not None and pid == worker.pid:
                fallen = (status, usage)
            elif copy is not None and pid == copy.pid:
                self._interpreters.copy = None
                copy.pid = 0
                self._interpreters.drop(copy)
        if fallen is not None:
            self._on_worker_end(fallen[0], fallen[1])
        elif ended and self._cell is None and self._processes.stock_taken:
            # The writer of a snapshot, for example; the next cell shall not have to look where a process has gone.
            self._processes.take_stock(self._interpreters.own())

    def _on_worker_end(self, status: int, usage: Any) -> None:
        """Let the copy take over, and say what became of the cell and of the variables."""
        worker, self._interpreters.worker = self._interpreters.worker, None
        assert worker is not None
        self._failed_starts += not worker.ready
        if self._failed_starts >= MAX_FAILED_STARTS:
            print("the interpreter ended again and again while it started", file=sys.stderr)
            self._host.gone = True
            return
        self._interpreters.settle()
        self._saving.settle()
        self._restoring.on_worker_end()
        cell = self._cell if self._cell is not None and self._cell.started else None
        if cell is not None:
            with contextlib.suppress(EOFError):
                for message in worker.channel.poll()[0]:
                    if message.get("op") == "display" and isinstance(message.get("display"), dict):
                        cell.show(message["display"], self._host)
            end_all_but((self._processes.known - {worker.pid}) | self._interpreters.own())
            self._processes.collect(self._interpreters.own())
        worker.pid = 0
        self._interpreters.drop(worker)
        threads = self._interpreters.copy.threads if self._interpreters.copy else 0
        kept = self._interpreters.take_over()
        self._processes.forget_stock()
        now = self._interpreters.worker
        self._missing |= set(worker.names) - set(now.names if now is not None else ())
        if threads:
            self._news.append(f"{threads} threads that ran before this cell are gone")
        if cell is not None:
            state = "rolled_back" if kept or not worker.names else "lost"
            self._close_cell(cell.record_of_end(status, usage, self._oom.read(), state))
        else:
            how = signal_name(os.WTERMSIG(status)) if os.WIFSIGNALED(status) else "exit"
            then = "it went on from its last copy" if kept else "its variables are gone"
            self._news.append(f"the interpreter ended between cells ({how}); {then}")
        if kept:
            self._copy_at = time.monotonic() + COPY_AFTER_S

    # -- the end of a cell ----------------------------------------------------------------------------------------

    def _finish(self, worker: Interpreter, done: Message) -> None:
        assert self._cell is not None
        if isinstance(done.get("all"), list):
            worker.names = [name for name in done["all"] if isinstance(name, str)]
        worker.threads = int(done.get("threads") or 0)
        record = self._cell.record_of_done(done, self._oom.read())
        self._close_cell(record, pipes_kept=done.get("pipes") is True)
        self._copy_at = time.monotonic() + COPY_AFTER_S

    def _close_cell(self, record: Message, pipes_kept: bool = False) -> None:
        cell, self._cell = self._cell, None
        assert cell is not None
        for fd, stream in self._pipes.now.items():
            cell.read(fd, stream, self._host, all_of_it=True)
        cell.end_live(self._host)
        cell.log.close()
        record.update(cell.log.outputs())
        record["files"] = self._files.changes()
        record["lost_names"] = sorted(self._missing)
        survivors = self._survivors()
        record["notes"] += self._news + survivors
        record["host_calls"] = self._calls.close()
        if survivors or not pipes_kept:
            self._pipes.retire()
        self._news, self._missing = [], set()
        message = {"ev": "done", "id": cell.id, "record": record}
        for older in self._journal.values():
            # The newest is the one that a host may have missed; the displays of all would fill the memory.
            older["record"]["displays"] = []
        self._journal[cell.id] = message
        while len(self._journal) > JOURNAL:
            del self._journal[next(iter(self._journal))]
        self._point = cell.id
        self._lease.heard(work=True)
        if cell.snapshot:
            self._saving.ask(cell.id)
        self._host.send(message)

    def _survivors(self) -> list[str]:
        worker = self._interpreters.worker
        if self._interpreters.coming is None and self._processes.unchanged(worker.threads if worker else -1):
            return []
        self._interpreters.settle()
        self._saving.settle()
        notes, many = self._processes.survivors(self._interpreters.own())
        self._processes.forget_stock()
        if many and worker is not None:
            with contextlib.suppress(OSError):
                worker.channel.send({"op": "reap"})
        return notes

    # -- time -----------------------------------------------------------------------------------------------------

    def _timeout(self) -> float | None:
        steps = [
            self._copy_at,
            self._cell.next_step if self._cell is not None else None,
            self._lease.ends_at if self._cell is None or self._calls.pending else None,
            self._saving.deadline,
            self._restoring.deadline,
        ]
        due = [step for step in steps if step is not None]
        return max(0.0, min(due) - time.monotonic()) if due else None

    def _is_over(self) -> bool:
        """Whether nobody has done anything here for so long that the box ends; a cell that runs is something."""
        ends_at = self._lease.ends_at
        if ends_at is None or time.monotonic() < ends_at:
            return False
        return self._cell is None or self._calls.pending

    def _on_time(self) -> None:
        self._restoring.on_time()
        if self._saving.deadline is not None and time.monotonic() >= self._saving.deadline:
            self._saving.give_up("reading the files took too long", holding_up=True)
        self._advance()
        cell, worker = self._cell, self._interpreters.worker
        if (
            cell is not None
            and cell.next_step is not None
            and time.monotonic() >= cell.next_step
            and worker is not None
        ):
            cell.next_stop(worker, self._settings["grace_s"])
