"""Which process holds a box, said so that another one can tell whether it still runs."""

import os
import socket
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError


class Owner(BaseModel):
    """A process."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    host: str
    """Name of its machine, for people."""
    space: str
    """Its machine since it was started, and the space of process numbers on it: numbers mean nothing elsewhere."""
    pid: int
    started: int
    """When it started, in ticks since the machine did: its number alone may have been given again. 0 if not known."""

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host}"

    def ended(self) -> bool | None:
        """Whether it has ended; None where this process cannot tell, because it lives elsewhere."""
        if self.space != _space():
            return None
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return True
        except PermissionError:
            return False
        return bool(self.started) and _started(self.pid) not in (self.started, 0)


def this_process() -> Owner:
    """The process that asks."""
    return _this(os.getpid())


def owner_of(facts: Any) -> Owner | None:
    """The owner that a box names, or None where what it says is no owner."""
    try:
        return Owner.model_validate(facts)
    except ValidationError:
        return None


@cache
def _this(pid: int) -> Owner:
    return Owner(host=socket.gethostname(), space=_space(), pid=pid, started=_started(pid))


@cache
def _space() -> str:
    """Identity of the machine's present run and of the process numbers in it, where the system tells (Linux)."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
        return f"{boot}/{os.stat('/proc/self/ns/pid').st_ino}"
    except OSError:
        return socket.gethostname()


def _started(pid: int) -> int:
    """Start of a process in clock ticks (proc(5), field 22 of stat); 0 where it is not told, -1 where it has ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text("latin-1").rpartition(")")[2].split()
        return -1 if fields[0] in ("Z", "X") else int(fields[19])
    except (OSError, ValueError, IndexError):
        return 0
