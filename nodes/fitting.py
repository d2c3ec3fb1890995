"""A history made to fit a request: what is sent is shortened, what is stored never is.

The task and the last turns are always whole. Of the rest, in this order and only as far as needed: old output is cut
in its middle; turns are replaced, oldest first and some at a time, by a line each on what the cell did and how it
ended, with the code of those that made variables which are still there; that account is cut in its middle. The same
history gives the same request, and one that grew a little begins as before, which keeps the provider's cache warm.
"""

import ast
import json
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AnyMessage, BaseMessage, HumanMessage

from .reading import parse_reply
from .run import OURS, note
from .shortening import shorten
from .situation import cell_of

DEFAULT_TOKENS = 24_000
"""Ceiling of a request to a model that does not say how much it takes."""
SHARE = 0.6
"""Of what a model takes, for the request: the rest is for its reply, and for what the count misses."""
WHOLE = 2
"""Turns at the end that are never shortened."""
IMAGE_TOKENS = 1_200
"""What a figure counts."""

_CUTS = (2_000, 600)
"""Characters that old output is cut to, at first and then."""
_STEP = 4
"""Turns that are summarised at a time."""
_SHORTEST = 250
"""Tokens that an account may have at least."""
_MAX_CODE = 1_500
"""Characters of one cell's code in an account."""
_LONGEST_TASK = 1_000
"""Characters of an earlier task in an account."""


def ceiling_of(model: BaseChatModel, wanted: int | None = None) -> int:
    """Tokens that a request may have: what is asked for, else a share of what the model's profile says it takes."""
    if wanted is not None:
        return wanted
    most = (getattr(model, "profile", None) or {}).get("max_input_tokens")
    return int(most * SHARE) if isinstance(most, int) and most > 0 else DEFAULT_TOKENS


def count_tokens(messages: Iterable[BaseMessage]) -> int:
    """About how many tokens messages have: four ASCII characters are one, and so is any other character."""
    return sum(_tokens(message) for message in messages)


def fit(messages: Sequence[AnyMessage], room: int, live: Iterable[str] = ()) -> list[AnyMessage]:
    """Shorten a history until it fits.

    Args:
        messages: the history, in which every tool call has its answer.
        room: tokens that it may have.
        live: variables that are there: the code that made them is kept longest.

    Returns:
        The history itself where it fits. Where even the task and the last turns do not, these and the shortest account
        of the rest; the provider's answer decides then.
    """
    if count_tokens(messages) <= room:
        return list(messages)
    history = _History(_parts(messages), frozenset(live))
    for limit in _CUTS:
        shown = history.cut(limit)
        if count_tokens(shown) <= room:
            return shown
    counts = [*range(_STEP, len(history.old), _STEP), len(history.old)]
    place = bisect_left(counts, True, key=lambda count: count_tokens(history.summarised(count)) <= room)
    return history.summarised(counts[place]) if place < len(counts) else history.squeezed(room)


@dataclass
class _Part:
    """A message of the user's, or a turn: a reply and what it was answered."""

    asks: bool
    messages: list[AnyMessage] = field(default_factory=list)

    def cut(self, limit: int) -> list[AnyMessage]:
        """The part with long answers of the loop cut in their middle."""
        return [_cut(message, limit) for message in self.messages]

    def account(self, live: frozenset[str]) -> tuple[str, bool]:
        """What came of the part, in a few lines; and whether code stands in them."""
        if self.asks:
            return f"The user: {_line(self.messages[0].text, _LONGEST_TASK)}", False
        reply = next((message for message in self.messages if isinstance(message, AIMessage)), None)
        if reply is None:
            return "\n".join(f"Note: {_line(message.text, 300)}" for message in self.messages), False
        action = parse_reply(reply)
        if action.kind != "cell":
            return f"You: {_line(action.text or reply.text, 400)}", False
        said = _line(action.text, 120)
        record = next((found for message in self.messages if (found := cell_of(message))), None)
        if record is None:
            return f"A cell that was not run. {said}", False
        told = f"Cell {record['turn']} ({_line(record['error'] or record['outcome'], 160)}): {said}"
        kept = live & (record["made"].keys() | _bound(action.code)) if record["outcome"] == "ok" else frozenset()
        if not kept:
            return told, False
        names = ", ".join(sorted(kept)[:10])
        return f"{told}\nIt made {names} by\n```python\n{shorten(action.code, _MAX_CODE)}\n```", True


@dataclass
class _History:
    """A history in parts, of which the task's and the last turns' are whole and the others old."""

    parts: list[_Part]
    live: frozenset[str]
    accounts: dict[int, tuple[str, bool]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.task = max((i for i, part in enumerate(self.parts) if part.asks), default=-1)
        turns = [i for i, part in enumerate(self.parts) if not part.asks]
        self.whole = {self.task, *turns[-WHOLE:]}
        self.old = [i for i in range(len(self.parts)) if i not in self.whole]

    def cut(self, limit: int) -> list[AnyMessage]:
        """The parts with old output cut."""
        return [
            message
            for i, part in enumerate(self.parts)
            for message in (part.messages if i in self.whole else part.cut(limit))
        ]

    def summarised(self, count: int) -> list[AnyMessage]:
        """The history with an account in the place of its oldest parts."""
        return self._told({i: self._account(i)[0] for i in self.old[:count]}, set(self.old[:count]))

    def squeezed(self, room: int) -> list[AnyMessage]:
        """The history with as much of the account as there is room for: code first, then what is newest."""
        left = max(room - count_tokens(self._told({}, set(self.old))), _SHORTEST)
        chosen: dict[int, str] = {}
        for i in sorted(self.old, key=lambda i: (not self._account(i)[1], -i)):
            text = self._account(i)[0]
            cost = _tokens_of(text) + 1
            if cost <= left:
                chosen[i] = text
                left -= cost
        return self._told(chosen, set(self.old))

    def _account(self, i: int) -> tuple[str, bool]:
        if i not in self.accounts:
            self.accounts[i] = self.parts[i].account(self.live)
        return self.accounts[i]

    def _told(self, texts: dict[int, str], left_out: set[int]) -> list[AnyMessage]:
        """What is left, with one account before the task and one behind it."""
        before, after = ([i for i in range(len(self.parts)) if (i < self.task) == early] for early in (True, False))
        shown: list[AnyMessage] = []
        for side in (before, after):
            if side and side[0] == self.task:
                shown += self.parts[side.pop(0)].messages
            gone = [i for i in side if i in left_out]
            lines = [texts[i] for i in gone if i in texts]
            if missing := len(gone) - len(lines):
                lines.insert(0, f"({missing} steps are left out.)")
            shown += [note("\n".join([_OPEN, *lines, _CLOSE]), "summary")] if gone else []
            for i in side:
                if i not in left_out:
                    shown += self.parts[i].messages if i in self.whole else self.parts[i].cut(_CUTS[-1])
        return shown


_OPEN = "<earlier>\nWhat was done before, shortened:"
_CLOSE = "</earlier>"


def _parts(messages: Sequence[AnyMessage]) -> list[_Part]:
    parts: list[_Part] = []
    for message in messages:
        kind = message.additional_kwargs.get(OURS)
        asks = isinstance(message, HumanMessage) and kind is None
        after_task = bool(parts) and parts[-1].asks and kind != "files"
        if asks or isinstance(message, AIMessage) or not parts or after_task:
            parts.append(_Part(asks))
        parts[-1].messages.append(message)
    return parts


def _cut(message: AnyMessage, limit: int) -> AnyMessage:
    if OURS not in message.additional_kwargs or len(message.text) <= limit:
        return message
    return message.model_copy(update={"content": shorten(message.text, limit)})


def _tokens(message: BaseMessage) -> int:
    blocks = [] if isinstance(message.content, str) else message.content
    images = sum(isinstance(block, dict) and "image" in str(block.get("type")) for block in blocks)
    text = str(message.text)
    if isinstance(message, AIMessage):
        text += "".join(json.dumps(call["args"], ensure_ascii=False) for call in message.tool_calls)
        text += "".join(str(call.get("args") or "") for call in message.invalid_tool_calls)
    return 8 + _tokens_of(text) + images * IMAGE_TOKENS


def _tokens_of(text: str) -> int:
    ascii_only = len(text) if text.isascii() else len(text.encode("ascii", "ignore"))
    return ascii_only // 4 + len(text) - ascii_only


def _line(text: str, limit: int) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= limit else flat[: limit - 4] + " ..."


def _bound(code: str) -> set[str]:
    """Names that code binds at its top, imports included."""
    try:
        body = ast.parse(code).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return set()
    bound: set[str] = set()
    for statement in body:
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            bound.add(statement.name)
            continue
        for node in ast.walk(statement):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                bound.add(node.id)
    return bound
