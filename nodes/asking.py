"""One call of a model: retries, parameters it refuses, replies that need mending, and errors made ours.

Who retries what. Provider SDKs retry a request that failed before its reply began (408, 409, 429, 5xx,
connection, time-out) and honour `Retry-After`; a chat model that has `max_retries` does so itself, and
nothing here repeats that. The rest is retried here, at most `RETRIES` times a call: the same errors of models
without retries of their own, and what no SDK retries: a stream that breaks off in the middle, an answer that
is no completion, a stale event loop. A wait is never longer than `LONGEST_WAIT_S`; a provider that asks for
more fails the call at once.
"""

import asyncio
import json
import random
import re
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, InvalidToolCall
from langchain_core.runnables import Runnable, RunnableConfig
from langchain_core.runnables.config import ensure_config, merge_configs
from langgraph.errors import GraphBubbleUp
from pydantic import ValidationError

from actloop.errors import ActloopError, ConfigError, ModelAccessDenied
from actloop.state import Usage

from .listening import Listener
from .model_errors import classify, translate
from .parameters import Parameters

RETRIES = 2
"""Retries that this module makes in one call, on top of those of the provider's SDK."""

LONGEST_WAIT_S = 120.0
"""Longest `Retry-After` that is waited for, here and in OpenAI's SDK."""

_BACKOFF_S = 0.5
_PASS = (GraphBubbleUp, ActloopError, AssertionError)


def ask(
    model: BaseChatModel,
    messages: Sequence[BaseMessage],
    *,
    stop: Sequence[str] | None = None,
    tools: Sequence[Any] | None = None,
    tool_choice: str | None = None,
    config: RunnableConfig | None = None,
) -> AIMessage:
    """Ask the model once and return its reply.

    Within a graph's node the reply is streamed to whoever listens, as with a plain `invoke`.

    Args:
        model: from `connect`, or any other chat model.
        messages: the whole prompt.
        stop: texts at which the reply ends; left out for models that take none.
        tools: what `bind_tools` takes.
        tool_choice: name of the tool that the model must call, `auto` or `any`; only with `tools`.
        config: of the node; by default that of the surrounding run.

    Returns:
        A reply whose `tool_calls` hold complete JSON objects only. Any other call is in `invalid_tool_calls`,
        with an id, its raw arguments, and an error that the model can act on.

    Raises:
        ModelUnavailable: unreachable, too slow, overloaded or failing, after the retries.
        ModelAccessDenied: no key, a wrong key, no right, no credit.
        ModelRequestRefused: the provider refuses the request; `code_of(error)` tells a `content_filter` and a
            `context_length_exceeded` from the rest.
        ConfigError: `tools` for a model that takes none.
    """
    call = _Call(model, stop, tools, tool_choice, config)
    while True:
        try:
            reply = call.runnable().invoke(list(messages), call.config())
        except Exception as error:
            mended = call.mend(error)
            if mended is not None:
                return mended
            time.sleep(call.wait_after(error))
        else:
            return call.settle(reply)


async def aask(
    model: BaseChatModel,
    messages: Sequence[BaseMessage],
    *,
    stop: Sequence[str] | None = None,
    tools: Sequence[Any] | None = None,
    tool_choice: str | None = None,
    config: RunnableConfig | None = None,
) -> AIMessage:
    """`ask` for async callers; cancelling the task cancels the request."""
    call = _Call(model, stop, tools, tool_choice, config)
    while True:
        try:
            reply = await call.runnable().ainvoke(list(messages), call.config())
        except Exception as error:
            mended = call.mend(error)
            if mended is not None:
                return mended
            await asyncio.sleep(call.wait_after(error))
        else:
            return call.settle(reply)


def usage_of(message: BaseMessage, cost_usd: float | None = None) -> Usage:
    """What one reply cost: one call, and the tokens that the provider reported, or zero.

    Args:
        message: the reply.
        cost_usd: its price, where it is known.
    """
    reported: Mapping[str, Any] = getattr(message, "usage_metadata", None) or {}
    return Usage(
        input_tokens=reported.get("input_tokens") or 0,
        output_tokens=reported.get("output_tokens") or 0,
        model_calls=1,
        cost_usd=cost_usd,
    )


def add_usage(*parts: Usage | None) -> Usage:
    """The sum of what was spent; None counts as nothing, and a cost that is not known makes the sum unknown."""
    known = [part for part in parts if part]
    costs = [part.get("cost_usd") for part in known]
    return Usage(
        input_tokens=sum(part["input_tokens"] for part in known),
        output_tokens=sum(part["output_tokens"] for part in known),
        model_calls=sum(part["model_calls"] for part in known),
        cost_usd=None if None in costs else sum(cost for cost in costs if cost is not None),
    )


class _Call:
    """State of one call over its attempts, shared by `ask` and `aask`."""

    def __init__(
        self,
        model: BaseChatModel,
        stop: Sequence[str] | None,
        tools: Sequence[Any] | None,
        tool_choice: str | None,
        config: RunnableConfig | None,
    ):
        self._model = model
        self._tools = list(tools or ())
        options = {"stop": list(stop) if stop else None, "tool_choice": tool_choice if tools else None}
        self._parameters = Parameters(model, {name: value for name, value in options.items() if value})
        self._config = ensure_config(config)
        self._listener = Listener()
        self._retries = 0

    def config(self) -> RunnableConfig:
        """The caller's config, and a fresh listener."""
        self._listener = Listener()
        # `ensure_config` has picked up the surrounding run; bare `callbacks` would cut off its trace.
        return merge_configs(self._config, {"callbacks": [self._listener]})

    def runnable(self) -> Runnable[Any, Any]:
        """The model with its tools and options, without what it refuses."""
        model, options = self._parameters.accepted()
        if not self._tools:
            return model.bind(**options) if options else model
        choice = {"tool_choice": options.pop("tool_choice")} if "tool_choice" in options else {}
        try:
            bound = model.bind_tools(self._tools, **choice)
        except NotImplementedError as error:
            name = type(self._model).__name__
            raise ConfigError(
                f"{name} takes no tools. Set action_format to 'fenced', or give a model that has bind_tools."
            ) from error
        return bound.bind(**options) if options else bound

    def wait_after(self, error: Exception) -> float:
        """Seconds until the next attempt, where there is one; raises our error where there is none."""
        if isinstance(error, _PASS):
            raise error
        if self._parameters.refused_by(error):
            return 0.0
        retry = classify(error).retry
        # The SDK's retries end where a reply begins: what breaks after that, it hands on.
        if retry == "sdk" and (self._listener.begun or not hasattr(self._model, "max_retries")):
            retry = "ours"
        wait = _retry_after(error) or min(8.0, _BACKOFF_S * 2**self._retries) * random.uniform(0.75, 1.0)
        if retry == "ours" and self._retries < RETRIES and wait <= LONGEST_WAIT_S:
            self._retries += 1
            return wait
        ours = translate(error, self._model)
        # A provider that refuses a key may quote it: that text must not reach a traceback.
        raise ours from (None if isinstance(ours, ModelAccessDenied) else error)

    def mend(self, error: Exception) -> AIMessage | None:
        """A reply in place of the `ValidationError` by which LangChain loses a reply with an odd tool call.

        Models from `connect` never come here: they keep the whole reply. Of others only the odd arguments are
        left.
        """
        if not isinstance(error, ValidationError) or error.title != "AIMessage":
            return None
        odd = [item for item in error.errors() if item["loc"][:1] in {("tool_calls",), ("invalid_tool_calls",)}]
        if not odd:
            return None
        only = getattr(self._tools[0], "name", "") if len(self._tools) == 1 else ""
        calls = [
            InvalidToolCall(
                type="invalid_tool_call",
                id=f"call_{number}",
                name=only,
                args=_text(item["input"]),
                error=_NO_OBJECT,
            )
            for number, item in enumerate(odd)
        ]
        return AIMessage("", invalid_tool_calls=calls)

    def settle(self, reply: Any) -> AIMessage:
        """Move calls with incomplete arguments to the invalid ones; give each of those an id and a reason.

        LangChain completes what a stream left open: `{"code": "rm('a` becomes a call that looks whole.
        """
        if not isinstance(reply, AIMessage):
            raise translate(TypeError(f"it returned a {type(reply).__name__}, not an AIMessage"), self._model)
        raw = self._listener.incomplete()
        invalid = [*reply.invalid_tool_calls]
        for call in reply.tool_calls:
            if call["id"] in raw:
                name, args = call["name"], raw[call["id"]]
                invalid.append(
                    InvalidToolCall(type="invalid_tool_call", id=call["id"], name=name, args=args, error=None)
                )
        if not invalid:
            return reply
        for number, bad in enumerate(invalid):
            bad["id"] = bad["id"] or f"call_{number}"
            bad["error"] = bad["error"] or _NO_OBJECT
        sound = [call for call in reply.tool_calls if call["id"] not in raw]
        return reply.model_copy(update={"tool_calls": sound, "invalid_tool_calls": invalid})


_NO_OBJECT = "the arguments are not one complete JSON object"


def _text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, default=str)


def _retry_after(error: Exception) -> float | None:
    """Seconds that the provider asks to wait, from a number or a date; None where it asks for none."""
    headers = getattr(getattr(error, "response", None), "headers", None) or {}
    value = str(headers.get("retry-after") or "").strip()
    if re.fullmatch(r"\d+(\.\d*)?", value):
        return float(value)
    try:
        until = parsedate_to_datetime(value)
    except (TypeError, ValueError):
        return None
    return max(0.0, (until.replace(tzinfo=until.tzinfo or UTC) - datetime.now(UTC)).total_seconds())
