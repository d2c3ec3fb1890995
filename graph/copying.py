"""A thread's past, copied under another name.

The copy holds the same checkpoints, so it has what a state alone would lack: what comes next, an approval that is
waited for, and every earlier turn to go back to. It uses only what each saver offers to the graph.

All ids stay but that of the head. What the two threads do from there is not the same any more, and the ids of cells,
and with them the names of snapshots, are derived from that of the checkpoint before. Only a question keeps its head:
its answer belongs to it by that id, and makes a new checkpoint in each thread before any cell runs.
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import groupby
from typing import Any

from langgraph.checkpoint.base import (
    BaseCheckpointSaver,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    empty_checkpoint,
)


def copy_branch(
    saver: BaseCheckpointSaver[Any], ids: Sequence[str], *, source: str, target: str, waiting: bool
) -> None:
    """Copy checkpoints of one branch.

    Args:
        saver: that keeps the thread.
        ids: of the checkpoints, oldest first; the last one becomes the head of the copy.
        source: the thread.
        target: id of the copy, which must be free.
        waiting: the head waits for the answer to a question, and the copy shall wait likewise; otherwise it goes on
            from there as if nothing had followed.
    """
    known: ChannelVersions = {}
    parent: dict[str, str] = {}
    for id in ids:
        place = {"thread_id": source, "checkpoint_ns": "", "checkpoint_id": id}
        stored = saver.get_tuple({"configurable": place})
        assert stored is not None, f"checkpoint {id} was listed and is gone"
        head = id == ids[-1]
        checkpoint = stored.checkpoint.copy()
        if head:
            # It sorts by when it was forked.
            checkpoint["ts"] = datetime.now(UTC).isoformat()
        if head and not waiting:
            checkpoint["id"] = empty_checkpoint()["id"]
        _put(saver, checkpoint, stored.metadata, target, parent, known)
        if waiting or not head:
            _put_writes(saver, stored, target)
        known, parent = stored.checkpoint["channel_versions"], {"checkpoint_id": id}


def _put(
    saver: BaseCheckpointSaver[Any],
    checkpoint: Checkpoint,
    metadata: CheckpointMetadata,
    target: str,
    parent: dict[str, str],
    known: ChannelVersions,
) -> None:
    own: Any = {**metadata, **({"thread_id": target} if "thread_id" in metadata else {})}
    # Savers that keep each value once write those alone that are new against the checkpoint before.
    new = {name: version for name, version in checkpoint["channel_versions"].items() if known.get(name) != version}
    saver.put({"configurable": {"thread_id": target, "checkpoint_ns": "", **parent}}, checkpoint, own, new)


def _put_writes(saver: BaseCheckpointSaver[Any], stored: CheckpointTuple, target: str) -> None:
    place = {"thread_id": target, "checkpoint_ns": "", "checkpoint_id": stored.checkpoint["id"]}
    for task, writes in groupby(stored.pending_writes or (), key=lambda write: write[0]):
        saver.put_writes({"configurable": place}, [(channel, value) for _, channel, value in writes], task)
