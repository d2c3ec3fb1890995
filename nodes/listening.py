"""What a streamed reply was like before LangChain put it together."""

import json
from typing import Any

from langchain_core.callbacks import BaseCallbackHandler


class Listener(BaseCallbackHandler):
    """Notes whether a reply has begun to arrive, and the raw arguments of its tool calls."""

    run_inline = True

    def __init__(self) -> None:
        self.begun = False
        self._arguments: dict[object, str] = {}
        self._ids: dict[object, str | None] = {}

    def on_llm_new_token(self, token: object, *, chunk: Any = None, **_: Any) -> None:
        """Take in one piece of the reply."""
        self.begun = True
        for piece in getattr(getattr(chunk, "message", None), "tool_call_chunks", None) or ():
            place = piece["index"] if piece["index"] is not None else piece["id"]
            self._ids[place] = self._ids.get(place) or piece["id"]
            self._arguments[place] = self._arguments.get(place, "") + (piece["args"] or "")

    def on_stream_event(self, *_: Any, **__: Any) -> None:
        """Take in one event of the newer streaming protocol, which judges arguments strictly by itself."""
        self.begun = True

    def incomplete(self) -> dict[str | None, str]:
        """Raw arguments that are no JSON object, by the id of their call."""
        return {self._ids[place]: text for place, text in self._arguments.items() if text and not _is_object(text)}


def _is_object(text: str) -> bool:
    try:
        return isinstance(json.loads(text, strict=False), dict)
    except ValueError:
        return False
