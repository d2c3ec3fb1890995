"""What is asked for when a session is opened, besides its limits and its image."""

from collections.abc import Callable
from dataclasses import dataclass

from .owner import this_process
from .snapshots import Snapshots


@dataclass(frozen=True)
class Order:
    """Whose session it is, and where its snapshots go."""

    key: str = ""
    """Name under which the box is found again, by this process or by another; empty for a box that ends with us."""
    thread: str = ""
    """The thread, as people call it."""
    snapshots: Callable[[], Snapshots] | None = None
    """Gives the store of its snapshots when one is needed."""
    every_cell: bool = False
    """Make a snapshot after each cell."""
    pooled: bool = False
    """It waits for a thread to come."""

    @property
    def lasting(self) -> bool:
        """Whether the box outlives the process that opens it."""
        return bool(self.key) or self.pooled

    def labels(self) -> dict[str, str]:
        """Labels of the box, by which it is found."""
        labels = {"actloop.space": this_process().space, "actloop.started": str(this_process().started)}
        if self.thread:
            labels["actloop.thread"] = self.thread
        if self.pooled:
            labels["actloop.pool"] = "1"
        return labels
