"""Naming a box after the thread that took it from a pool.

The engine takes some 20 ms for it, which would be half of what the thread's first cell has to wait. So the box is named
afterwards; until then it says itself whose it is, and this process knows which of its boxes have no name yet.
"""

import logging
import threading
from collections.abc import Callable

from actloop.errors import SandboxError

NAME_AFTER_S = 0.1
"""Seconds after which a box gets its name: its first cell goes first."""

_log = logging.getLogger("actloop.sandbox")
_under_way: "dict[str, Naming]" = {}


class Naming:
    """The naming of one box, in a thread of its own.

    Args:
        key: of the thread that has the box.
        rename: gives the box its name, and says it.
        done: is told the name.
    """

    def __init__(self, key: str, rename: Callable[[str], str], done: Callable[[str], None]) -> None:
        self._key = key
        self._rename = rename
        self._done = done
        self._now = threading.Event()
        self._dropped = False
        self._thread = threading.Thread(target=self._work, name=f"actloop naming {key}")
        _under_way[key] = self
        self._thread.start()

    def finish(self) -> None:
        """Name the box now, and wait until it is done."""
        self._now.set()
        self._thread.join()

    def drop(self) -> None:
        """Do not name it any more; it is about to be removed."""
        self._dropped = True
        self.finish()

    def _work(self) -> None:
        self._now.wait(NAME_AFTER_S)
        try:
            if not self._dropped:
                self._done(self._rename(self._key))
        except SandboxError as error:
            # It serves its thread under any name; a later process finds it by what it says of itself.
            _log.warning("the box of the thread with the key %s could not be named: %s", self._key, error)
        finally:
            _under_way.pop(self._key, None)


def finish_naming(key: str) -> None:
    """Wait until the box that this process has given to a thread, if it has, can be found by its name."""
    naming = _under_way.get(key)
    if naming is not None:
        naming.finish()
