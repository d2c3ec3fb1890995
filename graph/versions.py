"""Short versions of channels: every checkpoint holds about fifty of them, and with them it is half as large."""

import random

from langgraph.checkpoint.base import BaseCheckpointSaver


class ShortVersions(BaseCheckpointSaver[str]):
    """Goes before a saver in the bases of a class.

    A version grows with each update of its channel, and ends in chance: two branches of a thread count alike, and their
    values must not be taken for each other. Versions of the saver's own form, with more digits, sort below these.
    """

    def get_next_version(self, current: str | None, channel: None) -> str:
        """The version after another, larger as text.

        Args:
            current: the version before, in this form or the saver's own; None at first.
            channel: unused.
        """
        count = 0 if current is None else int(str(current).partition(".")[0])
        return f"{count + 1:07}.{random.getrandbits(32):08x}"
