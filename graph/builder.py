"""The graph: six nodes, and one for approvals. `create_agent` makes it ready to run."""

import atexit
import shutil
import tempfile
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal
from weakref import WeakKeyDictionary

from langchain_core.language_models import BaseChatModel
from langchain_core.runnables import RunnableLambda
from langchain_core.tools import BaseTool
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph

from actloop.config import Budget, Limits, Settings
from actloop.errors import ConfigError
from actloop.nodes.answer_schema import AnswerSchema, answer_schema
from actloop.nodes.answering import AnswerCheck, usable_check
from actloop.nodes.approve import approve as approve_node
from actloop.nodes.coding import acode, code
from actloop.nodes.context import ActionFormat, Context
from actloop.nodes.execute import aexecute, execute
from actloop.nodes.images import takes_images
from actloop.nodes.model import connect
from actloop.nodes.observe import observe
from actloop.nodes.policy import Policy, Profile
from actloop.nodes.prompting import FORMS, LANGUAGES
from actloop.nodes.reason import areason, reason
from actloop.nodes.repair import arepair, repair
from actloop.nodes.safety_check import safety_check
from actloop.nodes.spending import ametered, check_prices, metered
from actloop.prices import GivenPrices, open_prices
from actloop.sandbox.opening import BACKENDS, open_pool, open_session, session_facts
from actloop.sandbox.sweeping import sweep_in_background
from actloop.state import Input, Result, State

from .agent import Agent
from .artifacts import ArtifactFolder
from .checkpoints import open_checkpoints
from .mcp import mcp_tools
from .sessions import ThreadSessions
from .tools import host_functions


def build_graph(context: Context) -> StateGraph[State, None, Input, Result]:
    """Wire the nodes; compile the result with whatever checkpointer you like.

    Every node says itself where to go, by the reply, the verdict, the exit code and the limits.

    Args:
        context: what the nodes share; see `create_agent` for how one is made.
    """
    graph = StateGraph(State, input_schema=Input, output_schema=Result)
    _add(graph, "reason", reason, ("codegen", "__end__"), context, areason)
    _add(graph, "codegen", code, ("safety_check", "reason", "__end__"), context, acode)
    _add(graph, "safety_check", safety_check, ("execute", "approve", "repair"), context)
    _add(graph, "approve", approve_node, ("execute", "safety_check", "repair"), context)
    _add(graph, "execute", metered(execute), ("observe", "approve", "__end__"), context, ametered(aexecute))
    _add(graph, "observe", observe, ("reason", "repair", "__end__"), context)
    _add(graph, "repair", repair, ("codegen", "__end__"), context, arepair)
    graph.add_edge(START, "reason")
    return graph


def _add(
    graph: StateGraph[State, None, Input, Result],
    name: str,
    node: Callable[..., Any],
    destinations: tuple[str, ...],
    context: Context,
    async_node: Callable[..., Any] | None = None,
) -> None:
    """Add a node bound to the context; one that waits for the outside has an async twin."""
    bound: Any = partial(node, context=context)
    if async_node is not None:
        bound = RunnableLambda(bound, afunc=partial(async_node, context=context), name=name)
    graph.add_node(name, bound, destinations=destinations)


def create_agent(
    model: str | BaseChatModel | None = None,
    *,
    coder: str | BaseChatModel | None = None,
    repairer: str | BaseChatModel | None = None,
    base_url: str | None = None,
    sandbox: str = "auto",
    image: str | None = None,
    limits: Limits | None = None,
    policy: Profile | Policy = "standard",
    action_format: ActionFormat = "auto",
    language: Literal["en", "zh", "auto"] = "auto",
    prompt: Literal["full", "short", "auto"] = "auto",
    context_tokens: int | None = None,
    budget: Budget | None = None,
    prices: GivenPrices | None = None,
    max_turns: int = 10,
    max_repairs: int = 3,
    response_schema: type | Mapping[str, Any] | None = None,
    answer_check: AnswerCheck | None = None,
    secrets: Sequence[str] = (),
    tools: Sequence[Callable[..., Any] | BaseTool] = (),
    approve: Collection[str] = (),
    mcp: Mapping[str, Mapping[str, Any]] | None = None,
    checkpointer: BaseCheckpointSaver[Any] | str | Path | Literal[False] | None = None,
    snapshots: str | Path | Literal[False] | None = None,
    pool: int | None = None,
    settings: Settings | None = None,
) -> Agent:
    """Make an agent.

    ```python
    agent = create_agent("openai:gpt-5")
    thread = {"configurable": {"thread_id": "t1"}}
    out = agent.invoke({"task": "How many rows?", "files": {"sales.csv": "sales.csv"}}, thread)
    print(out["status"], out["answer"])
    agent.sessions.close()
    ```

    Args:
        model: a chat model, or the name of one: `openai:gpt-5`, or a bare name together with `base_url`. None takes
            what the environment names.
        coder: a model that writes the cells; `model` then plans each of them in words: one more request a turn.
        repairer: a model that mends cells that failed; by default the coder, or else the model.
        base_url: address of an OpenAI-compatible server.
        sandbox: `docker`, or `auto` for the best there is.
        image: image of the sandbox; by default the one that `actloop image build` makes.
        limits: of each box.
        policy: of the safety check: `open`, `standard`, `strict`, or a `Policy` that switches single rules.
        action_format: how the model sends code: in a `fenced` block, or by a `tool` call. `auto` is a tool call where
            the model's profile says that it calls tools, until calls come that cannot be used; else fenced, which every
            model can do and which needs no quoting. Replies in either form are read whatever is asked for.
        language: of the prompt: `en`, `zh`, or `auto` for that of the task.
        prompt: its form: `full`, `short`, or `auto`, which is short for models whose name says that they have 8 billion
            parameters or fewer.
        context_tokens: ceiling of one request, about; what is sent of a longer history is shortened, what is stored is
            not. None is 60 % of what the model's profile says that it takes, else 24000.
        budget: of each run, and of the whole thread where it says so. A ceiling in dollars needs known prices.
        prices: dollars per million tokens of input, cached input and output, by the model's name; they go before those
            of the file that `ACTLOOP_PRICES` names, and those before `actloop/prices.json`, which is a snapshot.
        max_turns: cells that a run may execute.
        max_repairs: cells that may fail in a row.
        response_schema: what the final answer must be: a pydantic model, another type that pydantic knows, or a JSON
            Schema. `out["answer"]` is then JSON text, `out["answer_data"]` its value, `out["answer_type"]` the schema's
            name. An answer that is not accepted is sent back once; then the run ends `stuck`, without an answer.
        answer_check: takes the answer (the value, where there is a schema) and, if it has a second argument, a summary
            of the run; returns True, or False or a text that says what is wrong. Such an answer is sent back once; then
            the run ends `unverified`.
        secrets: values that are masked wherever they would be shown or stored.
        tools: functions of this process, or LangChain tools, that cells may call with JSON, bytes and tables.
        mcp: MCP servers by name, of which cells may call the tools: see `graph/mcp.py`. Needs the extra `mcp`.
        approve: names of tools of which a person has to approve each call, while the cell waits.
        checkpointer: where threads are kept: path of a SQLite file, a URL (`sqlite:///…`, `postgresql://…`), or any
            saver. None is what `ACTLOOP_CHECKPOINTS` says, else a SQLite file in the user's data folder; False is none
            of its own: a parent graph's is used where there is one.
        snapshots: where the variables and files of threads are kept after each cell: a folder, or a URL that fsspec
            knows (`s3://…`). None is a folder in the user's data folder; False keeps none.
        pool: boxes that are started now and wait for new threads, whose first cell then runs at once. None is what
            `ACTLOOP_POOL` says, else 0. They are removed with the sessions.
        settings: what the environment says; read now if not given.

    Returns:
        A compiled LangGraph graph. Its attribute `sessions` holds the sandbox sessions by thread; `sessions.close()`,
        or leaving `with agent.sessions:`, removes their boxes.

    Raises:
        ConfigError: a setting cannot be used.
        InputError: checkpoints cannot be kept where they should be.
        ModelAccessDenied: there is no key for the model.
    """
    if max_turns < 1:
        raise ConfigError(f"max_turns is {max_turns}; a run needs at least 1 cell: give 1 or more.")
    if max_repairs < 0:
        raise ConfigError(f"max_repairs is {max_repairs}; it may be 0 or more.")
    if context_tokens is not None and context_tokens < 1:
        raise ConfigError(f"context_tokens is {context_tokens}; give the tokens that a request may have, 1 or more.")
    if action_format not in ("auto", "fenced", "tool"):
        raise ConfigError(f"There is no action format {action_format!r}; choose one of auto, fenced, tool.")
    for what, value, known in (("language", language, LANGUAGES), ("form of the prompt", prompt, FORMS)):
        if value not in known:
            raise ConfigError(f"There is no {what} {value!r}; choose one of {', '.join(known)}.")
    if sandbox not in BACKENDS:
        raise ConfigError(f"There is no sandbox {sandbox!r}; choose one of {', '.join(BACKENDS)}.")
    checked_by = Policy.of(policy)
    settings = settings or Settings()
    pool = settings.pool if pool is None else pool
    if pool < 0:
        raise ConfigError(f"pool is {pool}; give the number of boxes that shall wait, 0 or more.")
    limits = limits or Limits()
    image = image or settings.image
    functions = host_functions([*tools, *mcp_tools(mcp or {})], approve)
    store = _snapshot_store(snapshots, checkpointer, settings)
    check, schema = usable_check(answer_check), _answer_schema(response_schema)
    known_prices = open_prices(prices, settings.prices)
    chat_model = connect(model, base_url=base_url, settings=settings)
    writer, mender = (
        connect(other, base_url=base_url, settings=settings) if other is not None else None
        for other in (coder, repairer)
    )
    check_prices(budget or Budget(), known_prices, [chat_model, *(other for other in (writer, mender) if other)])
    saver: Any = checkpointer
    if checkpointer is None or isinstance(checkpointer, str | Path):
        saver = open_checkpoints(checkpointer, settings)
    # Last, because from here on boxes are started.
    sessions = ThreadSessions(
        lambda order: open_session(sandbox, limits=limits, image=image, order=order),
        lambda: session_facts(image),
        store,
        functions,
        pool=open_pool(pool, sandbox, limits=limits, image=image) if pool else None,
        tidy=sweep_in_background,
    )
    context = Context(
        model=chat_model,
        sessions=sessions,
        artifacts=ArtifactFolder(settings.data_dir / "artifacts"),
        limits=limits,
        policy=checked_by,
        budget=budget or Budget(),
        max_turns=max_turns,
        max_repairs=max_repairs,
        secrets=tuple(secrets),
        action_format=action_format,
        language=language,
        coder=writer,
        repairer=mender,
        context_tokens=context_tokens,
        prompt=prompt,
        functions=tuple(functions),
        images=takes_images(chat_model),
        prices=known_prices,
        schema=schema,
        answer_check=check,
    )
    compiled = build_graph(context).compile(checkpointer=saver or None, name="actloop")
    return Agent(sessions=sessions, **vars(compiled))


def _answer_schema(given: Any) -> AnswerSchema | None:
    try:
        return answer_schema(given)
    except (ValueError, TypeError) as error:
        why = str(error).rstrip(".")
        raise ConfigError(
            f"The response_schema cannot be used: {why}. Give a pydantic model, or a JSON Schema as a dict."
        ) from error


def _snapshot_store(
    snapshots: str | Path | Literal[False] | None, checkpointer: object, settings: Settings
) -> str | None:
    """Folder or URL of the snapshots; what nobody can find again goes with this process."""
    if snapshots is False:
        return None
    if snapshots is None and isinstance(checkpointer, InMemorySaver):
        if checkpointer not in _FOLDERS:
            _FOLDERS[checkpointer] = tempfile.mkdtemp(prefix="actloop-")
            atexit.register(shutil.rmtree, _FOLDERS[checkpointer], ignore_errors=True)
        return _FOLDERS[checkpointer]
    return str(snapshots or settings.snapshot_store)


_FOLDERS: WeakKeyDictionary[InMemorySaver, str] = WeakKeyDictionary()
"""Snapshots of threads that are kept in memory: agents that share the saver share them."""
