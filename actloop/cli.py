"""The command line. Exit codes: 0 success, 1 the run ended otherwise, 2 wrong use or set-up."""

import io
import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from .errors import ActloopError

app = typer.Typer(
    name="actloop",
    help="An agent that solves tasks by writing Python, running it in a sandbox and repairing it.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
image_app = typer.Typer(help="The image of the sandbox.", no_args_is_help=True)
app.add_typer(image_app, name="image")
threads_app = typer.Typer(help="Threads that are kept; an id may be given by its beginning.", no_args_is_help=True)
app.add_typer(threads_app, name="threads")

Model = Annotated[str | None, typer.Option("--model", "-m", help="openai:gpt-5, or a bare name with --base-url.")]
BaseUrl = Annotated[str | None, typer.Option("--base-url", "-u", help="Address of an OpenAI-compatible server.")]
Out = Annotated[Path, typer.Option("--out", "-o", help="Folder for the files that the run made.")]
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON, and nothing else, on stdout.")]
MaxTurns = Annotated[int, typer.Option("--max-turns", help="Cells that a run may execute.")]
Policy = Annotated[str, typer.Option("--policy", help="Safety check: open, standard or strict.")]
Files = Annotated[
    list[Path] | None, typer.Option("--file", "-f", help="File to put into the sandbox; may be repeated.")
]
Thread = Annotated[str | None, typer.Option("--thread", help="Thread to go on in; a new id begins a new one.")]
Checkpoints = Annotated[
    str | None, typer.Option("--checkpoints", help="Where threads are kept: a file, or postgresql://…")
]
ThreadId = Annotated[str, typer.Argument(metavar="ID", help="Id of the thread, or how it begins.")]
Image = Annotated[str | None, typer.Option("--image", help="Image of the sandbox.")]


@contextmanager
def _errors_in_one_sentence() -> Iterator[None]:
    """Turn an error of ours into a sentence on stderr and exit code 2, and Ctrl-C into one and exit code 1."""
    try:
        yield
    except ActloopError as error:
        _complain(str(error))
        raise typer.Exit(2) from None
    except KeyboardInterrupt:
        _complain("Stopped by Ctrl-C.")
        raise typer.Exit(1) from None


def _complain(text: str) -> None:
    typer.secho(f"actloop: {text}", fg="red", err=True, color=False if os.environ.get("NO_COLOR") else None)


@app.command()
def run(
    task: Annotated[str, typer.Argument(help="What is to be done, in words.")],
    file: Files = None,
    out: Out = Path("out"),
    model: Model = None,
    base_url: BaseUrl = None,
    max_turns: MaxTurns = 10,
    policy: Policy = "standard",
    image: Image = None,
    thread: Thread = None,
    checkpoints: Checkpoints = None,
    json: Json = False,
) -> None:
    """Solve a task."""
    with _errors_in_one_sentence():
        from .running import Order, new_thread, run_order

        order = Order(
            task=task,
            files=file or [],
            out=out,
            model=model,
            base_url=base_url,
            max_turns=max_turns,
            policy=policy,
            image=image,
            checkpoints=checkpoints,
            as_json=json,
            thread=new_thread() if thread is None else thread,
        )
        code = run_order(order)
    raise typer.Exit(code)


@app.command()
def chat(
    file: Files = None,
    out: Out = Path("out"),
    model: Model = None,
    base_url: BaseUrl = None,
    max_turns: MaxTurns = 10,
    policy: Policy = "standard",
    image: Image = None,
    thread: Thread = None,
    checkpoints: Checkpoints = None,
) -> None:
    """Solve one task after another; variables and files live on."""
    with _errors_in_one_sentence():
        from .chatting import ChatOrder
        from .chatting import chat as hold
        from .running import new_thread

        order = ChatOrder(
            files=file or [],
            out=out,
            model=model,
            base_url=base_url,
            max_turns=max_turns,
            policy=policy,
            image=image,
            checkpoints=checkpoints,
            thread=new_thread() if thread is None else thread,
        )
        code = hold(order)
    raise typer.Exit(code)


@threads_app.command("ls")
def threads_ls(checkpoints: Checkpoints = None, json: Json = False) -> None:
    """List threads: id, status, turns, last step, bytes, task."""
    with _errors_in_one_sentence():
        from .thread_commands import list_threads

        list_threads(checkpoints, json)


@threads_app.command("show")
def threads_show(
    thread: ThreadId,
    checkpoints: Checkpoints = None,
    json: Json = False,
    code: Annotated[bool, typer.Option("--code", help="With the cells.")] = False,
) -> None:
    """Show what happened in a thread, turn by turn."""
    with _errors_in_one_sentence():
        from .thread_commands import show_thread

        show_thread(thread, checkpoints, as_json=json, code=code)


@threads_app.command("resume")
def threads_resume(
    thread: ThreadId,
    out: Out = Path("out"),
    model: Model = None,
    base_url: BaseUrl = None,
    max_turns: MaxTurns = 10,
    policy: Policy = "standard",
    image: Image = None,
    approve: Annotated[
        bool | None, typer.Option("--approve/--reject", help="Answer to the cell that the run waits with.")
    ] = None,
    checkpoints: Checkpoints = None,
    json: Json = False,
) -> None:
    """Go on with a run that has not ended."""
    with _errors_in_one_sentence():
        from .thread_commands import Continuation, resume_thread

        order = Continuation(
            thread=thread,
            out=out,
            model=model,
            base_url=base_url,
            max_turns=max_turns,
            policy=policy,
            image=image,
            checkpoints=checkpoints,
            answer=approve,
            as_json=json,
        )
        code = resume_thread(order)
    raise typer.Exit(code)


@threads_app.command("fork")
def threads_fork(
    thread: ThreadId,
    at: Annotated[int | None, typer.Option("--at", help="Turn to begin after; without it, where it stands.")] = None,
    name: Annotated[str | None, typer.Option("--name", help="Id of the new thread.")] = None,
    checkpoints: Checkpoints = None,
) -> None:
    """Begin a thread where another one stood, and print its id."""
    with _errors_in_one_sentence():
        from .thread_commands import fork_thread

        fork_thread(thread, checkpoints, at, name)


@threads_app.command("rm")
def threads_rm(
    thread: Annotated[list[str], typer.Argument(metavar="ID…", help="Ids, or how they begin.")],
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    checkpoints: Checkpoints = None,
) -> None:
    """Delete threads."""
    with _errors_in_one_sentence():
        from .thread_commands import remove_threads

        remove_threads(thread, checkpoints, sure=yes)


@app.command()
def demo(
    out: Out = Path("out"), model: Model = None, base_url: BaseUrl = None, image: Image = None, json: Json = False
) -> None:
    """Solve a bundled data question; without a model key it replays recorded replies. The code really runs."""
    with _errors_in_one_sentence():
        from .running import demo_order, run_order

        code = run_order(demo_order(out, model, base_url, image, json))
    raise typer.Exit(code)


@app.command()
def doctor() -> None:
    """Check Python, engine, image and model, and say how to mend each."""
    from .doctor import diagnose

    checks = diagnose()
    for check in checks:
        mark, colour = ("ok  ", "green") if check.ok else ("FAIL", "red")
        typer.echo(f"{typer.style(mark, fg=colour)} {check.name}: {check.detail}")
        if not check.ok:
            typer.echo(f"     {check.remedy}")
    raise typer.Exit(0 if all(check.ok for check in checks) else 2)


@app.command()
def gc(
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be removed.")] = False,
    all: Annotated[bool, typer.Option("--all", help="Also boxes of ended processes in which a cell runs.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Tell of every box, as JSON.")] = False,
) -> None:
    """Remove the sandboxes of processes that have ended. Threads go on from their snapshots."""
    with _errors_in_one_sentence():
        from .cleaning import clean

        for line in clean(dry_run, running_too=all, as_json=json):
            typer.echo(line)


@image_app.command("build")
def image_build(
    source: Annotated[
        str, typer.Option("--from", help="registry: on python:3.12-slim; debian: on Debian packages alone.")
    ] = "registry",
    packages: Annotated[
        list[str] | None, typer.Option("--packages", "-p", help="A further package; may be repeated.")
    ] = None,
    more: Annotated[list[str] | None, typer.Argument(help="Further packages, after --packages.")] = None,
    tag: Annotated[str | None, typer.Option("--tag", help="Name of the image.")] = None,
) -> None:
    """Build the sandbox image."""
    from .errors import ConfigError
    from .sandbox.image import build_image

    with _errors_in_one_sentence():
        if source not in ("registry", "debian"):
            raise ConfigError(f"There is no base {source!r}; choose registry or debian.")
        built = build_image(
            base="debian" if source == "debian" else "registry",
            packages=[*(packages or []), *(more or [])],
            tag=tag,
            on_line=lambda line: typer.secho(line, dim=True, err=True),
        )
    typer.echo(built)


@app.command()
def version() -> None:
    """Print the version."""
    from importlib.metadata import version as installed

    typer.echo(installed("actloop"))


def main() -> None:
    """Entry point of the `actloop` command."""
    # A library's deprecation notice says nothing to a person at a terminal.
    if not sys.warnoptions:
        warnings.simplefilter("ignore")
    # What a terminal or a file cannot show is written as its escape, not as a traceback.
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    app()
