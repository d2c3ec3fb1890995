"""What a run spends and what it may spend: the cost of a reply, the ceilings, and models that cells call."""

import threading
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from typing import Any, TypeAlias

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.messages.utils import count_tokens_approximately
from langchain_core.outputs import ChatGeneration, LLMResult
from langchain_core.runnables import RunnableConfig
from langchain_core.tracers.context import register_configure_hook
from langgraph.types import Command

from actloop.config import Budget
from actloop.errors import ConfigError, ModelRequestRefused
from actloop.prices import Prices
from actloop.state import State, Usage

from .asking import add_usage, usage_of
from .context import Context
from .run import Run, run_of

SPENT = "budget"
"""Code of the error of a request that is not made because the budget is spent."""

Node: TypeAlias = Callable[..., Command[Any]]
AsyncNode: TypeAlias = Callable[..., Awaitable[Command[Any]]]


def name_of(model: BaseChatModel) -> str:
    """The name by which prices know a model; empty where it has none."""
    for attribute in ("model_name", "model", "model_id"):
        name = getattr(model, attribute, None)
        if isinstance(name, str) and name:
            return name
    return ""


def check_prices(budget: Budget, prices: Prices, models: Sequence[BaseChatModel]) -> None:
    """Refuse a ceiling in money where nobody could tell that it is reached.

    Raises:
        ConfigError: the price of a model is not known.
    """
    if budget.usd is None and budget.thread_usd is None:
        return
    for model in models:
        name = name_of(model)
        if prices.of(name) is None:
            raise ConfigError(
                f"The budget has a ceiling in dollars, and no price of the model {name or type(model).__name__!r} is "
                f"known. Give it with create_agent(prices={{{name or 'name'!r}: (input, cached input, output)}}), in "
                "dollars per million tokens, or in the file that ACTLOOP_PRICES names; or take Budget(tokens=…)."
            )


def spent_on(reply: BaseMessage, prompt: Sequence[BaseMessage], prices: Prices, name: str = "") -> Usage:
    """What one request has used; where the provider reports nothing, an estimate, so that ceilings hold all the same.

    Args:
        reply: of the model.
        prompt: that it answers.
        prices: by name.
        name: of the model, as it was configured.
    """
    used = usage_of(reply)
    if not getattr(reply, "usage_metadata", None):
        used["input_tokens"] = count_tokens_approximately(prompt)
        used["output_tokens"] = count_tokens_approximately([reply])
    # A provider names the version that it took, a deployment the name that its prices are given by.
    metadata = reply.response_metadata
    price = prices.of(str(metadata.get("model_name") or metadata.get("model") or ""), name)
    if price is None:
        return used
    details: Any = (getattr(reply, "usage_metadata", None) or {}).get("input_token_details") or {}
    cached = details.get("cache_read") or 0
    return Usage(**{**used, "cost_usd": price.cost(used["input_tokens"], cached, used["output_tokens"])})


def over_budget(context: Context, run: Run) -> str:
    """Which ceiling the run has reached, in words; empty where none."""
    budget, usage = context.budget, run["usage"]
    whole = add_usage(run.get("before"), usage)
    reached = (
        _tokens(budget.tokens, usage, "tokens are used"),
        _tokens(budget.thread_tokens, whole, "tokens are used in this thread"),
        _money(budget.usd, usage, "are spent"),
        _money(budget.thread_usd, whole, "are spent in this thread"),
        _count(budget.model_calls, usage["model_calls"], "requests are used"),
        _seconds(budget.wall_s, time.time() - run["started"]),
    )
    return "; ".join(words for words in reached if words)


def _tokens(ceiling: int | None, usage: Usage, words: str) -> str:
    return _count(ceiling, usage["input_tokens"] + usage["output_tokens"], words)


def _count(ceiling: int | None, number: int, words: str) -> str:
    return f"{number} of {ceiling} {words}" if ceiling is not None and number >= ceiling else ""


def _money(ceiling: float | None, usage: Usage, words: str) -> str:
    if ceiling is None:
        return ""
    cost = usage.get("cost_usd")
    if cost is None:
        return f"a model without a known price was called, so the ceiling of ${ceiling:g} cannot be kept"
    return f"${cost:.4g} of ${ceiling:g} {words}" if cost >= ceiling else ""


def _seconds(ceiling: float | None, passed: float) -> str:
    return f"{ceiling:g} seconds have passed" if ceiling is not None and passed >= ceiling else ""


class Meter(BaseCallbackHandler):
    """Counts what models use that a cell reaches through functions of the host, and stops them at the ceilings.

    An agent in such a function is counted with all that it asks, whatever its own budget says.

    Args:
        context: of the agent whose cell runs.
        run: its counters.
    """

    raise_error = True
    run_inline = True

    def __init__(self, context: Context, run: Run) -> None:
        self.used: Usage = add_usage()
        self._context = context
        self._run = run
        self._prompts: dict[Any, list[BaseMessage]] = {}
        self._lock = threading.Lock()

    def on_chat_model_start(self, serialized: Any, messages: list[list[BaseMessage]], **facts: Any) -> None:
        """Refuse the request where the budget is spent."""
        with self._lock:
            so_far: Run = {**self._run, "usage": add_usage(self._run["usage"], self.used)}
            self._prompts[facts.get("run_id")] = messages[0] if messages else []
        spent = over_budget(self._context, so_far)
        if spent:
            error = ModelRequestRefused(f"The request was not made: {spent}. Raise the budget of the agent.")
            error.code = SPENT
            raise error

    def on_llm_start(self, serialized: Any, prompts: list[str], **facts: Any) -> None:
        """Likewise, for models that complete text."""
        self.on_chat_model_start(serialized, [[AIMessage(prompt) for prompt in prompts]], **facts)

    def on_llm_end(self, response: LLMResult, **facts: Any) -> None:
        """Count a reply."""
        generation = response.generations[0][0] if response.generations and response.generations[0] else None
        if generation is None:
            return
        reply = generation.message if isinstance(generation, ChatGeneration) else AIMessage(generation.text)
        with self._lock:
            prompt = self._prompts.pop(facts.get("run_id"), [])
            self.used = add_usage(self.used, spent_on(reply, prompt, self._context.prices))


_METER: ContextVar[Meter | None] = ContextVar("actloop_meter", default=None)


@cache
def _hooked() -> None:
    """Have LangChain hand the meter of the context to every model that is called in it."""
    register_configure_hook(_METER, inheritable=True)


@contextmanager
def _metered(state: State, context: Context) -> Iterator[Meter]:
    _hooked()
    meter = Meter(context, run_of(state))
    token = _METER.set(meter)
    try:
        yield meter
    finally:
        _METER.reset(token)


def metered(node: Node) -> Node:
    """A node that counts what models have used which its cell has reached."""

    def with_meter(state: State, config: RunnableConfig, *, context: Context) -> Command[Any]:
        with _metered(state, context) as meter:
            command = node(state, config, context=context)
        return _counted(command, state, meter.used)

    return with_meter


def ametered(node: AsyncNode) -> AsyncNode:
    """`metered` for an async node."""

    async def with_meter(state: State, config: RunnableConfig, *, context: Context) -> Command[Any]:
        with _metered(state, context) as meter:
            command = await node(state, config, context=context)
        return _counted(command, state, meter.used)

    return with_meter


def _counted(command: Command[Any], state: State, used: Usage) -> Command[Any]:
    if not used["model_calls"]:
        return command
    update = dict(command.update or {}) if isinstance(command.update, dict) else {}
    run: Run = update.get("run") or run_of(state)
    usage = add_usage(run["usage"], used)
    update["run"] = {**run, "usage": usage}
    if "usage" in update:
        update["usage"] = usage
    return Command(goto=command.goto, update=update, resume=command.resume, graph=command.graph)
