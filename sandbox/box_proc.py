"""Processes, memory and signals as the kernel tells them. Runs inside the box.

Standard library only, Python 3.9 and later.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import signal
import time
from collections.abc import Iterable

PR_SET_DUMPABLE = 4
_libc = ctypes.CDLL(None, use_errno=True)


def set_dumpable(value: bool) -> None:
    """Open or close this process's memory and descriptors to other processes of the same user (prctl(2))."""
    _libc.prctl(PR_SET_DUMPABLE, int(value), 0, 0, 0)


def set_oom_score(value: int) -> None:
    """Make the kernel end this process sooner (up to 1000) or later (0) when memory runs out."""
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
        file.write(str(value))


def reset_peak() -> None:
    """Begin a new measurement of this process's highest resident memory (proc(5), clear_refs)."""
    with contextlib.suppress(OSError), open("/proc/self/clear_refs", "w") as file:
        file.write("5")


def resident_bytes(pid: int) -> int:
    """Resident memory of a process in bytes; 0 where it is not known."""
    try:
        with open(f"/proc/{pid}/statm", "rb") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return 0


class Counter:
    """A number in a file of the box's control group, read again and again.

    Args:
        places: path and field for cgroup v1 and v2; an empty field is a file that holds the number alone.
    """

    def __init__(self, *places: tuple[str, bytes]) -> None:
        self._fd = -1
        for path, field in places:
            try:
                self._fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            except OSError:
                continue
            self._field = field
            break

    def read(self) -> int:
        """The number; 0 where it cannot be read."""
        if self._fd < 0:
            return 0
        try:
            data = os.pread(self._fd, 4096, 0)
            if not self._field:
                return int(data)
            for line in data.splitlines():
                name, _, value = line.partition(b" ")
                if name == self._field:
                    return int(value)
        except (OSError, ValueError):
            pass
        return 0


def oom_counter() -> Counter:
    """Processes of this box that the kernel has ended for memory."""
    return Counter(
        ("/sys/fs/cgroup/memory/memory.oom_control", b"oom_kill"), ("/sys/fs/cgroup/memory.events", b"oom_kill")
    )


def task_counter() -> Counter:
    """Processes and threads of this box."""
    return Counter(("/sys/fs/cgroup/pids/pids.current", b""), ("/sys/fs/cgroup/pids.current", b""))


def memory_room() -> int | None:
    """Bytes that the box may still take before the kernel ends something; None where there is no limit to read."""
    for limit, usage in (
        ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.usage_in_bytes"),
        ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"),
    ):
        try:
            with open(limit) as most, open(usage) as used:
                return int(most.read()) - int(used.read())
        except (OSError, ValueError):
            continue
    return None


def pids() -> set[int]:
    """All processes of the box."""
    return {int(name) for name in os.listdir("/proc") if name.isdigit()}


def is_zombie(pid: int) -> bool:
    """Whether a process has ended and only waits to be reaped."""
    try:
        fd = os.open(f"/proc/{pid}/stat", os.O_RDONLY | os.O_CLOEXEC)
        try:
            return os.read(fd, 4096).rpartition(b")")[2].split()[0] == b"Z"
        finally:
            os.close(fd)
    except (OSError, IndexError):
        return True


def end_all_but(spared: Iterable[int]) -> int:
    """Kill every process of the box except those spared.

    A fork bomb makes children while they are being killed: all are stopped first, and the list is read again until
    nobody is left.

    Returns:
        How many were killed.
    """
    keep = set(spared)
    killed: set[int] = set()
    for _ in range(50):
        others = {pid for pid in pids() - keep if not is_zombie(pid)}
        if not others:
            break
        for number in (signal.SIGSTOP, signal.SIGKILL):
            for pid in others:
                with contextlib.suppress(OSError):
                    os.kill(pid, number)
        killed |= others
        time.sleep(0.001)
    return len(killed)


def signal_name(number: int) -> str:
    """Name of a signal: `SIGSEGV`."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


class Usage:
    """Processor time and memory of this process and of the children that it waited for, from one call to the next."""

    def __init__(self) -> None:
        self._cpu = 0.0
        self._children_cpu = 0.0
        self._children_peak = 0

    def begin(self) -> None:
        """Begin to measure."""
        self._cpu = time.process_time()
        children = resource.getrusage(resource.RUSAGE_CHILDREN)
        self._children_cpu = children.ru_utime + children.ru_stime

    def end(self) -> tuple[float, int]:
        """Processor seconds since the beginning, and the highest resident memory in bytes.

        Of the peaks of children the kernel keeps only the highest of all, so only a rise counts.
        """
        peak: int = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        children = resource.getrusage(resource.RUSAGE_CHILDREN)
        spent = time.process_time() - self._cpu
        spent += children.ru_utime + children.ru_stime - self._children_cpu
        if children.ru_maxrss > self._children_peak:
            self._children_peak = children.ru_maxrss
            peak = max(peak, self._children_peak)
        return spent, peak * 1024
