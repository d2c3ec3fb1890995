"""The loop: what follows a cell, what a reply may do, and what lives on between turns and runs."""

import hashlib
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.runnables import RunnableConfig

from actloop import Limits
from actloop.errors import ConfigError, InputError
from actloop.nodes.asking import usage_of
from actloop.sandbox.session import BoxSession
from actloop.testing import ScriptedModel

if TYPE_CHECKING:
    from tests.graph.conftest import Boxes, Make

PNG = "import matplotlib.pyplot as plt\nplt.plot([1, 3, 2])"


def cell(code: str) -> str:
    return f"```python\n{code}\n```"


def call(code: Any, id: str = "c1", name: str = "run_python") -> dict[str, Any]:
    return {"name": name, "args": {"code": code}, "id": id, "type": "tool_call"}


def route(agent: Any, config: RunnableConfig, task: str = "Compute it.", **given: Any) -> list[str]:
    """The nodes of a run, in order."""
    steps = agent.stream({"task": task, **given}, config, stream_mode="updates")
    return [node for step in steps for node in step]


def observations(out: dict[str, Any]) -> list[str]:
    """What the model was told of its cells."""
    messages: list[BaseMessage] = out["messages"]
    return [message.text for message in messages if message.additional_kwargs.get("actloop") == "observation"]


def last_request(agent_model: ScriptedModel) -> str:
    return "\n".join(message.text for message in agent_model.requests[-1])


# -- routing ------------------------------------------------------------------------------------------------------


def test_exit_code_0_goes_to_reason_and_any_other_to_repair(make: "Make", thread: RunnableConfig) -> None:
    agent = make([cell("print(lenght)"), cell("import sys\nsys.exit(3)"), cell("print(7)"), "FINAL ANSWER: 7"])
    turn = ["codegen", "safety_check", "execute", "observe"]
    assert route(agent, thread) == ["reason", *turn, "repair", *turn, "repair", *turn, "reason", "codegen"]
    assert agent.get_state(thread).values["status"] == "success"


def test_a_cell_that_leaves_with_exit_code_0_is_no_failure(make: "Make", thread: RunnableConfig) -> None:
    agent = make([cell("import sys\nprint(7)\nsys.exit(0)"), "FINAL ANSWER: 7"])
    assert "repair" not in route(agent, thread)


def test_a_failing_cell_is_repaired_with_its_error_in_sight(make: "Make", thread: RunnableConfig) -> None:
    model = ScriptedModel([cell("total = 41\nprint(totl)"), cell("print(total + 1)"), "FINAL ANSWER: 42"])
    out = make(model).invoke({"task": "Compute it."}, thread)
    assert (out["status"], out["answer"], out["turns"]) == ("success", "42", 2)
    told = "\n".join(message.text for message in model.requests[1])
    assert "NameError" in told
    assert "totl" in told
    assert "line 2" in told
    assert "Attempts left: 3" in told


def test_repairs_end_at_their_limit_and_success_counts_anew(make: "Make", thread: RunnableConfig) -> None:
    replies = [cell("1 / 0"), cell("print('good')"), cell("missing"), cell("[][1]")]
    out = make(replies, max_repairs=1).invoke({"task": "Compute it."}, thread)
    assert (out["status"], out["turns"]) == ("stuck", 4)
    assert "IndexError" in out["summary"]


def test_without_repairs_the_first_failure_ends_the_run(make: "Make", thread: RunnableConfig) -> None:
    out = make([cell("1 / 0")], max_repairs=0).invoke({"task": "Compute it."}, thread)
    assert (out["status"], out["turns"]) == ("stuck", 1)


def test_the_answer_may_follow_the_last_cell_that_is_allowed(make: "Make", thread: RunnableConfig) -> None:
    out = make([cell("print(7)"), "FINAL ANSWER: 7"], max_turns=1).invoke({"task": "Compute it."}, thread)
    assert (out["status"], out["turns"]) == ("success", 1)


@pytest.mark.parametrize("settings", [{"max_turns": 0}, {"max_turns": -1}, {"max_repairs": -1}, {"sandbox": "none"}])
def test_settings_without_sense_are_refused_when_the_agent_is_made(make: "Make", settings: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        make.own([], **settings)


# -- replies ------------------------------------------------------------------------------------------------------


def test_an_answer_in_the_same_reply_as_a_cell_is_not_taken(make: "Make", thread: RunnableConfig) -> None:
    agent = make([cell("print(total_of_missing_name)") + "\nFINAL ANSWER: 42\n", cell("print(7)"), "FINAL ANSWER: 7"])
    out = agent.invoke({"task": "Compute the total."}, thread)
    assert (out["answer"], out["turns"]) == ("7", 2)
    assert "NameError" in observations(out)[0]


def test_done_without_a_run_is_never_success(make: "Make", thread: RunnableConfig) -> None:
    reply = "I executed the script and saved the plot to out.png. Everything works.\n"
    out = make([reply, reply]).invoke({"task": "plot the data to out.png"}, thread)
    assert (out["status"], out["turns"], out["artifacts"]) == ("unverified", 0, [])


def test_a_task_that_needs_no_run_is_answered_at_once(make: "Make", thread: RunnableConfig) -> None:
    out = make(["Hello to you."]).invoke({"task": "Say hello."}, thread)
    assert (out["status"], out["answer"], out["turns"]) == ("success", "Hello to you.", 0)


def test_nudges_cost_no_turn(make: "Make", thread: RunnableConfig) -> None:
    empty_block = cell("# nothing but words")
    model = ScriptedModel(["", empty_block, cell("print(7)"), "", "FINAL ANSWER: 7"])
    out = make(model, max_turns=1).invoke({"task": "Compute it."}, thread)
    assert (out["status"], out["turns"], out["usage"]["model_calls"]) == ("success", 1, 5)
    assert "empty" in model.requests[1][-1].text
    assert "comments only" in model.requests[2][-1].text


def test_replies_that_differ_in_comments_alone_are_the_same_and_end_the_run(
    make: "Make", thread: RunnableConfig
) -> None:
    model = ScriptedModel(lambda messages: f"Try {len(messages)}.\n" + cell(f"# try {len(messages)}\nprint( 'same' )"))
    out = make(model).invoke({"task": "Compute it."}, thread)
    assert (out["status"], out["turns"]) == ("stuck", 4)
    assert "4 times" in out["summary"]
    assert "third time" in model.requests[3][-1].text


def test_a_call_with_raw_code_for_arguments_does_not_end_the_run(make: "Make", thread: RunnableConfig) -> None:
    bad = {"id": "c1", "name": "run_python", "args": "import math\nprint(math.sqrt(16))", "error": "no JSON"}
    model = ScriptedModel([AIMessage("", invalid_tool_calls=[bad]), cell("print(4.0)"), "FINAL ANSWER: 4.0"])
    out = make(model).invoke({"task": "Compute it."}, thread)
    assert out["status"] == "success"
    assert model.requests[1][-1].text


def test_arguments_encoded_twice_run_or_are_answered(make: "Make", thread: RunnableConfig) -> None:
    bad = {"id": "c1", "name": "run_python", "args": '"{\\"code\\": \\"print(1)\\"}"', "error": "no object"}
    model = ScriptedModel([AIMessage("", invalid_tool_calls=[bad]), "FINAL ANSWER: 1", "FINAL ANSWER: 1"])
    out = make(model).invoke({"task": "Compute it."}, thread)
    answers = [message for message in model.requests[1] if isinstance(message, ToolMessage)]
    assert [answer.tool_call_id for answer in answers] == ["c1"]
    assert out["status"] in ("success", "unverified")


@pytest.mark.parametrize("args", [{}, {"code": 5}, {"code": None}, {"code": ""}, {"wrong": "print(1)"}])
def test_a_call_without_code_is_answered_with_what_is_missing(
    make: "Make", thread: RunnableConfig, args: dict[str, Any]
) -> None:
    asked = AIMessage("", tool_calls=[{"name": "run_python", "args": args, "id": "c9", "type": "tool_call"}])
    model = ScriptedModel([asked, cell("print(7)"), "FINAL ANSWER: 7"])
    out = make(model).invoke({"task": "Compute it."}, thread)
    told = model.requests[1][-1]
    assert isinstance(told, ToolMessage)
    assert told.tool_call_id == "c9"
    assert (out["status"], out["turns"]) == ("success", 1)


def test_a_call_cut_off_in_the_middle_ends_neither_silently_nor_as_success(
    make: "Make", thread: RunnableConfig
) -> None:
    bad = {"id": "c1", "name": "run_python", "args": "{oops", "error": "cut off"}
    out = make(lambda messages: AIMessage("", invalid_tool_calls=[bad])).invoke({"task": "Compute it."}, thread)
    assert (out["status"], out["usage"]["model_calls"]) == ("stuck", 3)


def test_several_calls_in_one_reply_run_as_one_cell_and_each_is_answered(make: "Make", thread: RunnableConfig) -> None:
    asked = AIMessage("", tool_calls=[call("print(1)", "a"), call("print(2)", "b")])
    model = ScriptedModel([asked, "FINAL ANSWER: done"])
    out = make(model).invoke({"task": "Compute it."}, thread)
    assert out["turns"] == 1
    place = model.requests[1].index(next(m for m in model.requests[1] if isinstance(m, AIMessage)))
    following = model.requests[1][place + 1 : place + 3]
    assert [message.tool_call_id for message in following if isinstance(message, ToolMessage)] == ["a", "b"]
    assert "1\n2" in following[0].text


def test_tokens_of_all_requests_are_added_up(make: "Make", thread: RunnableConfig) -> None:
    out = make([cell("print(7)"), "FINAL ANSWER: 7"]).invoke({"task": "Compute it."}, thread)
    spent = [usage_of(message) for message in out["messages"] if isinstance(message, AIMessage)]
    for name in ("input_tokens", "output_tokens", "model_calls"):
        assert out["usage"][name] == sum(usage[name] for usage in spent)


# -- final_answer in a cell ---------------------------------------------------------------------------------------


def test_a_cell_may_give_the_final_answer_itself(make: "Make", thread: RunnableConfig) -> None:
    out = make([cell("final_answer(6 * 7)")]).invoke({"task": "Compute it."}, thread)
    assert (out["status"], out["answer"], out["answer_type"], out["turns"]) == ("success", "42", "int", 1)


def test_a_wrong_argument_name_goes_back_to_the_model(make: "Make", thread: RunnableConfig) -> None:
    agent = make([cell("final_answer(reason='42')"), cell("final_answer('42')")])
    out = agent.invoke({"task": "Compute it."}, thread)
    assert "TypeError" in observations(out)[0]
    assert (out["status"], out["answer"], out["turns"]) == ("success", "42", 2)


def test_a_value_that_cannot_be_stored_is_answered_as_its_text(make: "Make", thread: RunnableConfig) -> None:
    code = "class R:\n    pass\nfinal_answer({'gen': (i for i in range(3)), 'obj': R(), 'f': open})"
    out = make([cell(code)]).invoke({"task": "Compute it."}, thread)
    assert (out["status"], out["answer_type"]) == ("success", "dict")
    assert "generator object" in out["answer"]


def test_an_answer_in_a_cell_that_fails_afterwards_is_not_taken(make: "Make", thread: RunnableConfig) -> None:
    agent = make([cell("final_answer(41)\nraise ValueError('not yet')"), cell("final_answer(42)")])
    out = agent.invoke({"task": "Compute it."}, thread)
    assert (out["answer"], out["turns"]) == ("42", 2)


# -- what lives on ------------------------------------------------------------------------------------------------


def test_variables_survive_between_turns_and_between_runs(make: "Make", thread: RunnableConfig) -> None:
    agent = make(
        [cell("base = 40"), cell("print(base + 1)"), "FINAL ANSWER: 41", cell("print(base + 2)"), "FINAL ANSWER: 42"]
    )
    assert agent.invoke({"task": "Compute 1."}, thread)["answer"] == "41"
    out = agent.invoke({"task": "Compute 2."}, thread)
    assert (out["answer"], out["turns"], out["usage"]["model_calls"]) == ("42", 1, 2)


def test_two_threads_see_nothing_of_each_other(make: "Make") -> None:
    agent = make.own(
        lambda messages: (
            cell("try:\n    print(secret)\nexcept NameError:\n    secret = 1\n    print('alone')")
            if len(messages) == 2
            else "FINAL ANSWER: ok"
        )
    )
    for name in ("one", "two"):
        out = agent.invoke({"task": "Compute it."}, {"configurable": {"thread_id": name}})
        assert "alone" in observations(out)[0]


def test_a_run_needs_no_thread(make: "Make") -> None:
    agent = make.own(["```python\nprint(6 * 7)\n```", "FINAL ANSWER: 42"])
    out = agent.invoke({"task": "What is 6 * 7?"})
    assert (out["status"], out["answer"]) == ("success", "42")


def test_a_run_without_a_thread_leaves_no_box(make: "Make", boxes: "Boxes", monkeypatch: pytest.MonkeyPatch) -> None:
    agent = make.own([cell("print(7)"), "FINAL ANSWER: 7"], checkpointer=False)
    opened: list[str] = []
    get = agent.sessions.get

    def noted(thread: str, kernel: str) -> BoxSession:
        opened.append(thread)
        return get(thread, kernel)

    monkeypatch.setattr(agent.sessions, "get", noted)
    assert agent.invoke({"task": "Compute it."})["status"] == "success"
    assert not agent.sessions.has(opened[0])
    until = time.monotonic() + 10
    while boxes.of({"configurable": {"thread_id": opened[0]}}) and time.monotonic() < until:
        time.sleep(0.05)
    assert boxes.of({"configurable": {"thread_id": opened[0]}}) == []


def test_files_come_out_as_artifacts_on_the_host(make: "Make", thread: RunnableConfig) -> None:
    code = "open('table.csv', 'w').write('a,b\\n1,2\\n')\nimport os\nos.makedirs('deep', exist_ok=True)\n"
    agent = make([cell(code + "open('deep/x.bin', 'wb').write(bytes(5))\n" + PNG), "FINAL ANSWER: done"])
    out = agent.invoke({"task": "Draw it."}, thread)
    made = {artifact["name"]: artifact for artifact in out["artifacts"]}
    assert set(made) == {"table.csv", "deep/x.bin", "turn-1-figure-1.png"}
    assert Path(made["table.csv"]["path"]).read_bytes() == b"a,b\n1,2\n"
    assert made["table.csv"]["media_type"] == "text/csv"
    figure = made["turn-1-figure-1.png"]
    data = Path(figure["path"]).read_bytes()
    assert data.startswith(b"\x89PNG")
    assert (figure["size"], figure["sha256"], figure["turn"]) == (len(data), hashlib.sha256(data).hexdigest(), 1)


def test_the_last_version_of_a_file_is_the_artifact(make: "Make", thread: RunnableConfig) -> None:
    agent = make([cell("open('v.txt', 'w').write('one')"), cell("open('v.txt', 'w').write('two')"), "FINAL ANSWER: ok"])
    out = agent.invoke({"task": "Write it."}, thread)
    (artifact,) = out["artifacts"]
    assert Path(artifact["path"]).read_text() == "two"
    assert artifact["turn"] == 2


@pytest.mark.parametrize("as_given", [str, Path])
def test_files_go_in_and_the_model_is_told_of_them(
    make: "Make", thread: RunnableConfig, tmp_path: Path, as_given: Callable[[Path], Any]
) -> None:
    path = tmp_path / "a.csv"
    path.write_text("x\n41\n")
    model = ScriptedModel([cell("print(int(open('data.csv').read().split()[1]) + 1)"), "FINAL ANSWER: 42"])
    out = make(model).invoke({"task": "Add 1.", "files": {"data.csv": as_given(path)}}, thread)
    assert out["answer"] == "42"
    assert any("data.csv" in message.text for message in model.requests[0])


def test_files_given_with_messages_are_told_of_as_well(make: "Make", thread: RunnableConfig, tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("x\n41\n")
    model = ScriptedModel([cell("print(open('data.csv').read())"), "FINAL ANSWER: 41"])
    out = make(model).invoke({"messages": [HumanMessage("Read it.")], "files": {"data.csv": str(path)}}, thread)
    assert out["answer"] == "41"
    assert any("data.csv" in message.text for message in model.requests[0])


def test_a_later_run_does_not_put_old_files_over_what_the_cells_made_of_them(
    make: "Make", thread: RunnableConfig, tmp_path: Path
) -> None:
    first, second = tmp_path / "first.txt", tmp_path / "second.txt"
    first.write_text("as given")
    second.write_text("also given")
    agent = make(
        [
            cell("open('first.txt', 'w').write('changed')"),
            "FINAL ANSWER: done",
            cell("print(open('first.txt').read())"),
            "FINAL ANSWER: done",
            cell("print(open('first.txt').read(), open('second.txt').read())"),
            "FINAL ANSWER: done",
        ]
    )
    agent.invoke({"task": "Change the file.", "files": {"first.txt": str(first)}}, thread)
    first.unlink()
    assert "changed" in observations(agent.invoke({"task": "Read the file."}, thread))[1]
    out = agent.invoke({"task": "Read both.", "files": {"second.txt": str(second)}}, thread)
    assert "changed also given" in observations(out)[2]


@pytest.mark.parametrize("kind", ["missing", "folder", "too large"])
def test_a_file_that_cannot_go_in_is_refused_before_anything_is_spent(
    make: "Make", thread: RunnableConfig, tmp_path: Path, kind: str
) -> None:
    path = tmp_path / "in.csv"
    if kind == "too large":
        path.write_bytes(bytes(2000))
    model = ScriptedModel([])
    with pytest.raises(InputError, match=r"in\.csv") as caught:
        make(model, limits=Limits(transfer=1024)).invoke(
            {"task": "Read it.", "files": {"in.csv": str(tmp_path if kind == "folder" else path)}}, thread
        )
    assert str(caught.value).count(". ") <= 1
    assert model.requests == []


def test_a_file_that_is_gone_when_the_box_is_new_ends_the_run_in_words(
    make: "Make", thread: RunnableConfig, tmp_path: Path
) -> None:
    path = tmp_path / "in.csv"
    path.write_text("x")

    def reply(messages: list[BaseMessage]) -> str:
        path.unlink(missing_ok=True)
        return cell("print(1)")

    out = make(reply).invoke({"task": "Read it.", "files": {"in.csv": str(path)}}, thread)
    assert out["status"] == "sandbox_error"
    assert "in.csv cannot be read any more" in out["summary"]


# -- input --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "given",
    [{"task": "  \n\t"}, {"task": 5}, {"messages": []}, {"messages": [("ai", "hm")]}, {"task": "x", "files": 5}],
)
def test_input_that_says_nothing_is_refused_in_a_sentence(make: "Make", thread: RunnableConfig, given: Any) -> None:
    agent = make(["Hello."])
    with pytest.raises(ConfigError, match=r"(task|files)"):
        agent.invoke(given, thread)


def test_a_thread_is_well_after_input_that_was_refused(make: "Make", thread: RunnableConfig) -> None:
    agent = make(["Hello."])
    with pytest.raises(ConfigError):
        agent.invoke({"task": "  "}, thread)
    assert agent.invoke({"messages": [HumanMessage("Say hello.")]}, thread)["status"] == "success"


def test_a_task_that_was_never_begun_is_not_mixed_into_the_next(make: "Make", thread: RunnableConfig) -> None:
    def reply(messages: list[BaseMessage]) -> str:
        if messages[-1].text == "First task.":
            raise KeyboardInterrupt
        return "Hello."

    model = ScriptedModel(reply)
    agent = make(model)
    with pytest.raises(KeyboardInterrupt):
        agent.invoke({"task": "First task."}, thread)
    agent.invoke({"messages": [HumanMessage("Say hello.")]}, thread)
    assert [message.text for message in model.requests[-1][1:]] == ["Say hello."]


def test_files_alone_do_not_revive_a_run_that_has_ended(make: "Make", thread: RunnableConfig, tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("x")
    agent = make(["Hello."])
    agent.invoke({"task": "Say hello."}, thread)
    with pytest.raises(ConfigError, match="no task"):
        agent.invoke({"files": {"a.csv": str(path)}}, thread)
