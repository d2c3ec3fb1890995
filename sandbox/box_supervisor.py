"""The supervisor: PID 1 of a box. It owns the stream to the host, the time limits, the output and the journal of cells.

It runs no user code and reads none: a cell goes to the worker, a process of its own. Nothing in the box can kill
PID 1, and since it is not dumpable nothing in the box can read its memory or use its descriptors. What the worker says
is a claim, since user code shares that process: it can lie about its own result and about nothing else.

Between cells the worker makes a frozen copy of itself. When a cell kills the worker, the copy takes over, with the
variables as they were before that cell.

Standard library only, Python 3.9 and later.
"""

from __future__ import annotations

import base64
import contextlib
import os
import selectors
import signal
import socket
import struct
import sys
import time
from typing import Any

from .box_cell import Cell
from .box_files import Workspace
from .box_host import Host
from .box_proc import (
    end_all_but,
    is_zombie,
    memory_room,
    oom_counter,
    pids,
    resident_bytes,
    set_dumpable,
    signal_name,
    task_counter,
)
from .box_wire import EXIT_NO_CHANNEL, Channel, Message

MAX_SURVIVORS = 8
"""Processes that may live on after their cell, as a server does that the next cell talks to; more are ended."""
JOURNAL = 16
"""Records kept, so that a host that missed one can ask again."""
TAKE_OVER_S = 5.0
"""Seconds that a frozen copy may take to wake."""

_LATE_OUTPUT = "output that processes of an earlier cell wrote later is not shown"
_WORKER_START = "import os\nwith os.fdopen(3,'rb') as f: s=f.read()\nexec(compile(s,'<actloop worker>','exec'))"


class Interpreter:
    """A worker, or a frozen copy of one."""

    def __init__(self, channel: Channel, pid: int = 0) -> None:
        self.channel = channel
        self.pid = pid
        self.ready = False
        self.names: list[str] = []
        self.threads = 0


class Supervisor:
    """The loop.

    Args:
        settings: limits, as `sandbox/program.py` writes them.
        worker_program: source text of the worker.
    """

    def __init__(self, settings: dict[str, Any], worker_program: bytes) -> None:
        self._settings = settings
        self._program = worker_program
        self._selector = selectors.DefaultSelector()
        self._host = Host(0, 1)
        self._files = Workspace(settings["root"], settings["transfer"])
        self._worker: Interpreter | None = None
        self._copy: Interpreter | None = None
        self._next_copy: Interpreter | None = None
        self._cell: Cell | None = None
        self._cells = 0
        self._journal: dict[str, Message] = {}
        self._names: list[str] = []
        self._news: list[str] = []
        self._missing: set[str] = set()
        self._pipes: dict[int, str] = {}
        self._old_pipes: dict[int, None] = {}
        self._oom = oom_counter()
        self._tasks = task_counter()
        self._stock: tuple[int, set[int]] | None = None
        self._stock_threads = 0
        self._dying: set[int] = set()
        self._writing = False
        self._greeted = False

    def run(self) -> None:
        """Serve until the host goes away."""
        set_dumpable(False)
        read, write = os.pipe()
        for fd in (read, write):
            os.set_blocking(fd, False)
        signal.set_wakeup_fd(write, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
        signal.signal(signal.SIGPIPE, signal.SIG_IGN)
        self._selector.register(read, selectors.EVENT_READ, "signal")
        self._selector.register(0, selectors.EVENT_READ, "host")
        self._start_worker()
        while not self._host.gone:
            self._want_write()
            watched = self._selector.get_map()
            for key, _ in self._selector.select(self._timeout()):
                # What came before it in this round may have closed it.
                if watched.get(key.fd) == key:
                    self._on_ready(key)
            self._on_time()
        end_all_but({os.getpid()})

    def _on_ready(self, key: selectors.SelectorKey) -> None:
        if key.data == "host":
            for message in self._host.read():
                self._on_host(message)
        elif key.data == "write":
            self._host.flush()
        elif key.data == "signal":
            with contextlib.suppress(BlockingIOError):
                os.read(key.fd, 4096)
            self._reap()
        elif key.data == "output":
            self._read_output(key.fd)
        elif key.data == "old":
            self._read_old(key.fd)
        elif isinstance(key.data, Interpreter):
            self._on_interpreter(key.data)

    def _want_write(self) -> None:
        if self._host.pending and not self._writing:
            self._selector.register(1, selectors.EVENT_WRITE, "write")
        elif not self._host.pending and self._writing:
            self._selector.unregister(1)
        self._writing = self._host.pending

    # -- the host -------------------------------------------------------------------------------------------------

    def _on_host(self, message: Message) -> None:
        op = message.get("op")
        if op == "run":
            self._on_run(message)
        elif op == "interrupt":
            if self._cell is not None and message.get("id") in (None, self._cell.id):
                self._cell.stop("cancelled", self._worker, self._settings["grace_s"])
        elif op == "cell":
            self._host.send(self._cell_status(str(message.get("id"))))
        elif op in ("put", "get", "ls"):
            self._host.send(self._on_file(op, message))

    def _cell_status(self, cell_id: str) -> Message:
        if cell_id in self._journal:
            return self._journal[cell_id]
        running = self._cell is not None and self._cell.id == cell_id
        return {"ev": "status", "id": cell_id, "status": "running" if running else "unknown"}

    def _on_file(self, op: str, message: Message) -> Message:
        reply: Message = {"ev": "reply", "n": message.get("n"), "ok": True}
        try:
            if op == "ls":
                reply["files"] = self._files.ls()
            elif op == "get":
                data, size = self._files.get(str(message["path"]), int(message["offset"]), int(message["size"]))
                reply["data"], reply["total"] = base64.b64encode(data).decode("ascii"), size
            else:
                data = base64.b64decode(message["data"])
                self._files.put(message["n"], str(message["path"]), data, message["first"], message["last"])
        except (ValueError, KeyError, TypeError, OSError) as error:
            missing = isinstance(error, FileNotFoundError)
            text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
            reply.update(ok=False, error="missing" if missing else "refused", text=text)
        return reply

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
        if self._worker is not None and self._worker.ready:
            self._begin()

    def _begin(self) -> None:
        assert self._cell is not None
        assert self._worker is not None
        ends = () if self._pipes else self._make_pipes()
        count, known = self._stock or self._take_stock()
        self._stock = (count, known)
        self._stock_threads = self._worker.threads
        self._cell.begin(self._worker, ends, known, self._oom.read())
        for fd in ends:
            os.close(fd)

    def _make_pipes(self) -> tuple[int, ...]:
        """New output pipes; they serve one cell after the other until something else than the worker may hold them."""
        ends = []
        for stream in ("stdout", "stderr"):
            read, write = os.pipe()
            os.set_blocking(read, False)
            self._pipes[read] = stream
            self._selector.register(read, selectors.EVENT_READ, "output")
            ends.append(write)
        return tuple(ends)

    def _take_stock(self) -> tuple[int, set[int]]:
        """How many tasks the box has, and which processes."""
        return self._tasks.read(), pids()

    # -- worker and copies ----------------------------------------------------------------------------------------

    def _start_worker(self) -> None:
        ours, theirs = _sockets()
        program = os.memfd_create("worker")
        os.write(program, self._program)
        os.lseek(program, 0, os.SEEK_SET)
        pid = _fork()
        if pid == 0:
            try:
                null = os.open(os.devnull, os.O_RDWR)
                for fd in (0, 1, 2):
                    os.dup2(null, fd)
                # By way of high numbers: 3 and 4 may be in use for what is to be moved.
                for source, number in ((program, 200), (theirs.fileno(), 201), (200, 3), (201, 4)):
                    os.dup2(source, number)
                os.closerange(5, 256)
                os.execv(sys.executable, [sys.executable, "-I", "-c", _WORKER_START])
            finally:
                os._exit(EXIT_NO_CHANNEL)
        os.close(program)
        theirs.close()
        self._worker = Interpreter(Channel(ours), pid)
        self._selector.register(ours, selectors.EVENT_READ, self._worker)
        self._names = []

    def _on_interpreter(self, who: Interpreter) -> None:
        try:
            messages, alive = who.channel.poll()
        except EOFError:
            messages, alive = [], False
        for message in messages:
            op = message.get("op")
            if op == "ready" and who is self._worker:
                self._on_worker_ready(message)
            elif op == "frozen" and who is self._next_copy:
                self._on_frozen(who, message)
            elif who is self._worker and self._cell is not None:
                if op == "display" and isinstance(message.get("display"), dict):
                    self._cell.show(message["display"], self._host)
                elif op == "done" and message.get("id") == self._cell.id:
                    self._finish(message)
        if not alive:
            with contextlib.suppress(KeyError, ValueError):
                self._selector.unregister(who.channel)
            if who is self._next_copy:
                self._next_copy = None
                who.channel.close()
                self._news.append("no copy of the interpreter could be made before this cell")
            if who is self._worker:
                # It closed its socket or became another program. In a cell it may go on until it ends or its time is
                # over; nobody but the cell started it.
                if self._cell is None or not self._cell.started:
                    with contextlib.suppress(OSError):
                        os.kill(who.pid, signal.SIGKILL)
                self._reap()

    def _on_worker_ready(self, message: Message) -> None:
        assert self._worker is not None
        self._worker.ready = True
        if not self._greeted:
            self._greeted = True
            self._host.send({"ev": "ready", "python": message.get("python")})
        if self._cell is not None:
            self._begin()

    def _ask_for_copy(self) -> None:
        """Have the worker fork; it does so before it takes the next cell, while the model thinks."""
        worker = self._worker
        if worker is None or not worker.ready or self._next_copy is not None:
            return
        room = memory_room()
        if room is not None and resident_bytes(worker.pid) + (16 << 20) > room:
            self._news.append(
                "no copy of the interpreter was made before this cell: it fills more than half of the memory"
            )
            return
        ours, theirs = _sockets()
        try:
            worker.channel.send({"op": "copy"}, (theirs.fileno(),))
        except OSError:
            ours.close()
            return
        finally:
            theirs.close()
        self._next_copy = Interpreter(Channel(ours))
        self._next_copy.names = list(self._names)
        self._next_copy.threads = worker.threads
        self._selector.register(ours, selectors.EVENT_READ, self._next_copy)

    def _on_frozen(self, copy: Interpreter, message: Message) -> None:
        copy.pid = int(message.get("pid", 0))
        copy.ready = True
        old, self._copy, self._next_copy = self._copy, copy, None
        if old is not None:
            self._drop(old)
            self._reap()
        if self._cell is None:
            self._stock = self._take_stock()

    def _drop(self, interpreter: Interpreter) -> None:
        with contextlib.suppress(KeyError, ValueError):
            self._selector.unregister(interpreter.channel)
        interpreter.channel.close()
        if interpreter.pid:
            with contextlib.suppress(OSError):
                os.kill(interpreter.pid, signal.SIGKILL)
                self._dying.add(interpreter.pid)

    def _settle_copy(self) -> None:
        """Wait for a copy that is being made: until its process is known it cannot be told from user code's."""
        deadline = time.monotonic() + 1.0
        while self._next_copy is not None and time.monotonic() < deadline:
            self._next_copy.channel.sock.settimeout(0.2)
            try:
                message, _ = self._next_copy.channel.receive()
            except TimeoutError:
                continue
            except (OSError, EOFError):
                break
            finally:
                self._next_copy.channel.sock.settimeout(None)
            self._on_frozen(self._next_copy, message)
        if self._next_copy is not None:
            self._drop(self._next_copy)
            self._next_copy = None

    def _take_over(self) -> bool:
        """Let the frozen copy go on as the worker, or start an empty one; True if the copy did."""
        copy, self._copy = self._copy, None
        if copy is not None:
            copy.channel.sock.settimeout(TAKE_OVER_S)
            try:
                copy.channel.send({"op": "wake"})
                message, _ = copy.channel.receive()
                awake = message.get("op") == "awake"
            except (OSError, EOFError):
                awake = False
            if awake:
                copy.channel.sock.settimeout(None)
                self._worker = copy
                self._names = copy.names
                return True
            self._drop(copy)
        self._start_worker()
        return False

    def _reap(self) -> None:
        """Collect every process that ended; PID 1 is the parent of all that others left behind."""
        fallen: Any | None = None
        while True:
            try:
                pid, status, usage = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                break
            if pid == 0:
                break
            self._dying.discard(pid)
            if self._worker is not None and pid == self._worker.pid:
                fallen = (status, usage)
            elif self._copy is not None and pid == self._copy.pid:
                self._drop(self._copy)
                self._copy = None
        if fallen is not None:
            self._on_worker_end(fallen[0], fallen[1])

    def _on_worker_end(self, status: int, usage: Any) -> None:
        worker, self._worker = self._worker, None
        assert worker is not None
        self._settle_copy()
        cell = self._cell
        before, had = set(self._names), self._copy
        if cell is not None and cell.started:
            messages, _ = _last_words(worker)
            for message in messages:
                if message.get("op") == "display" and isinstance(message.get("display"), dict):
                    cell.show(message["display"], self._host)
            spared = cell.before | {os.getpid()} | ({had.pid} if had else set())
            end_all_but(spared - {worker.pid})
            self._reap_quietly()
        worker.pid = 0
        self._drop(worker)
        threads = had.threads if had else 0
        kept = self._take_over()
        self._missing |= before - set(self._names)
        if threads:
            self._news.append(f"{threads} threads that ran before this cell are gone")
        if cell is not None and cell.started:
            state = "rolled_back" if kept or not before else "lost"
            self._close_cell(cell.record_of_end(status, usage, self._oom.read(), state))
        else:
            how = signal_name(os.WTERMSIG(status)) if os.WIFSIGNALED(status) else "exit"
            then = "it went on from its last copy" if kept else "its variables are gone"
            self._news.append(f"the interpreter ended between cells ({how}); {then}")
        if kept:
            self._ask_for_copy()

    # -- the end of a cell ----------------------------------------------------------------------------------------

    def _finish(self, done: Message) -> None:
        assert self._cell is not None
        assert self._worker is not None
        self._names = [name for name in done.get("all", []) if isinstance(name, str)]
        self._worker.threads = int(done.get("threads") or 0)
        record = self._cell.record_of_done(done, self._oom.read())
        self._close_cell(record, pipes_kept=done.get("pipes") is True)
        self._ask_for_copy()

    def _close_cell(self, record: Message, pipes_kept: bool = False) -> None:
        cell, self._cell = self._cell, None
        assert cell is not None
        for fd, stream in self._pipes.items():
            cell.read(fd, stream, self._host, all_of_it=True)
        cell.end_live(self._host)
        cell.log.close()
        record.update(cell.log.outputs())
        record["files"] = self._files.changes()
        record["lost_names"] = sorted(self._missing)
        survivors = self._survivors(cell)
        record["notes"] += self._news + survivors
        if survivors or not pipes_kept:
            self._retire_pipes()
        self._news, self._missing = [], set()
        message = {"ev": "done", "id": cell.id, "record": record}
        for older in self._journal.values():
            # The newest is the one that a host may have missed; the displays of all would fill the memory.
            older["record"]["displays"] = []
        self._journal[cell.id] = message
        while len(self._journal) > JOURNAL:
            del self._journal[next(iter(self._journal))]
        self._host.send(message)

    def _survivors(self, cell: Cell) -> list[str]:
        """Look for processes that the cell left behind; the count of tasks tells cheaply that there are none."""
        count, known = self._stock or (-1, set())
        self._stock = None
        threads = self._worker.threads if self._worker is not None else -1
        # A process that begins and a thread that ends leave the count as it was.
        same = count == self._tasks.read() and threads == self._stock_threads
        if self._next_copy is None and same and len(known) <= 3:
            self._stock = (count, known)
            return []
        self._settle_copy()
        self._reap_quietly()
        own = {os.getpid()} | {who.pid for who in (self._worker, self._copy) if who is not None}
        left = pids() - own
        if len(left) > MAX_SURVIVORS:
            count = end_all_but(own)
            if self._worker is not None:
                with contextlib.suppress(OSError):
                    self._worker.channel.send({"op": "reap"})
            return [f"{count} processes that the cell left running were ended"]
        left = {pid for pid in left - self._dying if not is_zombie(pid)}
        new = left - cell.before
        if new:
            return [f"{len(new)} processes that the cell started are still running"]
        return ["processes that an earlier cell started are still running"] if left else []

    def _reap_quietly(self) -> None:
        """Collect leftovers without taking the worker's end for that of the cell that has just ended."""
        own = {who.pid for who in (self._worker, self._copy) if who is not None}
        for pid in pids() - own - {os.getpid()}:
            with contextlib.suppress(ChildProcessError):
                if os.waitpid(pid, os.WNOHANG)[0]:
                    self._dying.discard(pid)

    def _retire_pipes(self) -> None:
        """Go on emptying an ended cell's pipes, so that what still writes there neither blocks nor mixes in."""
        for fd in self._pipes:
            self._old_pipes[fd] = None
            self._selector.modify(fd, selectors.EVENT_READ, "old")
        self._pipes = {}
        while len(self._old_pipes) > 32:
            self._forget(next(iter(self._old_pipes)))

    def _read_output(self, fd: int) -> None:
        if self._cell is not None:
            open_still = self._cell.read(fd, self._pipes[fd], self._host)
        else:
            try:
                open_still = os.read(fd, 1 << 16) != b""
            except BlockingIOError:
                return
            self._tell_of_late_output()
        if not open_still:
            # Nobody holds the other end any more.
            del self._pipes[fd]
            self._selector.unregister(fd)
            os.close(fd)

    def _read_old(self, fd: int) -> None:
        try:
            data = os.read(fd, 1 << 16)
        except BlockingIOError:
            return
        if not data:
            self._forget(fd)
            return
        self._tell_of_late_output()

    def _tell_of_late_output(self) -> None:
        if _LATE_OUTPUT not in self._news:
            self._news.append(_LATE_OUTPUT)

    def _forget(self, fd: int) -> None:
        del self._old_pipes[fd]
        self._selector.unregister(fd)
        os.close(fd)

    # -- time -----------------------------------------------------------------------------------------------------

    def _timeout(self) -> float | None:
        if self._cell is None or self._cell.next_step is None:
            return None
        return max(0.0, self._cell.next_step - time.monotonic())

    def _on_time(self) -> None:
        cell = self._cell
        if cell is None or cell.next_step is None or time.monotonic() < cell.next_step:
            return
        if self._worker is not None:
            cell.next_stop(self._worker, self._settings["grace_s"])


def _sockets() -> tuple[socket.socket, socket.socket]:
    """Two ends of a channel; sending on ours gives up after a while, for a worker may have been stopped."""
    ours, theirs = socket.socketpair()
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", 5, 0))
    return ours, theirs


def _fork() -> int:
    """Fork, waiting for a process number where the cell that was just ended had used them all."""
    for _ in range(100):
        try:
            return os.fork()
        except BlockingIOError:
            time.sleep(0.02)
    return os.fork()


def _last_words(worker: Interpreter) -> Any:
    try:
        return worker.channel.poll()
    except EOFError:
        return [], False
