"""Who may speak to the box, and how long it waits for somebody. Runs inside the box, in the supervisor.

A box outlives the process that started it, and two processes that are attached to one box both hear everything and
could both speak. So one of them holds the box: every message carries its token, and those of others are refused. The
holder loses the box when it has said nothing for a while, or to one who knows that the holder has ended.

Standard library only, Python 3.9 and later.
"""

from __future__ import annotations

import time
from typing import Any

from .box_wire import Message

SILENCE_S = 20.0
"""Seconds without a word after which the holder has lost the box to whoever asks for it."""
UNCLAIMED_S = 120.0
"""Seconds without a word after which a box that no thread has is of no use to anybody."""


class Lease:
    """The holder of a box, and the time it has left.

    Args:
        ttl_s: seconds without work after which the box ends, once a thread has it; None where it ends with its stream.
    """

    def __init__(self, ttl_s: float | None) -> None:
        self.ttl_s = ttl_s
        self._token = ""
        self._heard = self._worked = time.monotonic()
        self.holder: dict[str, Any] = {}
        """Whoever holds the box, as it described itself."""
        self.thread = ""
        """Key of the thread that has the box; empty while it waits in a pool."""
        self.title = ""
        """That thread, as people call it."""

    def take(self, message: Message) -> bool:
        """Give the box to whoever asks for it, if it is free.

        Args:
            message: `by` is the token that its messages will carry, `who` describes it, `take` says that the holder
                is known to have ended.

        Returns:
            Whether it has the box now.
        """
        gone = bool(message.get("take")) or time.monotonic() - self._heard > SILENCE_S
        if self._token and self._token != message.get("by") and not gone:
            return False
        self._token = str(message.get("by"))
        self.holder = message.get("who") or {}
        self.thread = str(message.get("thread") or self.thread)
        self.title = str(message.get("title") or self.title)
        self.heard(work=True)
        return True

    def admits(self, message: Message) -> bool:
        """Whether a message comes from the holder."""
        return message.get("by") == self._token

    def heard(self, work: bool) -> None:
        """Note a message of the holder, or the end of a cell.

        Args:
            work: it was more than a sign of life.
        """
        self._heard = time.monotonic()
        if work:
            self._worked = self._heard

    def let_go(self) -> None:
        """The holder leaves the box to whoever comes."""
        self._token, self.holder = "", {}

    @property
    def silent_s(self) -> float:
        """Seconds since the holder was heard last."""
        return time.monotonic() - self._heard

    @property
    def idle_s(self) -> float:
        """Seconds since anything was done."""
        return time.monotonic() - self._worked

    @property
    def ends_at(self) -> float | None:
        """When the box ends if nothing is done until then, by the monotonic clock; None if it does not.

        One that waits for a thread has no work to do: signs of life of its holder keep it.
        """
        if self.ttl_s is None:
            return None
        return self._worked + self.ttl_s if self.thread else self._heard + UNCLAIMED_S
