"""A history that is too long for a request."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage

from actloop.nodes.fitting import DEFAULT_TOKENS, WHOLE, ceiling_of, count_tokens, fit
from actloop.nodes.run import OURS, note
from actloop.nodes.situation import KEY
from actloop.nodes.turn import answered
from actloop.testing import ScriptedModel


def reply(code: str, call: str = "") -> AIMessage:
    if call:
        return AIMessage("I go on.", tool_calls=[{"name": "python", "args": {"code": code}, "id": call}])
    return AIMessage(f"I go on.\n```python\n{code}\n```")


def seen(number: int, output: str, call: str = "", error: str = "", made: tuple[str, ...] = ()) -> AnyMessage:
    outcome = "error" if error else "ok"
    record = {"turn": number, "outcome": outcome, "error": error, "made": dict.fromkeys(made, "int")}
    kwargs = {OURS: "observation", KEY: record}
    if call:
        return ToolMessage(output, tool_call_id=call, additional_kwargs=kwargs)
    return HumanMessage(output, additional_kwargs=kwargs)


def long_thread(turns: int, output: int = 4000, calls: bool = False) -> list[AnyMessage]:
    history: list[AnyMessage] = [HumanMessage("First task."), AIMessage("FINAL ANSWER: 1"), HumanMessage("The task.")]
    for number in range(1, turns + 1):
        call = f"c{number}" if calls else ""
        history.append(reply(f"v{number} = {number}", call))
        history.append(seen(number, f"begin {number} {'x' * output} end {number}", call, made=(f"v{number}",)))
    return history


def test_a_history_that_fits_is_sent_as_it_is() -> None:
    history = long_thread(3)
    assert fit(history, 100_000) == history


def test_old_output_is_cut_first_and_the_last_turns_are_whole() -> None:
    history = long_thread(6)
    shown = fit(history, 5_000)
    assert count_tokens(shown) <= 5_000
    assert len(shown) == len(history)
    assert shown[-2 * WHOLE :] == history[-2 * WHOLE :]
    cut = shown[4]
    assert "begin 1" in cut.text
    assert "end 1" in cut.text
    assert "left out" in cut.text
    assert [message.text for message in shown if isinstance(message, AIMessage)] == [
        message.text for message in history if isinstance(message, AIMessage)
    ]


def test_then_old_turns_are_told_in_a_line_and_code_of_live_names_is_kept() -> None:
    history = long_thread(30)
    history[7:9] = [reply("v3 = broken"), seen(3, "no", error="NameError: name 'broken' is not defined")]
    shown = fit(history, 4_500, ["v2", "v3"])
    assert count_tokens(shown) <= 4_500
    accounts = [message.text for message in shown if message.additional_kwargs.get(OURS) == "summary"]
    assert "The user: First task." in accounts[0]
    assert "You: 1" in accounts[0]
    assert "```python\nv2 = 2\n```" in accounts[1]
    assert "v3 = broken" not in accounts[1]
    assert "NameError: name 'broken' is not defined" in accounts[1]
    assert "v4 = 4" not in accounts[1]
    assert history[2] in shown
    assert shown[-2 * WHOLE :] == history[-2 * WHOLE :]


def test_the_account_itself_is_bounded_and_code_stays_longest() -> None:
    history = long_thread(600, output=10)
    shown = fit(history, 1_000, ["v1"])
    assert count_tokens(shown) <= 1_000
    text = "\n".join(message.text for message in shown)
    assert "v1 = 1" in text
    assert "steps are left out" in text
    assert "Cell 598" in text


@pytest.mark.parametrize("room", [100, 900, 2_000, 5_000, 9_000])
def test_every_call_has_its_answer_right_behind_it_and_every_answer_its_call(room: int) -> None:
    history = long_thread(12, calls=True)
    history += [reply("cancelled = 1", "open"), HumanMessage("Go on."), reply("v = 1", "c99"), seen(99, "1", "c99")]
    shown = fit(answered(history), room)
    _assert_valid(shown)
    assert any(message.text == "Go on." for message in shown)


KINDS = st.sampled_from(["task", "cell", "call", "open", "answer", "nudge"])


@settings(deadline=None, max_examples=60)
@given(st.lists(st.tuples(KINDS, st.integers(0, 3000)), max_size=25), st.integers(50, 6000))
def test_any_history_stays_valid_and_is_not_changed(steps: list[tuple[str, int]], room: int) -> None:
    history: list[AnyMessage] = [HumanMessage("Begin.")]
    for number, (kind, size) in enumerate(steps):
        text = f"{number} " + "y" * size
        steps_of: dict[str, list[AnyMessage]] = {
            "task": [HumanMessage(text)],
            "cell": [reply("a = 1"), seen(number, text, made=("a",))],
            "call": [reply("b = 1", f"c{number}"), seen(number, text, f"c{number}")],
            "open": [reply("c = 1", f"c{number}")],
            "answer": [AIMessage(text)],
            "nudge": [note(text, "nudge")],
        }
        history += steps_of[kind]
    before = [message.model_dump_json() for message in history]
    shown = fit(answered(history), room, ["a"])
    assert [message.model_dump_json() for message in history] == before
    _assert_valid(shown)
    tasks = [m for m in history if isinstance(m, HumanMessage) and OURS not in m.additional_kwargs]
    assert tasks[-1] in shown
    if count_tokens(answered(history)) <= room:
        assert shown == answered(history)


def test_characters_that_are_not_latin_count_as_tokens() -> None:
    assert count_tokens([HumanMessage("增长" * 100)]) >= 200
    assert count_tokens([HumanMessage("grow" * 100)]) < 120


def test_the_ceiling_follows_what_the_model_takes() -> None:
    assert ceiling_of(ScriptedModel([], profile=None)) == DEFAULT_TOKENS
    assert ceiling_of(ScriptedModel([], profile={"max_input_tokens": 100_000})) == 60_000
    assert ceiling_of(ScriptedModel([]), 5_000) == 5_000


def _assert_valid(shown: list[AnyMessage]) -> None:
    waiting: list[str] = []
    for message in shown:
        if isinstance(message, ToolMessage):
            assert message.tool_call_id in waiting
            waiting.remove(message.tool_call_id)
            continue
        assert not waiting
        if isinstance(message, AIMessage):
            waiting = [str(call["id"]) for call in message.tool_calls]
    assert not waiting
