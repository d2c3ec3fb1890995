"""Forks of the interpreter that are no children of it, and the sleep of one of them. Runs inside the box.

Standard library only, Python 3.9 and later.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys

from .box_proc import set_dumpable, set_oom_score
from .box_signals import SIGNALS

WORKER_OOM_SCORE = 500
"""Makes the kernel end the worker before the frozen copy when memory runs out."""
WRITER_OOM_SCORE = 1000
"""Makes it end the writer of a snapshot before everything else."""

_exit = os._exit


def fork_away() -> bool | None:
    """Fork twice: the new process is PID 1's child, so that no `wait` of user code ever sees it.

    Returns:
        True in the new process, where the signals are blocked; False in the one that goes on, and None there if no
        process could be made, which the supervisor sees by the socket that closes.
    """
    middle = _fork()
    if middle < 0:
        return None
    if middle:
        with contextlib.suppress(ChildProcessError):
            os.waitpid(middle, 0)
        return False
    try:
        if _fork():
            _exit(0)
        signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    except BaseException:
        _exit(1)
    return True


def freeze() -> None:
    """Become as hard to reach for user code as the supervisor is, and the last to be ended for memory."""
    set_oom_score(0)
    set_dumpable(False)


def thaw() -> None:
    """Become an ordinary worker again; signals that came in the sleep are forgotten."""
    set_dumpable(True)
    set_oom_score(WORKER_OOM_SCORE)
    while signal.sigtimedwait(SIGNALS, 0):
        continue
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})


def reap_children() -> None:
    """Collect children that the supervisor has ended, which otherwise keep their process numbers."""
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            continue


def _fork() -> int:
    """Fork; -1 where no process number or no memory is left."""
    warnings = sys.modules.get("warnings")
    try:
        if warnings is None or len(sys._current_frames()) == 1:
            return os.fork()
        # Python warns of a fork in a process with threads; that the copy may be inconsistent is said in the record.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return os.fork()
    except OSError:
        return -1
