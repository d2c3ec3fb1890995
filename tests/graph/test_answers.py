"""Answers: by the caller's schema, past the caller's check, and with the files that they name."""

import json
from typing import TYPE_CHECKING, Any

import pytest
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.runnables import RunnableConfig
from pydantic import BaseModel

from actloop.errors import ConfigError
from actloop.nodes.answer_schema import answer_schema
from actloop.testing import ScriptedModel

if TYPE_CHECKING:
    from tests.graph.conftest import Make


class Total(BaseModel):
    total: int
    unit: str = "EUR"


GIVEN: dict[str, Any] = {"schema": answer_schema(Total)}
TASK: Any = {"task": "Compute the total."}
RIGHT = {"total": 42, "unit": "EUR"}


def cell(code: str) -> str:
    return f"```python\n{code}\n```"


WORK = cell("total = 42\nprint(total)")


# -- by a schema --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "reply",
    [
        'FINAL ANSWER: {"total": 42}',
        'FINAL ANSWER:\n```json\n{"total": 42}\n```',
        '```json\n{"total": 42}\n```',
        '```\n{"total": 42}\n```',
        '{"total": 42}',
        cell('{"total": 42}'),
        cell("final_answer({'total': total})"),
        cell("import json\nfinal_answer(json.dumps({'total': total}))"),
        cell("class T:\n    def model_dump(self, mode='python'): return {'total': total}\nfinal_answer(T())"),
        cell("import dataclasses\n@dataclasses.dataclass\nclass T:\n    total: int\nfinal_answer(T(total))"),
        cell("import numpy as np\nfinal_answer({'total': np.int64(total)})"),
    ],
)
def test_an_answer_by_the_schema_is_taken_in_any_wrapping(make: "Make", thread: RunnableConfig, reply: str) -> None:
    out = make([WORK, reply], **GIVEN).invoke(TASK, thread)
    assert (out["status"], out["answer_type"], out["answer_data"]) == ("success", "Total", RIGHT)
    assert json.loads(out["answer"]) == RIGHT


def test_the_model_is_told_of_the_schema(make: "Make", thread: RunnableConfig) -> None:
    model = ScriptedModel([WORK, 'FINAL ANSWER: {"total": 42}'])
    make(model, **GIVEN).invoke(TASK, thread)
    told = model.requests[0][0].text
    assert '"required": ["total"]' in told
    assert "JSON Schema" in told


@pytest.mark.parametrize(
    "wrong", ["FINAL ANSWER: 42 EUR", cell("final_answer({'sum': total})"), cell("final_answer(total)")]
)
def test_an_answer_that_is_not_accepted_is_sent_back_once_with_the_reason(
    make: "Make", thread: RunnableConfig, wrong: str
) -> None:
    model = ScriptedModel([WORK, wrong, 'FINAL ANSWER: {"total": 42}'])
    out = make(model, **GIVEN).invoke(TASK, thread)
    assert (out["status"], out["answer_data"]) == ("success", RIGHT)
    assert "not accepted by its schema" in model.requests[2][-1].text


def test_answers_that_are_never_accepted_end_as_stuck_with_the_reason(make: "Make", thread: RunnableConfig) -> None:
    out = make([WORK, "FINAL ANSWER: 42 EUR", 'FINAL ANSWER: {"total": "42 EUR"}'], **GIVEN).invoke(TASK, thread)
    assert (out["status"], out["answer"], out["answer_data"], out["turns"]) == ("stuck", None, None, 1)
    assert "schema Total" in out["summary"]
    assert "total: " in out["summary"]
    assert "42 EUR" in out["summary"]
    assert out["summary"].endswith(".")


def test_a_call_of_final_answer_that_is_not_accepted_is_answered_by_its_id(
    make: "Make", thread: RunnableConfig
) -> None:
    asked = AIMessage("", tool_calls=[{"name": "final_answer", "args": {"answer": {"sum": 42}}, "id": "a1"}])
    right = AIMessage("", tool_calls=[{"name": "final_answer", "args": {"answer": {"total": 42}}, "id": "a2"}])
    model = ScriptedModel([WORK, asked, right])
    out = make(model, **GIVEN).invoke(TASK, thread)
    told = model.requests[2][-1]
    assert isinstance(told, ToolMessage)
    assert (told.tool_call_id, out["status"], out["answer_data"]) == ("a1", "success", RIGHT)


def test_an_answer_by_the_schema_that_no_cell_backs_is_unverified_all_the_same(
    make: "Make", thread: RunnableConfig
) -> None:
    reply = 'FINAL ANSWER: {"total": 42}'
    out = make([reply, reply], **GIVEN).invoke(TASK, thread)
    assert (out["status"], out["answer_data"], out["turns"]) == ("unverified", RIGHT, 0)


def test_the_next_run_of_a_thread_has_no_answer_of_the_last_one(make: "Make", thread: RunnableConfig) -> None:
    agent = make([WORK, 'FINAL ANSWER: {"total": 42}', "QUESTION: which one?"], **GIVEN)
    agent.invoke(TASK, thread)
    out = agent.invoke({"task": "Compute the other total."}, thread)
    assert (out["status"], out["answer_data"]) == ("needs_input", None)


def test_without_a_schema_there_is_no_data(make: "Make", thread: RunnableConfig) -> None:
    out = make([cell("final_answer({'total': 42})")]).invoke(TASK, thread)
    assert (out["answer"], out["answer_type"], out["answer_data"]) == ('{"total": 42}', "dict", None)


@pytest.mark.parametrize("given", [{"type": "objekt"}, "json", 5, Total(total=1), {"$ref": "http://x.invalid/s"}])
def test_a_schema_that_is_none_is_refused_when_the_agent_is_made(make: "Make", given: Any) -> None:
    with pytest.raises(ConfigError, match="response_schema cannot be used"):
        make.own([], response_schema=given)


# -- past a check -------------------------------------------------------------------------------------------------


def test_an_answer_that_passes_its_check_is_a_success(make: "Make", thread: RunnableConfig) -> None:
    seen: list[Any] = []

    def check(answer: str, summary: dict[str, Any]) -> bool:
        seen.append((answer, summary))
        return True

    agent = make([cell("open('t.csv', 'w').write('42')\nprint(42)"), "FINAL ANSWER: 42"], answer_check=check)
    assert agent.invoke(TASK, thread)["status"] == "success"
    ((answer, summary),) = seen
    assert answer == "42"
    assert (summary["task"], summary["turns"], summary["last_ok"]) == ("Compute the total.", 1, True)
    assert "t.csv" in summary["files"]
    assert summary["artifacts"] == ["t.csv"]
    assert "42" in summary["observations"][0]


def test_a_check_gets_the_value_where_there_is_a_schema(make: "Make", thread: RunnableConfig) -> None:
    agent = make([WORK, 'FINAL ANSWER: {"total": 42}'], answer_check=lambda value: value == RIGHT, **GIVEN)
    assert agent.invoke(TASK, thread)["status"] == "success"


@pytest.mark.parametrize(("verdict", "words"), [("it is too small", "it is too small"), (False, "does not pass")])
@pytest.mark.parametrize("first", ["FINAL ANSWER: 42", cell("final_answer(42)")])
def test_what_the_check_says_is_told_once_and_a_better_answer_is_taken(
    make: "Make", thread: RunnableConfig, verdict: Any, words: str, first: str
) -> None:
    model = ScriptedModel([cell("print(42, 43)"), first, "FINAL ANSWER: 43"])
    out = make(model, answer_check=lambda answer: answer == "43" or verdict).invoke(TASK, thread)
    assert (out["status"], out["answer"]) == ("success", "43")
    assert words in model.requests[2][-1].text


def test_an_answer_that_fails_its_check_again_is_unverified_with_the_reason(
    make: "Make", thread: RunnableConfig
) -> None:
    out = make([WORK, *["FINAL ANSWER: 42"] * 2], answer_check=lambda answer: "it is too small").invoke(TASK, thread)
    assert (out["status"], out["answer"], out["usage"]["model_calls"]) == ("unverified", "42", 3)
    assert "it is too small" in out["summary"]


def _raises(answer: str) -> bool:
    raise KeyError("no such\ncolumn")


def _asserts(answer: str) -> bool:
    assert answer == "43"
    return True


def _says_nothing(answer: str) -> Any:
    return None


class _Waits:
    async def __call__(self, answer: str) -> bool:
        return True


@pytest.mark.parametrize(
    ("check", "words"),
    [
        (_raises, "_raises raised KeyError: 'no such"),
        (_asserts, "_asserts raised AssertionError"),
        (_says_nothing, "_says_nothing returned a NoneType"),
        (_Waits(), "_Waits returned a coroutine"),
        (lambda: True, "raised TypeError"),
    ],
)
def test_a_check_that_fails_itself_ends_the_run_in_words(
    make: "Make", thread: RunnableConfig, check: Any, words: str
) -> None:
    out = make([WORK, "FINAL ANSWER: 42"], answer_check=check).invoke(TASK, thread)
    assert (out["status"], out["answer"]) == ("unverified", "42")
    assert words in out["summary"]
    assert "correct that function" in out["summary"]
    assert "Traceback" not in out["summary"]
    assert "\n" not in out["summary"]


async def _coroutine(answer: str) -> bool:
    return True


@pytest.mark.parametrize("check", [5, "check", _coroutine])
def test_a_check_that_cannot_be_called_is_refused_when_the_agent_is_made(make: "Make", check: Any) -> None:
    with pytest.raises(ConfigError, match="answer_check"):
        make.own([], answer_check=check)


# -- files that it names ------------------------------------------------------------------------------------------


def test_a_file_that_is_named_and_not_there_is_asked_for_once(make: "Make", thread: RunnableConfig) -> None:
    made = cell("open('t.csv', 'w').write('42')")
    model = ScriptedModel([WORK, "FINAL ANSWER: 42, saved to t.csv.", made, "FINAL ANSWER: 42, saved to t.csv."])
    out = make(model).invoke({"task": "Compute the total and save it to t.csv."}, thread)
    assert (out["status"], out["turns"]) == ("success", 2)
    assert "which is not there: t.csv" in model.requests[2][-1].text
    assert [artifact["name"] for artifact in out["artifacts"]] == ["t.csv"]


def test_a_file_that_is_named_again_and_not_there_makes_the_answer_unverified(
    make: "Make", thread: RunnableConfig
) -> None:
    out = make([WORK, *["FINAL ANSWER: 42, saved to t.csv."] * 2]).invoke({"task": "Save the total to t.csv."}, thread)
    assert (out["status"], out["usage"]["model_calls"]) == ("unverified", 3)
    assert "t.csv" in out["summary"]


def test_a_file_of_the_users_own_and_one_of_an_earlier_run_are_there(
    make: "Make", thread: RunnableConfig, tmp_path: Any
) -> None:
    path = tmp_path / "in.csv"
    path.write_text("42")
    saved = cell("open('old.csv', 'w').write('42')\nprint(42)")
    agent = make([saved, "FINAL ANSWER: 42", cell("print(42)"), "FINAL ANSWER: 42, written to old.csv and in.csv."])
    agent.invoke({"task": "Compute it.", "files": {"in.csv": str(path)}}, thread)
    assert agent.invoke({"task": "Compute it again."}, thread)["status"] == "success"
