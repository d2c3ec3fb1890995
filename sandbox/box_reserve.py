"""What is left for the interpreter when user code has used up everything. Runs inside the box, in the worker.

Standard library only, Python 3.9 and later.
"""

from __future__ import annotations

import resource


class Reserve:
    """Memory and descriptors that user code cannot use up.

    While it runs, the worker's limits are a little lower than they are for the code around it, so that a cell which
    fills the memory or opens every descriptor can still be reported, and the next one be compiled, which may free them.
    """

    SPARE = 24 << 20

    def __init__(self) -> None:
        self._low: list[tuple[int, tuple[int, int]]] = []
        self._high: list[tuple[int, tuple[int, int]]] = []

    def limit(self, data: int) -> None:
        """Set the limits.

        Args:
            data: bytes of private memory; 0 is without.
        """
        self._low, self._high = [], []
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        for kind, low, high in ((resource.RLIMIT_NOFILE, soft, hard), (resource.RLIMIT_DATA, data, data + self.SPARE)):
            if low:
                self._low.append((kind, (low, high)))
                self._high.append((kind, (high, high)))
        self.open()

    def close(self) -> None:
        """Set the limits of user code."""
        self._set(self._low)

    def open(self) -> None:
        """Set the limits of ours."""
        self._set(self._high)

    def _set(self, limits: list[tuple[int, tuple[int, int]]]) -> None:
        for kind, limit in limits:
            try:
                resource.setrlimit(kind, limit)
            except (ValueError, OSError):
                continue  # user code may have set a lower one for good
