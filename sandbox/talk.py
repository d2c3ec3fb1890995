"""The conversation between host and box: who holds the box, orders and replies, a sign of life now and then.

One thread a session reads what the box says and hands it to whoever waits. Callers never read the stream themselves,
so that an async caller blocks nothing and a slow one delays no other.
"""

import contextlib
import itertools
import threading
import time
import uuid
import weakref
from collections.abc import Callable
from concurrent.futures import Future
from typing import Final

from actloop.errors import FileRefused, SandboxError, SandboxLost, SandboxUnavailable, SessionBusy

from .box_wire import LineReader, Message, encode_line
from .link import Link
from .owner import owner_of, this_process

START_S = 60.0
"""Seconds a box may take until its interpreter answers."""
PATIENCE_S = 2.0
"""Seconds to wait for a box that another process holds, before it is said who does."""
BEAT_S = 5.0
"""Seconds between signs of life; a box gives its holder up after several of them are missing."""


class Talk:
    """One end of a box's stream.

    Args:
        name: of the box.
        link: stream to its supervisor.
        on_message: takes what is no reply, in the thread that reads.
        on_end: called there when the stream has ended.
    """

    def __init__(
        self, name: str, link: Link, on_message: Callable[[Message], None], on_end: Callable[[], None]
    ) -> None:
        self.name = name
        self._link = link
        self._on_message = on_message
        self._on_end = on_end
        self.token: Final = uuid.uuid4().hex[:12]
        """Of this conversation, and of no other."""
        self._sending = threading.Lock()
        self._replies: dict[int, Future[Message]] = {}
        self._hello: Future[Message] = Future()
        self.numbers = itertools.count(1)
        self.gone = False
        self.closed = False
        self.holder: str = ""
        """Who holds the box, where this process has lost it."""
        self._reader = threading.Thread(target=self._read, name=f"actloop {name}", daemon=True)

    def start(self) -> None:
        """Begin to read; once, before anything else."""
        self._reader.start()

    def greet(self, thread: str, title: str, start_s: float) -> Message:
        """Take hold of the box.

        Args:
            thread: key of the thread whose box it is.
            title: the thread, as people call it.
            start_s: seconds that the box has to answer.

        Returns:
            What the box says of itself: `python`, `point`, `running`, `cells`, `names`.

        Raises:
            SandboxUnavailable: its interpreter does not answer.
            SandboxLost: it has ended.
            SessionBusy: a process that may be alive holds it.
        """
        until = time.monotonic() + PATIENCE_S
        take = False
        while True:
            answer = self._say_hello(thread, title, take, start_s)
            if answer.get("ok"):
                _beating.add(self)
                return answer
            holder = owner_of(answer.get("holder"))
            if holder == this_process():
                # A session of our own that nobody uses: an agent that was made anew goes on with its thread.
                take = not (_beating.has(self.name) and answer.get("running"))
            else:
                take = holder is not None and holder.ended() is True
            if not take and time.monotonic() > until:
                raise SessionBusy(
                    f"The sandbox of the thread {title} is held by {holder or 'another process'}; end its run there, "
                    "or wait until it has ended."
                )
            if not take:
                time.sleep(0.2)

    def _say_hello(self, thread: str, title: str, take: bool, start_s: float) -> Message:
        self._hello = Future()
        try:
            # A line end first: whatever a former host left half-written ends here, and is dropped.
            who = this_process().model_dump()
            self._write(b"\n", {"op": "hello", "who": who, "thread": thread, "title": title, "take": take})
            return self._hello.result(start_s)
        except (TimeoutError, SandboxError) as error:
            if isinstance(error, SandboxLost):
                # What it said of its end may still be on its way.
                self._reader.join(1)
            complaint = self._link.complaint.splitlines()[-2:]
            if isinstance(error, SandboxLost) and not complaint:
                raise SandboxLost(f"The box {self.name} ended while it started. Try again.") from None
            why = complaint or [f"no answer within {start_s:.0f} s"]
            raise SandboxUnavailable(
                f"The interpreter in the box did not start: {'; '.join(why)}. Check that the image has Python 3.9 or "
                "later (actloop doctor)."
            ) from None

    def send(self, message: Message) -> None:
        """Send an order.

        Raises:
            SandboxLost: the box is gone, or another process holds it now.
        """
        self._write(b"", message)

    def ask(self, message: Message, timeout: float | None = None) -> Message:
        """Send a request and wait for its reply; one that carries a number `n` already keeps it.

        Raises:
            SandboxLost: the box is gone, or does not answer within `timeout` seconds.
            FileNotFoundError: there is no such file.
            FileRefused: the box refuses the file.
            SessionBusy: the box runs a cell.
        """
        number = message.get("n") or next(self.numbers)
        future: Future[Message] = Future()
        self._replies[number] = future
        try:
            self.send({**message, "n": number})
            reply = future.result(timeout)
        except TimeoutError:
            raise SandboxLost(f"The box {self.name} did not answer within {timeout:g} s. Open a new session.") from None
        finally:
            self._replies.pop(number, None)
        if reply.get("ok"):
            return reply
        path, text = message.get("path", ""), reply.get("text", "")
        if reply.get("error") == "missing":
            raise FileNotFoundError(f"There is no file {path} in the workspace.")
        if reply.get("error") == "busy":
            raise busy(self.name)
        raise FileRefused(f"The file {path} cannot cross the border of the box: {text}.")

    def check_alive(self) -> None:
        """Raise SandboxLost if the session has ended."""
        if self.closed:
            raise SandboxLost(f"The session {self.name} is closed; open a new one.")
        if self.holder:
            raise SandboxLost(
                f"The box {self.name} is held by {self.holder} now; open its thread again to take it back."
            )
        if self.gone:
            raise SandboxLost(
                f"The box {self.name} is gone: it was removed, killed, or its engine stopped. Open a new session; its "
                "variables and files are lost unless there is a snapshot of them."
            )

    def beat(self) -> None:
        """Give a sign of life."""
        with contextlib.suppress(SandboxLost):
            self.send({"op": "beat"})

    def let_go(self) -> None:
        """Leave the box, as it is, to whoever comes."""
        with contextlib.suppress(SandboxLost):
            self.send({"op": "bye"})
        self.close()

    def close(self) -> None:
        """Cut the stream off; safe to repeat."""
        self.closed = True
        _beating.discard(self)
        self._link.close()
        if threading.current_thread() is not self._reader:
            self._reader.join(5)

    def cut(self) -> None:
        """Cut off a box that does not answer; what waits for it is told that it is gone."""
        self._link.close()

    def _write(self, before: bytes, message: Message) -> None:
        self.check_alive()
        try:
            with self._sending:
                self._link.send(before + encode_line({**message, "by": self.token}))
        except OSError:
            self.gone = True
            self.check_alive()

    def _read(self) -> None:
        lines = LineReader()
        for data in self._link.receive():
            for message in lines.feed(data):
                self._take(message)
        self._end()

    def _take(self, message: Message) -> None:
        kind = message.get("ev")
        if kind == "reply":
            future = self._replies.get(message.get("n", 0))
            if future is not None and not future.done():
                future.set_result(message)
        elif kind == "hello":
            self._on_hello(message)
        elif kind == "ousted":
            if message.get("by") == self.token and not self.closed:
                self.holder = str(owner_of(message.get("holder")) or "another process")
                self._end()
        else:
            self._on_message(message)

    def _on_hello(self, message: Message) -> None:
        if message.get("by") == self.token:
            if not self._hello.done():
                self._hello.set_result(message)
        elif message.get("ok") and self in _beating and not self.closed:
            # Somebody else has the box now, and what is said from now on is said to them.
            self.holder = str(owner_of(message.get("holder")) or "another process")
            self._end()

    def _end(self) -> None:
        self.gone = True
        _beating.discard(self)
        lost = SandboxLost(f"The box {self.name} is gone.")
        for future in [self._hello, *self._replies.values()]:
            if not future.done():
                future.set_exception(lost)
        self._on_end()


def busy(name: str) -> SessionBusy:
    """The error for whoever wants something of a box that runs a cell.

    Args:
        name: of the box.
    """
    return SessionBusy(f"The session {name} is running a cell; wait for its end or interrupt it first.")


class _Beating:
    """All conversations of this process in which a sign of life is due now and then; one thread gives it."""

    def __init__(self) -> None:
        self._talks: weakref.WeakSet[Talk] = weakref.WeakSet()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def __contains__(self, talk: Talk) -> bool:
        with self._lock:
            return talk in self._talks

    def add(self, talk: Talk) -> None:
        """Begin to give signs of life."""
        with self._lock:
            self._talks.add(talk)
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._beat, name="actloop beat", daemon=True)
                self._thread.start()

    def has(self, name: str) -> bool:
        """Whether this process converses with a box of this name."""
        with self._lock:
            return any(talk.name == name for talk in self._talks)

    def discard(self, talk: Talk) -> None:
        """Give none any more."""
        with self._lock:
            self._talks.discard(talk)

    def _beat(self) -> None:
        while True:
            time.sleep(BEAT_S)
            with self._lock:
                talks = list(self._talks)
            for talk in talks:
                talk.beat()


_beating = _Beating()
