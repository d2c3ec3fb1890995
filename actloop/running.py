"""One run from the command line: from what was typed to a result and an exit code.

The graph runs on an event loop, because Ctrl-C can then cancel a request that is under way instead of waiting for it.
"""

import asyncio
import json
import sys
import uuid
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any, cast

from langchain_core.language_models import BaseChatModel
from langgraph.types import Command

from .config import Settings
from .errors import ConfigError, InputError
from .graph import Agent, create_agent
from .nodes.controls import strip_controls
from .state import Artifact
from .terminal import View

DEMO_TASK = (
    "Which region's monthly revenue grew fastest from 2024 to 2025? Save a table of yearly revenue by region as "
    "growth.csv and draw the monthly revenue of each region."
)
SHOWN = ("status", "answer", "answer_type", "answer_data", "summary", "turns", "usage")
"""What `--json` takes from the state, besides the files and the thread."""
POLICIES = ("open", "standard", "strict")


def new_thread() -> str:
    """An id that no thread has."""
    return uuid.uuid4().hex[:12]


@dataclass(kw_only=True)
class Setup:
    """What a person asked for, whatever is to be done with it."""

    out: Path
    """Folder for the files that runs make."""
    model: str | BaseChatModel | None = None
    base_url: str | None = None
    max_turns: int = 10
    policy: str = "standard"
    image: str | None = None
    checkpoints: str | None = None
    """Path or URL; None is the user's own store."""

    def checked(self, files: Sequence[Path] = ()) -> dict[str, str]:
        """Look at everything that was given before anything is started.

        Args:
            files: input files.

        Returns:
            The input files: name in the sandbox, and path on the host.

        Raises:
            ConfigError: something cannot be used.
        """
        if self.policy not in POLICIES:
            raise ConfigError(f"There is no policy {self.policy!r}; choose one of {', '.join(POLICIES)}.")
        named = _named(files)
        _check_writable(self.out)
        return named

    def agent(self) -> Agent:
        """An agent as it was asked for.

        Raises:
            ActloopError: see `create_agent`.
        """
        return create_agent(
            self.model,
            base_url=self.base_url,
            image=self.image,
            max_turns=self.max_turns,
            policy=cast(Any, self.policy),
            checkpointer=self.checkpoints,
            # One thread, and then the process ends.
            pool=0,
        )


@dataclass(kw_only=True)
class Order(Setup):
    """One run."""

    task: str
    files: Sequence[Path]
    as_json: bool = False
    notice: str = ""
    """A line for the person before the run begins."""
    thread: str = field(default_factory=new_thread)


def demo_order(out: Path, model: str | None, base_url: str | None, image: str | None, as_json: bool) -> Order:
    """The bundled question, with the user's model where there is one, else with recorded replies."""
    settings = Settings()
    order = Order(task=DEMO_TASK, files=[], out=out, model=model, base_url=base_url, image=image, as_json=as_json)
    with as_file(files("actloop").joinpath("demo/sales.csv")) as path:
        order.files = [path]
    if not (model or base_url or settings.base_url or settings.openai_api_key or settings.model):
        from .testing import ScriptedModel

        replies = json.loads(files("actloop").joinpath("demo/replies.json").read_text("utf-8"))
        order.model = ScriptedModel(replies=replies, delay_s=0.002 if sys.stderr.isatty() and not as_json else 0.0)
        order.notice = (
            "No model is set (OPENAI_API_KEY, ACTLOOP_BASE_URL): recorded replies are replayed; the code really runs."
        )
    return order


def run_order(order: Order) -> int:
    """Run it.

    Returns:
        Exit code: 0 success; 1 the run ended otherwise; 2 it could not begin.

    Raises:
        ActloopError: something that was given cannot be used.
    """
    if not order.task.strip():
        raise ConfigError("The task is empty: say in words what is to be done.")
    given = order.checked(order.files)
    check_thread(order.thread)
    agent = order.agent()
    view = View(quiet=order.as_json)
    view.begin(order.task, order.notice)
    with agent.sessions, asyncio.Runner() as runner:
        result = drive(runner, agent, {"task": order.task, "files": given}, order.thread, view)
    return finish(result, order.out, order.thread, view, as_json=order.as_json)


def _named(given: Sequence[Path]) -> dict[str, str]:
    """Input files that can be read: name in the sandbox, and path on the host."""
    named: dict[str, str] = {}
    for path in given:
        try:
            # A pipe would be waited for when it is opened.
            if path.exists() and not path.is_file():
                raise OSError(0, "it is no regular file")
            with path.open("rb"):
                pass
        except OSError as error:
            raise InputError(
                f"The input file {path} cannot be read: {error.strerror}. Check its path and rights."
            ) from None
        if path.name in named:
            raise ConfigError(f"Two input files are called {path.name}; rename one of them.")
        named[path.name] = str(path.resolve())
    return named


def check_thread(thread: str) -> None:
    """Refuse an id that could be neither shown nor typed again.

    Raises:
        ConfigError: it is empty, or has white space or control characters.
    """
    if not thread or not thread.isprintable() or any(character.isspace() for character in thread):
        raise ConfigError(f"The thread id {thread!r} cannot be used; give one of letters, digits and signs, no spaces.")


def _check_writable(out: Path) -> None:
    """Try to write where the folder is or will be; it is made when there is something to put into it."""
    place = out.absolute()
    while not place.exists() and place != place.parent:
        place = place.parent
    probe = place / f".actloop-{uuid.uuid4().hex[:8]}"
    try:
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise InputError(f"The folder {out} cannot be written: {error.strerror}. Choose another with --out.") from None


def drive(runner: asyncio.Runner, agent: Agent, step: Any, thread: str, view: View) -> dict[str, Any]:
    """Run the graph to the end of its run, and put its questions to the person at the terminal.

    Args:
        runner: event loop.
        agent: that runs.
        step: what the graph is given: a task, the answer to a question, or None to go on.
        thread: id.
        view: shows it.

    Returns:
        The state that the run ended in; after Ctrl-C what there is, as `cancelled`.
    """
    config: Any = {"configurable": {"thread_id": thread}}
    try:
        while True:
            asked = runner.run(_stream(agent, step, config, view))
            if asked is None:
                return dict(agent.get_state(config).values)
            # Between two runs of the loop, so that Ctrl-C ends the question as well.
            step = Command(resume=view.ask(asked))
    except KeyboardInterrupt:
        return _after_ctrl_c(agent, config)


def finish(result: dict[str, Any], out: Path, thread: str, view: View, *, as_json: bool = False) -> int:
    """Save what the run made and say how it ended.

    Args:
        result: of `drive`.
        out: folder for the files; those that the thread was given are never overwritten.
        thread: id, named at the end.
        view: shows it.
        as_json: print the result as JSON instead.

    Returns:
        The exit code.

    Raises:
        InputError: the folder cannot be written.
    """
    saved: list[Path] = []
    try:
        saved = save(result.get("artifacts") or [], out, [Path(path) for path in (result.get("inputs") or {}).values()])
    finally:
        # An answer that was paid for is shown, even where its files cannot be written.
        if as_json:
            shown = {name: result.get(name) for name in SHOWN}
            print(json.dumps({**shown, "artifacts": [str(path) for path in saved], "thread": thread}, indent=2))
        else:
            view.end(result, saved, thread)
    return _exit_code(result)


async def _stream(agent: Agent, step: Any, config: Any, view: View) -> Any:
    """Run the graph to its end or its next question, showing it as it goes."""
    asked = None
    async for mode, data in agent.astream(step, config, stream_mode=["updates", "custom", "messages"]):
        if mode == "updates" and isinstance(data, dict) and "__interrupt__" in data:
            asked = data["__interrupt__"][0].value
        else:
            view.show(mode, data)
    return asked


def _after_ctrl_c(agent: Agent, config: Any) -> dict[str, Any]:
    """What there is after Ctrl-C."""
    values = dict(agent.get_state(config).values)
    if values.get("task") is not None:
        # The run has not begun: all else in the state is the last one's.
        values = {}
    spent = {name: values["run"][name] for name in ("turns", "usage")} if values.get("run") else {}
    return {**values, **spent, "status": "cancelled", "summary": "Stopped by Ctrl-C.", "answer": None}


def save(artifacts: Sequence[Artifact], out: Path, inputs: Collection[Path] = ()) -> list[Path]:
    """Copy artifacts below a folder, and nowhere else.

    Args:
        artifacts: what the run made.
        out: the folder.
        inputs: the user's own files, which are never overwritten.

    Raises:
        InputError: the folder cannot be written.
    """
    saved = []
    root = out.resolve()
    for artifact in artifacts:
        shown = out / strip_controls(artifact["name"]).replace("\n", "_")
        if shown.resolve() in inputs:
            shown = shown.with_stem(f"{shown.stem}-changed")
        target = shown.resolve()
        if not target.is_relative_to(root) or target == root:
            continue
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(Path(artifact["path"]).read_bytes())
        except OSError as error:
            raise InputError(
                f"{target} cannot be written: {error.strerror}. Choose another folder with --out."
            ) from None
        saved.append(shown)
    return saved


def _exit_code(result: dict[str, Any]) -> int:
    if result.get("status") == "success":
        return 0
    started = result.get("turns") or any(message.type == "ai" for message in result.get("messages") or [])
    return 1 if started or result.get("status") not in ("model_unavailable", "sandbox_error") else 2
