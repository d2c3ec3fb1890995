"""The end of a run with an answer: by the caller's schema, with the files that it names, past the caller's check.

Each kind of fault is sent back to the model once; if the next answer has it again, the run ends and says so.
"""

import inspect
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from langchain_core.messages import AnyMessage
from langgraph.errors import GraphBubbleUp
from langgraph.types import Command

from actloop.errors import ConfigError
from actloop.state import State, Status

from .answer_files import missing_files
from .answer_schema import NotAccepted
from .context import Context
from .plain import plain
from .run import OURS, Run, done_in, end

AnswerCheck: TypeAlias = Callable[..., "bool | str"]
"""Called with the answer, as text or as the value that its schema accepts, and a summary of the run (`task`, `turns`,
`last_ok`, `files`, `names`, `artifacts`, `observations`) where it takes a second argument. True takes the answer; False
sends it back, and so does a text, which says what is wrong with it."""

MAX_LISTED = 20


@dataclass(frozen=True)
class Judged:
    """An answer, and what is wrong with it."""

    answer: str | None
    type: str | None
    data: Any = None
    fault: Literal["", "schema", "files", "check", "broken"] = ""
    problem: str = ""
    """In words for the model."""
    summary: str = ""
    """In words for a person."""


def conclude(
    state: State,
    run: Run,
    context: Context,
    text: str,
    kind: str | None,
    back: Callable[[str], Command[Any]],
    doubt: str = "",
    **more: Any,
) -> Command[Any]:
    """End the run with an answer, or send the answer back.

    Args:
        state: with all that the run has made, and its messages.
        run: counters; they note what was sent back.
        context: of the agent.
        text: of the answer.
        kind: type name of the answer; None for a text.
        back: makes the step that tells the model what is wrong.
        doubt: why the answer is unverified even where nothing is wrong with it.
        more: further updates of the state.
    """
    judged = _judge(state, run, context, text, kind)
    # An answer that nothing backs was sent back before it came here; only its form is worth another request.
    worth_it = judged.fault == "schema" or (judged.fault in ("files", "check") and not doubt)
    if worth_it and judged.fault not in run["returned"]:
        run["returned"] = [*run["returned"], judged.fault]
        return back(judged.problem)
    status: Status = "unverified" if judged.fault or doubt else "success"
    if judged.fault == "schema":
        status = "stuck"
    return end(
        status,
        " ".join(words for words in (doubt, judged.summary) if words) or f"Solved with {done_in(run)}.",
        run,
        answer=judged.answer,
        answer_type=judged.type,
        answer_data=judged.data,
        **more,
    )


def _judge(state: State, run: Run, context: Context, text: str, kind: str | None) -> Judged:
    answer, name, data = text, kind or "str", None
    if context.schema is not None:
        try:
            data = plain(context.schema.read(text))
        except NotAccepted as error:
            return _not_accepted(context.schema.name, str(error), text)
        answer, name = json.dumps(data, ensure_ascii=False), context.schema.name
    known = {*(state.get("workspace") or ()), *(state.get("inputs") or {}), *_artifacts(state)}
    missing = missing_files(text, known)
    if missing:
        named = ", ".join(missing[:MAX_LISTED])
        there = ", ".join(sorted(known)[:MAX_LISTED]) or "none"
        problem = (
            f"The answer says that a file was made which is not there: {named}. Files that are there: {there}. Make it "
            "with a cell, in the current folder, or give the answer without this claim."
        )
        return Judged(answer, name, data, "files", problem, f"The answer names a file that is not there: {named}.")
    if context.answer_check is None:
        return Judged(answer, name, data)
    return _checked(context.answer_check, Judged(answer, name, data), _summary(state, run))


def _not_accepted(schema: str, why: str, text: str) -> Judged:
    short = " ".join(text.split())
    shown = short if len(short) <= 200 else short[:197] + "..."
    why = why.rstrip(".")
    return Judged(
        None,
        None,
        fault="schema",
        problem=f"The final answer is not accepted by its schema: {why}. Give it again, as one JSON value and nothing "
        "beside it.",
        summary=f"The model gave no answer that the schema {schema} accepts ({why}); its last one was: {shown}.",
    )


def _checked(check: AnswerCheck, judged: Judged, summary: Mapping[str, Any]) -> Judged:
    value = judged.answer if judged.data is None else judged.data
    name = getattr(check, "__name__", type(check).__name__)
    try:
        verdict: Any = check(value, summary) if _takes_two(check) else check(value)
    except GraphBubbleUp:
        # The check asks a person.
        raise
    except Exception as error:
        why = " ".join(f"{type(error).__name__}: {error}".split())[:300].rstrip(".")
        return _broken(judged, f"{name} raised {why}")
    if type(verdict).__name__ in ("bool", "bool_"):
        verdict = "" if verdict else "it does not pass the check that every answer has to pass"
    elif not isinstance(verdict, str):
        if inspect.iscoroutine(verdict):
            verdict.close()
        return _broken(judged, f"{name} returned a {type(verdict).__name__}, not True, False or a text")
    if not verdict.strip():
        return judged
    why = " ".join(verdict.split()).rstrip(".")
    problem = f"The answer was checked, and this is wrong with it: {why}. Correct it, with another cell if need be."
    shown = f"The answer did not pass its check: {why[:500]}."
    return Judged(judged.answer, judged.type, judged.data, "check", problem, shown)


def _broken(judged: Judged, why: str) -> Judged:
    summary = f"The answer could not be checked, because the answer_check {why}; correct that function."
    return Judged(judged.answer, judged.type, judged.data, "broken", "", summary)


def _takes_two(check: AnswerCheck) -> bool:
    try:
        inspect.signature(check).bind(None, None)
    except TypeError:
        return False
    except ValueError:
        # Some built-in functions do not say what they take.
        return True
    return True


def _summary(state: State, run: Run) -> dict[str, Any]:
    messages: list[AnyMessage] = state.get("messages") or []
    seen = [str(message.text) for message in messages if message.additional_kwargs.get(OURS) == "observation"]
    return {
        "task": state.get("goal") or "",
        "turns": run["turns"],
        "last_ok": run["last_ok"],
        "files": sorted(state.get("workspace") or ()),
        "names": sorted(state.get("names") or ()),
        "artifacts": _artifacts(state),
        "observations": seen[-run["turns"] :] if run["turns"] else [],
    }


def _artifacts(state: State) -> list[str]:
    return [artifact["name"] for artifact in state.get("artifacts") or ()]


def usable_check(check: Any) -> AnswerCheck | None:
    """The caller's check, if it can be called.

    Raises:
        ConfigError: it is no function, or one that would have to be awaited.
    """
    if check is not None and not callable(check):
        raise ConfigError(f"The answer_check is a {type(check).__name__}; give a function of the answer.")
    if inspect.iscoroutinefunction(check):
        raise ConfigError("The answer_check is a coroutine function; give a plain one, which may take its time.")
    made: AnswerCheck | None = check
    return made
