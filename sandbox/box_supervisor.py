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

from .box_cell import Cell
from .box_files import Workspace
from .box_host import Host
from .box_interpreters import Interpreter, Interpreters
from .box_journal import Journal
from .box_lease import Lease
from .box_orders import Orders
from .box_pipes import Pipes
from .box_proc import end_all_but, oom_counter, set_dumpable, signal_name
from .box_processes import Processes
from .box_reception import Reception
from .box_restoring import Restoring
from .box_saving import Saving, Writer
from .box_wire import Message

MAX_FAILED_STARTS = 3
"""Workers in a row that may end before they are ready."""

_LATE_OUTPUT = "output that processes of an earlier cell wrote later is not shown"


class Supervisor:
    """The loop.

    Args:
        settings: limits, as `sandbox/program.py` writes them.
        worker_program: source text of the worker.
    """

    def __init__(self, settings: dict[str, Any], worker_program: bytes) -> None:
        self._selector = selectors.DefaultSelector()
        self._host = Host(0, 1)
        self._lease = Lease(settings["ttl_s"])
        self._files = Workspace(settings["root"], settings["transfer"])
        self._pipes = Pipes(self._selector)
        self._processes = Processes()
        self._interpreters = Interpreters(self._selector, worker_program, self._processes.dying)
        self._oom = oom_counter()
        self._writing = False
        self._failed_starts = 0
        self._journal = Journal(settings)
        self._saving = Saving(self._selector, self._files, self._host, self._interpreters, settings["snapshot"])
        self._restoring = Restoring(
            self._host, self._files, self._pipes, self._processes, self._interpreters, self._saving, self._journal
        )
        self._reception = Reception(self._host, self._lease, self._interpreters, self._journal)
        self._orders = Orders(self._host, self._files, self._interpreters, self._journal, self._saving, self._restoring)

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
                if self._reception.admits(message):
                    self._orders.obey(message)
        elif key.data == "output" and self._journal.cell is not None:
            if not self._journal.cell.read(key.fd, self._pipes.now[key.fd], self._host):
                self._pipes.close(key.fd)
        elif key.data in ("output", "old"):
            if self._pipes.empty(key.fd):
                self._journal.note(_LATE_OUTPUT, once=True)
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

    # -- the beginning of a cell ----------------------------------------------------------------------------------

    def _advance(self) -> None:
        """Take the steps between two cells that are possible now: a copy, a snapshot, then the next cell."""
        worker, cell = self._interpreters.worker, self._journal.cell
        if worker is None or not worker.ready or self._journal.started is not None:
            return
        copy_at = self._interpreters.copy_at
        if copy_at is not None and (cell is not None or time.monotonic() >= copy_at):
            why_not = self._interpreters.ask_for_copy()
            if why_not:
                self._journal.note(why_not)
        if self._saving.asked and self._interpreters.copy_at is None and self._interpreters.coming is None:
            self._saving.begin()
        if cell is not None and not self._saving.holds_up:
            self._begin(cell, worker)

    def _begin(self, cell: Cell, worker: Interpreter) -> None:
        self._interpreters.teach(worker)
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
            self._journal.note("no copy of the interpreter could be made before this cell")
        elif who is self._interpreters.worker:
            # It closed its socket or became another program. In a cell it may go on until it ends or its time is
            # over; nobody but the cell started it.
            if self._journal.started is None:
                with contextlib.suppress(OSError):
                    os.kill(who.pid, signal.SIGKILL)
            self._reap()

    def _on_message(self, who: Interpreter, message: Message) -> None:
        op = message.get("op")
        if op == "frozen" and who is self._interpreters.coming:
            self._interpreters.on_frozen(message)
            self._reap()
            if self._journal.cell is None and not self._saving.asked:
                self._processes.take_stock(self._interpreters.own())
        elif who is not self._interpreters.worker:
            return
        elif op == "ready":
            who.ready = True
            self._failed_starts = 0
            self._reception.on_ready(str(message.get("python")))
            self._restoring.on_ready()
        elif op == "display":
            self._on_display(message)
        elif op == "call":
            self._on_call(message)
        elif op == "loaded":
            self._restoring.on_loaded(message)
        elif op == "done" and self._journal.cell is not None and message.get("id") == self._journal.cell.id:
            self._finish(self._journal.cell, who, message)

    def _on_display(self, message: Message) -> None:
        if self._journal.cell is not None and isinstance(message.get("display"), dict):
            self._journal.cell.show(message["display"], self._host)

    def _on_call(self, message: Message) -> None:
        fds = message.pop("fds", [])
        if len(fds) != 1:
            for fd in fds:
                os.close(fd)
            return
        cell = self._journal.started
        if cell is None:
            os.close(fds[0])
            return
        self._journal.calls.begin(message, fds[0], self._host)
        if self._journal.calls.pending:
            cell.hold()

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
        elif ended and self._journal.cell is None and self._processes.stock_taken:
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
        cell = self._journal.started
        if cell is not None:
            with contextlib.suppress(EOFError):
                for message in worker.channel.poll()[0]:
                    if message.get("op") == "display":
                        self._on_display(message)
            end_all_but((self._processes.known - {worker.pid}) | self._interpreters.own())
            self._processes.collect(self._interpreters.own())
        worker.pid = 0
        self._interpreters.drop(worker)
        threads = self._interpreters.copy.threads if self._interpreters.copy else 0
        kept = self._interpreters.take_over()
        self._processes.forget_stock()
        now = self._interpreters.worker
        self._journal.miss(set(worker.names) - set(now.names if now is not None else ()))
        if threads:
            self._journal.note(f"{threads} threads that ran before this cell are gone")
        if cell is not None:
            state = "rolled_back" if kept or not worker.names else "lost"
            self._close(cell, cell.record_of_end(status, usage, self._oom.read(), state))
        else:
            how = signal_name(os.WTERMSIG(status)) if os.WIFSIGNALED(status) else "exit"
            then = "it went on from its last copy" if kept else "its variables are gone"
            self._journal.note(f"the interpreter ended between cells ({how}); {then}")
        if kept:
            self._interpreters.plan_copy()

    # -- the end of a cell ----------------------------------------------------------------------------------------

    def _finish(self, cell: Cell, worker: Interpreter, done: Message) -> None:
        if isinstance(done.get("all"), list):
            worker.names = [name for name in done["all"] if isinstance(name, str)]
        worker.threads = int(done.get("threads") or 0)
        record = cell.record_of_done(done, self._oom.read())
        self._close(cell, record, pipes_kept=done.get("pipes") is True)
        self._interpreters.plan_copy()

    def _close(self, cell: Cell, record: Message, pipes_kept: bool = False) -> None:
        for fd, stream in self._pipes.now.items():
            cell.read(fd, stream, self._host, all_of_it=True)
        cell.end_live(self._host)
        cell.log.close()
        record.update(cell.log.outputs())
        record["files"] = self._files.changes()
        survivors = self._survivors()
        if survivors or not pipes_kept:
            self._pipes.retire()
        message = self._journal.end(cell, record, survivors)
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
        cell = self._journal.cell
        steps = [
            self._interpreters.copy_at,
            cell.next_step if cell is not None else None,
            None if self._journal.working else self._lease.ends_at,
            self._saving.deadline,
            self._restoring.deadline,
        ]
        due = [step for step in steps if step is not None]
        return max(0.0, min(due) - time.monotonic()) if due else None

    def _is_over(self) -> bool:
        """Whether nobody has done anything here for so long that the box ends; a cell that runs is something."""
        ends_at = self._lease.ends_at
        return ends_at is not None and time.monotonic() >= ends_at and not self._journal.working

    def _on_time(self) -> None:
        self._restoring.on_time()
        if self._saving.deadline is not None and time.monotonic() >= self._saving.deadline:
            self._saving.give_up("reading the files took too long", holding_up=True)
        self._advance()
        cell, worker = self._journal.cell, self._interpreters.worker
        due = cell is not None and cell.next_step is not None and time.monotonic() >= cell.next_step
        if cell is not None and due and worker is not None:
            cell.next_stop(worker)
