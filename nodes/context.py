"""What the nodes need besides the state: the model, the sessions, the limits. Bound to them by the builder.

None of it enters the state: a live handle cannot be stored, and settings belong to the process that runs.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol, TypeAlias

from langchain_core.language_models import BaseChatModel
from langchain_core.runnables import RunnableConfig

from actloop.config import Budget, Limits
from actloop.prices import Prices, open_prices
from actloop.protocols import Session
from actloop.sandbox.host_functions import HostFunction
from actloop.state import Artifact, State

from .answer_schema import AnswerSchema
from .policy import Policy, Profile

ActionFormat: TypeAlias = Literal["fenced", "tool", "auto"]


class Sessions(Protocol):
    """Sessions by thread: opened when a thread needs one, kept until the thread or the agent ends."""

    def get(self, thread: str, kernel: str = "") -> Session:
        """The thread's session: the one that is open, the one in the box that the thread has, or a new one.

        Args:
            thread: its id.
            kernel: its secret, as the state has it.

        Raises:
            SandboxError: no box can be started, or another process holds it.
        """
        ...

    def has(self, thread: str, kernel: str = "") -> bool:
        """Whether the thread has a session in this process that answers."""
        ...

    def drop(self, thread: str, kernel: str = "") -> None:
        """Close the thread's session, if it has one, without waiting for its box to be removed."""
        ...

    def facts(self) -> tuple[str, str]:
        """Python version, and installed packages in one line, of the boxes to come."""
        ...


class Artifacts(Protocol):
    """Files that runs made, kept on the host."""

    def keep(self, name: str, data: bytes, media_type: str, turn: int) -> Artifact:
        """Store a file under its content and say where it is."""
        ...


@dataclass(frozen=True)
class Context:
    """Everything that the nodes of one agent share."""

    model: BaseChatModel
    sessions: Sessions
    artifacts: Artifacts
    limits: Limits = field(default_factory=Limits)
    policy: Profile | Policy = "standard"
    budget: Budget = field(default_factory=Budget)
    max_turns: int = 10
    max_repairs: int = 3
    secrets: Sequence[str] = ()
    action_format: ActionFormat = "fenced"
    """How the model is asked to send code; a reply in the other form is read as well. `auto`: see `action_format`."""
    functions: Sequence[HostFunction] = ()
    """Functions of the host that cells may call."""
    language: Literal["en", "zh", "auto"] = "auto"
    """Of the prompt; `auto` is that of the task."""
    prompt: Literal["full", "short", "auto"] = "auto"
    """Form of the prompt; `auto` is short for small models."""
    coder: BaseChatModel | None = None
    """Writes the cells, for which the model then makes a plan in words."""
    repairer: BaseChatModel | None = None
    """Mends cells that failed; without it the coder does, without that the model."""
    context_tokens: int | None = None
    """Ceiling of a request; a longer history is shortened. None is what the asked model takes."""
    images: bool = False
    """The model sees images: figures are put into its prompt."""
    prices: Prices = field(default_factory=open_prices)
    schema: AnswerSchema | None = None
    """What the final answer must be."""
    answer_check: Callable[..., Any] | None = None
    """The caller's check of the final answer: see `nodes/answering.py`."""


def thread_of(state: State, config: RunnableConfig) -> tuple[str, str]:
    """The thread of a run and its secret; a run that has no thread is one of its own."""
    thread = (config.get("configurable") or {}).get("thread_id")
    return (str(thread) if thread is not None else f"run-{state['run']['id']}"), state.get("kernel") or ""


def input_files(state: State) -> dict[str, Path]:
    """All files that the thread was given: name in the workspace, and path on the host."""
    return {name: Path(path) for name, path in (state.get("inputs") or {}).items()}
