"""What the sandbox holds now, told with each request: a long thread, or a shortened one, must not lose sight of it.

Types and shapes come from the records that observations keep of their cells; which names and files are there comes
from the state. The text is made anew for each request and never stored.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypedDict, cast

from langchain_core.messages import AnyMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage

from actloop.protocols import Execution

from .rendering import Cleaner

KEY = "cell"
"""Where an observation keeps the record of its cell, in `additional_kwargs`."""
MAX_KEPT = 40
"""Names of one cell that its record describes."""
MAX_NAMES = 30
"""Names that a request describes: the newest ones; of the others it says the number."""
MAX_FILES = 30


class CellRecord(TypedDict):
    """What later requests need to know of a cell."""

    turn: int
    outcome: str
    error: str
    """Type and message of the exception; empty where there was none."""
    made: dict[str, str]
    """Names that it created or changed, with type and shape."""


def record_of(execution: Execution, turn: int) -> CellRecord:
    """The record of a cell."""
    error = execution.error
    bound = (*execution.names.created, *execution.names.changed)[:MAX_KEPT]
    return CellRecord(
        turn=turn,
        outcome=execution.outcome,
        error=f"{error.type}: {error.message}"[:200] if error else "",
        made={info.name[:60]: ", ".join(part for part in (info.type, info.detail) if part)[:80] for info in bound},
    )


def cell_of(message: BaseMessage) -> CellRecord | None:
    """The record that an observation keeps; None for any other message."""
    found = message.additional_kwargs.get(KEY)
    return cast(CellRecord, found) if isinstance(found, dict) else None


def situation(
    messages: Iterable[BaseMessage], names: Iterable[str], files: Iterable[str], secrets: Sequence[str] = ()
) -> str:
    """Variables and files that are there, in two short lines; empty where there are none.

    Args:
        messages: of the thread, for types and shapes.
        names: variables that are there.
        files: files that are there.
        secrets: values to mask.
    """
    clean = Cleaner(secrets)
    described = _described(messages)
    live = set(names)
    order = [name for name in described if name in live][::-1] + sorted(live - described.keys())
    lines = [
        _line("Variables", [_value(name, described, clean) for name in order], MAX_NAMES),
        _line("Files", [clean.line(path, 120) for path in sorted(set(files))], MAX_FILES),
    ]
    told = "\n".join(line for line in lines if line)
    return f"<workspace>\n{told}\n</workspace>" if told else ""


def with_situation(messages: Sequence[AnyMessage], text: str) -> list[AnyMessage]:
    """The request with the text at the end of its last message; of its system message where a reply stands last."""
    if not text or not messages:
        return list(messages)
    place = len(messages) - 1 if isinstance(messages[-1], HumanMessage | ToolMessage) else 0
    if place == 0 and not isinstance(messages[0], HumanMessage | SystemMessage):
        return list(messages)
    told = messages[place]
    content: Any = told.content
    content = f"{content}\n\n{text}" if isinstance(content, str) else [*content, {"type": "text", "text": text}]
    return [*messages[:place], told.model_copy(update={"content": content}), *messages[place + 1 :]]


def _described(messages: Iterable[BaseMessage]) -> Mapping[str, str]:
    """Type and shape of each name, the one that was made last at the end."""
    described: dict[str, str] = {}
    for message in messages:
        record = cell_of(message)
        for name, what in (record["made"] if record else {}).items():
            described.pop(name, None)
            described[name] = what
    return described


def _value(name: str, described: Mapping[str, str], clean: Cleaner) -> str:
    what = described.get(name)
    return clean.line(name, 60) + (f" ({clean.line(what, 80)})" if what else "")


def _line(title: str, items: Sequence[str], limit: int) -> str:
    more = len(items) - limit
    listed = ", ".join(items[:limit]) + (f" and {more} more" if more > 0 else "")
    return f"{title}: {listed}" if items else ""
