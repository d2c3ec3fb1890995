"""A running cell, as the supervisor sees it: its time limit, its output, and the record of its end.

Standard library only, Python 3.9 and later.
"""

from __future__ import annotations

import base64
import codecs
import contextlib
import fcntl
import os
import signal
import termios
import time
from typing import Any

from .box_capture import OutputLog
from .box_host import Host
from .box_proc import pids, signal_name
from .box_wire import EXIT_NO_CHANNEL, Message

READ = 1 << 16
LIVE_RATE = 512 << 10
"""Bytes of live output a second; a flood beyond it is passed over."""

FLOOD_PAUSE = 0.001
"""Seconds in which a flood of small writes gathers in the pipe, so that reading it does not take its time."""
MAX_SHOWN = 12 << 20
"""Characters of all displays in base64: a record must fit in a line."""

_EXIT_CODES = {"timeout": 124, "cancelled": 130}


class Flood:
    """Notice many small writes to one stream, one after the other.

    Each costs a wake-up, and shares the processor with the one who writes. Where both streams are written in turn there
    is no pause, since the writer waits until the other one is empty.
    """

    NUMBER = 100
    MISSES = 5
    WITHIN_S = 0.02
    WORTH = range(1 << 10, READ // 4 * 3)
    """Bytes that a pause should gather; with more, the writer had to wait for us."""

    def __init__(self) -> None:
        self._stream = ""
        self._count = 0
        self._misses = 0
        self._since = 0.0

    def begun(self, stream: str) -> bool:
        """Whether it is worth to wait before reading on."""
        return self._count >= self.NUMBER and stream == self._stream

    def seen(self, stream: str, size: int) -> None:
        """Take notice of a read."""
        if self.begun(stream):
            # A pause in which little came may have been the writer's: its share of the processor was used up.
            self._misses = 0 if size in self.WORTH else self._misses + 1
            if self._misses > self.MISSES:
                self._count = self._misses = 0
            return
        now = time.monotonic()
        if stream != self._stream or now - self._since > self.WITHIN_S:
            self._stream, self._since, self._count = stream, now, 0
        self._count += 1


class Cell:
    """One cell.

    Args:
        message: the host's request.
        number: of the cell in this box, from 1.
        settings: limits, as `sandbox/program.py` writes them.
    """

    def __init__(self, message: Message, number: int, settings: dict[str, Any]) -> None:
        self.id = str(message["id"])
        self.number = number
        self.started = 0.0
        self.before: set[int] = set()
        self.next_step: float | None = None
        self._grace = float(settings["grace_s"])
        self._code = str(message["code"])
        self._timeout = float(message["timeout"])
        self.live = bool(message.get("live"))
        """Whether somebody watches."""
        self.snapshot = bool(message.get("snapshot"))
        """Whether a snapshot is to be made after its end."""
        self._held_at = 0.0
        self._clock = 0.0
        self._stop_reason: str | None = None
        self._interrupts = 0
        self._killed = False
        self._kill_at = 0.0
        self._displays: list[dict[str, Any]] = []
        self._shown = 0
        self._oom = 0
        self._skipped = 0
        self._live_room = float(LIVE_RATE)
        self._live_time = 0.0
        name = f".actloop/output-{number}.txt"
        self.log = OutputLog(settings["output"], settings["root"], name, settings["output_file"])
        self._decoders: dict[str, Any] = {}
        self._flood = Flood()

    def begin(self, worker: Any, ends: tuple[int, ...], before: set[int], oom: int) -> None:
        """Hand the cell to the worker and start its clock.

        Args:
            worker: the interpreter.
            ends: write ends of new pipes, for the worker; none where it keeps those of the cell before.
            before: processes of the box before the cell.
            oom: processes ended for memory before the cell.
        """
        self.before = before
        self._oom = oom
        self.started = time.monotonic()
        self._clock = self.started
        self.next_step = self._clock + self._timeout
        with contextlib.suppress(OSError):
            worker.channel.send({"op": "run", "id": self.id, "number": self.number, "code": self._code}, ends)
        if self._stop_reason is not None:
            self.next_step = self.started

    # -- output ---------------------------------------------------------------------------------------------------

    def read(self, fd: int, stream: str, host: Host, all_of_it: bool = False) -> bool:
        """Take what the cell printed.

        Args:
            fd: read end of a pipe.
            stream: `stdout` or `stderr`.
            host: gets it as a live event.
            all_of_it: everything that is in the pipe now, and not more: a child may write without end.

        Returns:
            False once nobody holds the other end.
        """
        left = READ
        if all_of_it:
            left = int.from_bytes(fcntl.ioctl(fd, termios.FIONREAD, b"\0\0\0\0"), "little")
        elif self._flood.begun(stream):
            time.sleep(FLOOD_PAUSE)
        while left > 0:
            try:
                data = os.read(fd, min(left, READ))
            except BlockingIOError:
                return True
            if not data:
                return False
            left -= len(data)
            self._flood.seen(stream, len(data))
            self.log.feed(stream, data)
            if self.live:
                self._tell(host, stream, data)
            if not all_of_it:
                break
        return True

    def _tell(self, host: Host, stream: str, data: bytes) -> None:
        now = time.monotonic()
        self._live_room = min(float(LIVE_RATE), self._live_room + (now - self._live_time) * LIVE_RATE)
        self._live_time = now
        if len(data) > self._live_room:
            self._skipped += len(data)
            return
        self._live_room -= len(data)
        self._tell_skipped(host)
        if stream not in self._decoders:
            self._decoders[stream] = codecs.getincrementaldecoder("utf-8")("replace")
        text = self._decoders[stream].decode(data)
        if text and not host.send({"ev": "out", "id": self.id, "stream": stream, "text": text}, live=True):
            self._skipped += len(data)

    def _tell_skipped(self, host: Host) -> None:
        if self._skipped and host.send({"ev": "skipped", "id": self.id, "bytes": self._skipped}, live=True):
            self._skipped = 0

    def end_live(self, host: Host) -> None:
        """Say how much was passed over since the last event."""
        if self.live:
            self._tell_skipped(host)

    def show(self, display: dict[str, Any], host: Host) -> None:
        """Keep a display, and hand it on live."""
        if len(self._displays) >= 64:
            return
        made = {
            "media_type": str(display.get("media_type"))[:100],
            "name": os.path.basename(str(display.get("name")))[:100] or "display",
            "data": str(display.get("data")),
        }
        try:
            base64.b64decode(made["data"], validate=True)
        except ValueError:
            return
        self._shown += len(made["data"])
        if self._shown > MAX_SHOWN:
            return
        self._displays.append(made)
        if self.live:
            host.send({"ev": "display", "id": self.id, "display": made}, live=True)

    # -- waiting for the host -------------------------------------------------------------------------------------

    def hold(self) -> None:
        """Stop the clock: the cell waits for the host."""
        if not self._held_at and self._stop_reason is None:
            self._held_at = time.monotonic()
            self.next_step = None

    def go_on(self) -> None:
        """Let the clock go on."""
        if self._held_at:
            self._clock += time.monotonic() - self._held_at
            self._held_at = 0.0
            if self._stop_reason is None:
                self.next_step = self._clock + self._timeout

    # -- stopping -------------------------------------------------------------------------------------------------

    def stop(self, reason: str, worker: Any) -> None:
        """Begin to end the cell: interrupt first, kill after the grace.

        Args:
            reason: `timeout` or `cancelled`.
            worker: the interpreter; None while it starts.
        """
        if self._stop_reason is None:
            self._stop_reason = reason
            if self.started and worker is not None:
                self._kill_at = time.monotonic() + self._grace
                self._interrupt(worker)

    def next_stop(self, worker: Any) -> None:
        """Take the next step on the way to the end."""
        if self._stop_reason is None or not self._kill_at:
            self._stop_reason = self._stop_reason or "timeout"
            self._kill_at = time.monotonic() + self._grace
            self._interrupt(worker)
        elif time.monotonic() < self._kill_at:
            self._interrupt(worker)
        elif not self._killed:
            self._killed = True
            self.next_step = None
            with contextlib.suppress(OSError):
                os.kill(worker.pid, signal.SIGKILL)

    def _interrupt(self, worker: Any) -> None:
        """Send SIGINT to the worker and the cell's children, as a terminal does.

        It is sent again while the grace lasts: `os.system` ignores it while its child runs.
        """
        self._interrupts += 1
        self.next_step = min(self._kill_at, time.monotonic() + max(0.02, self._grace * 0.4))
        children = pids() - self.before if self._interrupts == 1 else set()
        for pid in {worker.pid} | children:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGINT)

    # -- the record -----------------------------------------------------------------------------------------------

    def _record(self, outcome: str, exit_code: int, state: str) -> Message:
        return {
            "cell_id": self.id,
            "outcome": outcome,
            "exit_code": exit_code,
            "displays": self._displays,
            "wall_s": time.monotonic() - self.started,
            "state": state,
            "notes": [],
        }

    def record_of_done(self, done: Message, oom: int) -> Message:
        """Record of a cell whose interpreter lives.

        Args:
            done: what the worker says.
            oom: processes ended for memory by now.
        """
        kind = done.get("kind")
        outcome, code = {
            "ok": ("ok", 0),
            "exit": ("exit", int(done.get("code") or 0)),
            "memory": ("out_of_memory", 137),
        }.get(str(kind), ("error", 1))
        if self._stop_reason is not None:
            outcome, code = self._stop_reason, _EXIT_CODES[self._stop_reason]
        record = self._record(outcome, code, "kept")
        for name in ("result", "error", "names", "cpu_s"):
            if done.get(name) is not None:
                record[name] = done[name]
        if self._stop_reason is not None:
            # The interrupt is the supervisor's, not an exception of the cell's.
            record.pop("error", None)
        if isinstance(done.get("answer"), list):
            record["answer"], record["answer_type"] = done["answer"]
        if isinstance(done.get("question"), str):
            record["question"] = done["question"]
        record["peak_bytes"] = int(done.get("peak") or 0)
        record["notes"] = [str(note) for note in done.get("notes") or []]
        if done.get("late"):
            record["notes"].append(
                "{} bytes that a thread of an earlier cell printed are not shown".format(done["late"])
            )
        if oom > self._oom:
            record["notes"].append(f"{oom - self._oom} child processes were ended by the kernel for memory")
        return record

    def record_of_end(self, status: int, usage: Any, oom: int, state: str) -> Message:
        """Record of a cell whose interpreter ended.

        Args:
            status: as `os.wait4` gives it.
            usage: likewise.
            oom: processes ended for memory by now.
            state: what became of the variables.
        """
        notes: list[str] = []
        if self._stop_reason is not None:
            outcome, code = self._stop_reason, _EXIT_CODES[self._stop_reason]
            if self._killed:
                notes.append("the code did not obey the interrupt and was killed")
        elif os.WIFSIGNALED(status):
            number = os.WTERMSIG(status)
            outcome, code = "crashed", 128 + number
            if number == signal.SIGKILL and oom > self._oom:
                outcome, code = "out_of_memory", 137
            else:
                notes.append(f"the interpreter was ended by {signal_name(number)}")
        else:
            code = os.WEXITSTATUS(status)
            outcome = "exit"
            if code == 0:
                # Whoever ends the interpreter has not reached the cell's end, whatever code it gives.
                outcome, code = "crashed", 1
                notes.append("the interpreter ended itself with exit code 0 in the middle of the cell")
            elif code == EXIT_NO_CHANNEL:
                outcome = "crashed"
                notes.append("the cell broke what the interpreter itself needs, for example its descriptors")
            else:
                notes.append(f"the interpreter ended, exit code {code}")
        record = self._record(outcome, code, state)
        record["cpu_s"] = usage.ru_utime + usage.ru_stime
        record["peak_bytes"] = usage.ru_maxrss * 1024
        record["notes"] = notes
        return record
