"""The worker: the process that holds the interpreter and runs cells. Runs inside the box.

Its namespace is the real `__main__` module, so that pickling, multiprocessing and `if __name__ == "__main__"` work as
in a script. It takes commands from the supervisor over a socket: `run` a cell, make a frozen `copy` of itself.

The frozen copy is a fork that waits on a socket of its own. When the worker is killed, the supervisor wakes the copy,
which goes on as the worker, with all variables as they were when the copy was made.

User code shares this process and may break anything in it: names needed later are bound at import, and where the
worker cannot go on it exits, which the supervisor notices.

Standard library only, Python 3.9 and later.
"""

from __future__ import annotations

import builtins
import contextlib
import os
import signal
import socket
import sys
import time
import types
from _thread import allocate_lock, get_ident
from typing import Any

from .box_code import CELL_PREFIX, Compiler, Loop, error_info
from .box_essentials import Essentials
from .box_forks import WORKER_OOM_SCORE, WRITER_OOM_SCORE, fork_away, freeze, reap_children, thaw
from .box_hints import teach_inspect, teach_pyplot
from .box_imports import after_import
from .box_ipython import offer_ipython
from .box_memory import Memory
from .box_proc import Usage, reset_peak, set_oom_score
from .box_reserve import Reserve
from .box_show import Shows, text_of
from .box_signals import BETWEEN, close_signals, open_signals
from .box_snapshot import become_writer
from .box_streams import Streams, refuse_input
from .box_telling import Answer, Variables, end_child, exit_code
from .box_tools import Tools
from .box_wire import EXIT_NO_CHANNEL, Channel, Message, encode

_REHEARSAL: Message = {"id": "", "number": 0, "code": "0"}
_reserve = Reserve()
_exit = os._exit
_getpid = os.getpid


class Worker:
    """One interpreter.

    Args:
        channel: to the supervisor.
        root: folder of the workspace.
    """

    def __init__(self, channel: Channel, root: str) -> None:
        self._channel = channel
        self._root = root
        self._pid = _getpid()
        self._streams = Streams()
        self._compiler = Compiler()
        self._loop = Loop()
        self._answer = Answer(self._streams.late.here)
        self._sending = allocate_lock()
        self._shows = Shows(self._send_display)
        self._in_cell = False
        self._main = _main_module()
        self._memory = Memory(self._compiler, root)
        self._tools = Tools(self._send_call)
        self._essentials = Essentials()
        self._usage = Usage()
        self._variables = Variables()
        builtins.input = refuse_input
        self._streams.teach_print()
        builtins.display = self._shows.display  # type: ignore[attr-defined]
        builtins.final_answer = self._answer.final_answer  # type: ignore[attr-defined]
        builtins.ask_user = self._answer.ask_user  # type: ignore[attr-defined]
        offer_ipython(self._shows.display)
        after_import("asyncio", self._loop.teach)
        teach_inspect(self._compiler)
        teach_pyplot(self._shows)

    def serve(self) -> None:
        """Take commands until the supervisor is gone."""
        while True:
            try:
                message, fds = self._channel.receive()
                if message.get("op") == "run":
                    done = self._run(message, fds)
                    dropped = self._streams.dropped()
                    if dropped:
                        done["late"] = dropped
                    overdue = self._essentials.overdue()
                    if overdue:
                        done["notes"] = overdue + done.get("notes", [])
                    with self._sending:
                        self._channel.send(done)
                    self._essentials.settled = False
                elif message.get("op") == "copy":
                    if fds:
                        self._copy(fds[0], bool(message.get("saves")))
                elif message.get("op") == "reap":
                    reap_children()
                elif message.get("op") == "tools":
                    self._tools.offer(message["tools"])
                elif message.get("op") == "load":
                    self._load(message, fds[0])
                elif message.get("op") == "snapshot":
                    self._write_snapshot(message, fds[0])
                else:
                    _exit(EXIT_NO_CHANNEL)
            except BaseException:
                # The supervisor is gone, or the cell has broken what we stand on.
                _exit(EXIT_NO_CHANNEL)

    def _load(self, message: Message, fd: int) -> None:
        """Make variables of a unit of a snapshot."""
        contents = []
        with os.fdopen(fd, "rb") as file:
            file.seek(0)
            for size in message["sizes"]:
                content = bytearray(size)
                file.readinto(content)
                contents.append(content)
        failed = self._memory.load(message["names"], contents, self._main.__dict__)
        self._variables.loaded(self._main.__dict__)
        self._channel.send({"op": "loaded", "failed": failed})

    def _write_snapshot(self, message: Message, fd: int) -> None:
        """Fork a process that writes a snapshot; as with a copy, it is PID 1's child and not this one's."""
        try:
            settings = self._memory.take()
        except Exception:
            # Closing its end of the socket tells the supervisor that there will be none.
            os.close(fd)
            return
        if not fork_away():
            os.close(fd)
            return
        try:
            set_oom_score(WRITER_OOM_SCORE)
            self._pid = 0
            with contextlib.suppress(OSError):
                self._channel.close()
            channel = Channel(socket.socket(fileno=fd))
            become_writer(channel, message, self._root, self._main.__dict__, self._memory, settings)
        finally:
            _exit(0)

    def _on_interrupt(self, _number: int, _frame: object) -> None:
        if self._in_cell:
            raise KeyboardInterrupt

    # -- a cell ---------------------------------------------------------------------------------------------------

    def _run(self, message: Message, fds: list[int]) -> Message:
        if fds:
            self._streams.take(fds)
        self._streams.begin()
        self._shows.begin()
        self._answer.begin()
        namespace = self._main.__dict__
        # It would silence a warning because the same line of an earlier cell gave it.
        namespace.pop("__warningregistry__", None)
        sys.modules["__main__"] = self._main
        self._essentials.begin()
        self._usage.begin()
        done: Message = {"op": "done", "id": message["id"], "stored": set(), "kind": "ok"}
        try:
            try:
                self._in_cell = True
                open_signals(self._on_interrupt)
                self._execute(message["code"], "{}{}>".format(CELL_PREFIX, message["number"]), namespace, done)
            finally:
                self._in_cell = False
                cancelled = close_signals(self._on_interrupt)
        except KeyboardInterrupt:
            done["kind"] = "interrupted"
        healed = self._essentials.end()
        self._streams.end()
        if _getpid() != self._pid:
            # A child that the cell forked came back here: the cell's end is its parent's to report.
            end_child(done)
        self._variables.tell(namespace, done.pop("stored"), done)
        self._answer.tell(done)
        notes = self._shows.notes + cancelled + healed
        if notes:
            done["notes"] = notes
        done["cpu_s"], done["peak"] = self._usage.end()
        done["pipes"] = self._streams.in_place
        threads = len(sys._current_frames()) - 1
        if threads:
            done["threads"] = threads
        return done

    def _execute(self, code: str, filename: str, namespace: dict[str, Any], done: Message) -> None:
        try:
            body, last, done["stored"] = self._compiler.compile(code, filename)
        except (SyntaxError, ValueError, MemoryError, RecursionError, OverflowError) as error:
            done["kind"], done["error"] = "error", error_info(error, filename)
            return
        try:
            try:
                _reserve.close()
                if body is not None:
                    self._loop.run(body, namespace)
                if last is not None:
                    value = self._loop.run(last, namespace)
                    if value is not None:
                        picture = self._shows.rich(value)
                        done["result"] = text_of(value)[:200] if picture else text_of(value)
            finally:
                _reserve.open()
        except SystemExit as error:
            done["kind"] = "exit"
            done["code"] = exit_code(error)
        except MemoryError as error:
            done["kind"], done["error"] = "memory", error_info(error, filename)
        except BaseException as error:
            done["kind"], done["error"] = "error", error_info(error, filename)
        try:
            self._shows.figures()
        except Exception as error:
            print(f"the open figures cannot be shown: {type(error).__name__}", file=sys.stderr)

    def _send_display(self, display: dict[str, Any]) -> None:
        """Hand a display to the supervisor, unless a late thread or a child process made it."""
        if self._streams.late.here() or _getpid() != self._pid:
            return
        self._say({"op": "display", "display": display})

    def _send_call(self, call: dict[str, Any], fd: int) -> None:
        """Hand a call of a function of the host to the supervisor."""
        self._say(call, (fd,))

    def _say(self, message: Message, fds: tuple[int, ...] = ()) -> None:
        """Send what user code has caused, from whatever thread."""
        if get_ident() != _main_thread:
            with self._sending:
                self._channel.send(message, fds)
            return
        # An interrupt must not cut a message in two.
        self._in_cell, inside = False, self._in_cell
        try:
            with self._sending:
                self._channel.send(message, fds)
        finally:
            self._in_cell = inside

    # -- the frozen copy ------------------------------------------------------------------------------------------

    def _copy(self, fd: int, saves: bool) -> None:
        """Make a process that sleeps until this one has ended, and then goes on in its place."""
        reset_peak()
        # Before the fork, since it writes to every module: after it, each would take a page more.
        self._essentials.begin()
        random = sys.modules.get("random")
        seed = random.getstate() if random else None
        forked = fork_away()
        if not forked:
            os.close(fd)
            if forked is not None:
                self._rehearse()
                if saves:
                    # Without it each snapshot has to load by itself what it needs.
                    with contextlib.suppress(Exception):
                        self._memory.prepare()
            return
        try:
            freeze()
            with contextlib.suppress(OSError):
                self._channel.close()
            self._channel = Channel(socket.socket(fileno=fd))
            self._sending = allocate_lock()
            self._pid = _getpid()
            self._tools.adopt_process()
            # `random` reseeds itself in a fork; the interpreter that goes on must go on with the same numbers.
            if random:
                random.setstate(seed)
            self._channel.send({"op": "frozen", "pid": self._pid})
            while True:
                message, fds = self._channel.receive()
                if message.get("op") != "snapshot":
                    break
                self._write_snapshot(message, fds[0])
            thaw()
            self._channel.send({"op": "awake", "pid": self._pid})
        except BaseException:
            _exit(EXIT_NO_CHANNEL)

    def _rehearse(self) -> None:
        """Run an empty cell, and forget it.

        The fork left every page shared, and the first write to each copies it. Doing so now, while nobody waits, takes
        that cost out of the next turn.
        """
        names, told = self._variables.names, self._variables.told
        self._compiler.rehearse()
        self._streams.rehearse()
        encode(self._run(_REHEARSAL, []))
        self._variables.names, self._variables.told = names, told


_main_thread = 0


def _main_module() -> types.ModuleType:
    main = types.ModuleType("__main__")
    main.__dict__["__builtins__"] = builtins
    sys.modules["__main__"] = main
    return main


def main(fd: int, data_limit: int, root: str) -> None:
    """Become the worker.

    Args:
        fd: socket to the supervisor.
        data_limit: bytes of private memory; an allocation beyond it raises MemoryError, long before the kernel ends
            the process. 0 is without.
        root: folder of the workspace.
    """
    global _main_thread
    set_oom_score(WORKER_OOM_SCORE)
    _reserve.limit(data_limit)
    channel = Channel(socket.socket(fileno=fd))
    os.set_inheritable(fd, False)
    sys.path.insert(0, "")
    sys.argv = [""]
    sys.dont_write_bytecode = True
    _main_thread = get_ident()
    signal.signal(signal.SIGINT, lambda *_: None)
    signal.pthread_sigmask(signal.SIG_BLOCK, BETWEEN)
    worker = Worker(channel, root)
    channel.send({"op": "ready", "pid": os.getpid(), "python": sys.version.split()[0], "started": time.monotonic()})
    worker.serve()
