"""Signals to the worker: open while user code runs, closed while ours does. Runs inside the box.

Standard library only, Python 3.9 and later.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # without the conversions of `signal`, ten times as fast
import signal
import sys
from collections.abc import Callable
from typing import Any

SIGNALS = {int(number) for number in signal.valid_signals()}
BETWEEN = SIGNALS - {int(signal.SIGINT)}
"""Signals that wait until the next cell: a handler of user code would run, and raise, in code of ours. An interrupt
that comes too late is ignored instead."""
_TIMERS = {
    signal.ITIMER_REAL: int(signal.SIGALRM),
    signal.ITIMER_VIRTUAL: int(signal.SIGVTALRM),
    signal.ITIMER_PROF: int(signal.SIGPROF),
}

Handler = Callable[[int, Any], None]


def open_signals(on_interrupt: Handler) -> None:
    """Let signals through to user code; what came since the last cell comes now."""
    _signal.signal(signal.SIGINT, on_interrupt)
    _signal.pthread_sigmask(signal.SIG_UNBLOCK, BETWEEN)


def close_signals(on_interrupt: Handler) -> list[str]:
    """Undo what would run code of the cell after its end: handlers, timers, tracing.

    Returns:
        Notes for the record.
    """
    _signal.pthread_sigmask(signal.SIG_BLOCK, BETWEEN)
    _signal.signal(signal.SIGINT, on_interrupt)
    sys.settrace(None)
    sys.setprofile(None)
    ringing = {number for timer, number in _TIMERS.items() if _signal.setitimer(timer, 0)[0]}
    rung = set(_TIMERS.values()) & _signal.sigpending()
    if rung:
        signal.sigtimedwait(rung, 0)
    return ["an alarm that was still set at the end of the cell was cancelled"] if ringing | rung else []
