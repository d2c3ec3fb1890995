import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeAlias

import docker
import pytest
from langchain_core.language_models import BaseChatModel
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver

from actloop import Agent, build_graph, create_agent
from actloop.graph.artifacts import ArtifactFolder
from actloop.graph.checkpoints import SqliteCheckpoints, strict_serializer
from actloop.graph.postgres import PostgresCheckpoints
from actloop.graph.sessions import ThreadSessions
from actloop.nodes.context import Context
from actloop.sandbox.session import BoxSession
from actloop.testing import Script, ScriptedModel

Saver: TypeAlias = SqliteCheckpoints | PostgresCheckpoints


@pytest.fixture(params=["sqlite", "postgres"])
def saver(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Saver]:
    """Checkpoints in an empty database, of either kind."""
    opened: Saver
    if request.param == "sqlite":
        opened = SqliteCheckpoints(tmp_path / "checkpoints.sqlite")
    else:
        opened = PostgresCheckpoints(request.getfixturevalue("postgres_url"))
    yield opened
    opened.close()


class OneBox(ThreadSessions):
    """Sessions that give every thread the same warm box, for tests that are not about boxes.

    As with real ones, a thread that never asked has none yet.
    """

    def __init__(self, box: BoxSession, facts: tuple[str, str]) -> None:
        super().__init__(lambda order: box, lambda: facts)

    def drop(self, thread: str, kernel: str = "", wait: bool = False) -> None:
        for key, _ in self._of(thread, kernel):
            self._sessions.pop(key)

    def close(self) -> None:
        """The box stays for the next test."""


class Make:
    """Makes agents; called as it is, their threads share one warm box."""

    def __init__(self, box: BoxSession, facts: tuple[str, str], folder: Path) -> None:
        self._box = box
        self._facts = facts
        self._folder = folder
        self._owners: list[ThreadSessions] = []

    def __call__(self, replies: Script | BaseChatModel, *, checkpointer: Any = None, **settings: Any) -> Agent:
        context = Context(
            model=replies if isinstance(replies, BaseChatModel) else ScriptedModel(replies),
            sessions=OneBox(self._box, self._facts),
            artifacts=ArtifactFolder(self._folder),
            **settings,
        )
        saver = checkpointer or InMemorySaver(serde=strict_serializer())
        compiled = build_graph(context).compile(checkpointer=saver, name="actloop")
        assert isinstance(context.sessions, OneBox)
        return Agent(sessions=context.sessions, **vars(compiled))

    def own(self, replies: Script | BaseChatModel, **settings: Any) -> Agent:
        """An agent as `create_agent` makes it, with a box for each thread; closed after the test."""
        model = replies if isinstance(replies, BaseChatModel) else ScriptedModel(replies)
        settings.setdefault("checkpointer", InMemorySaver(serde=strict_serializer()))
        agent = create_agent(model, **settings)
        self._owners.append(agent.sessions)
        return agent

    def close(self) -> None:
        for sessions in self._owners:
            sessions.close()


@pytest.fixture(scope="session")
def warm(image: str) -> Iterator[tuple[BoxSession, tuple[str, str]]]:
    """One box for many tests, and what is known of it."""
    agent = create_agent(ScriptedModel([]), checkpointer=False)
    with agent.sessions:
        yield agent.sessions.get(f"warm-{uuid.uuid4().hex[:8]}"), agent.sessions.facts()


@pytest.fixture
def make(warm: tuple[BoxSession, tuple[str, str]], tmp_path: Path) -> Iterator[Make]:
    maker = Make(*warm, tmp_path / "artifacts")
    yield maker
    maker.close()


@pytest.fixture
def thread() -> RunnableConfig:
    """A thread that nobody has used."""
    return {"configurable": {"thread_id": f"test-{uuid.uuid4().hex[:8]}"}}


class Boxes:
    """The boxes of a thread, as the engine knows them."""

    def __init__(self, client: docker.DockerClient) -> None:
        self._client = client

    def of(self, config: RunnableConfig) -> list[Any]:
        label = f"actloop.thread={config['configurable']['thread_id']}"
        return list(self._client.containers.list(all=True, filters={"label": label}, ignore_removed=True))


@pytest.fixture
def boxes(engine: docker.DockerClient) -> Boxes:
    return Boxes(engine)
