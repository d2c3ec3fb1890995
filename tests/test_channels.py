"""How the state puts its values together again from their writes: alike in whatever groups a reader takes them."""

import random
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, RemoveMessage
from langgraph.graph.message import REMOVE_ALL_MESSAGES, add_messages

from actloop.state import Artifact, Change, change, change_artifacts, change_names, latest, merge_messages


def artifact(name: str, turn: int) -> Artifact:
    return Artifact(name=name, path=f"/{turn}/{name}", media_type="text/plain", size=1, sha256="", turn=turn)


NAMES: list[Any] = [
    Change(added=["b", "a"], removed=[]),
    Change(added=["c"], removed=["a"]),
    Change(added=["a"], removed=["a", "never there"]),
    Change(),
    ["z", "y"],
    Change(added=["x"]),
    [],
    Change(added=["a"]),
]
ARTIFACTS: list[Any] = [
    Change(added=[artifact("a", 1), artifact("b", 1)]),
    Change(added=[artifact("a", 2)]),
    [],
    Change(added=[artifact("c", 3)]),
    [artifact("d", 4)],
    Change(added=[artifact("c", 5)]),
]
MESSAGES: list[Any] = [
    [HumanMessage("one", id="1"), AIMessage("two", id="2")],
    HumanMessage("three", id="3"),
    [AIMessage("two again", id="2")],
    [RemoveMessage(id="1")],
    [HumanMessage("one again", id="1"), RemoveMessage(id="3")],
    [HumanMessage("four", id="4")],
    [RemoveMessage(id=REMOVE_ALL_MESSAGES), HumanMessage("five", id="5")],
    [AIMessage("six", id="6")],
    [AIMessage("six again", id="6"), HumanMessage("seven", id="7")],
]


@pytest.mark.parametrize(
    ("reduce", "empty", "writes", "final"),
    [
        (change_names, [], NAMES, ["a"]),
        (change_artifacts, [], ARTIFACTS, [artifact("d", 4), artifact("c", 5)]),
        (latest, {}, [{"a": 1}, {"b": 2}, {}], {}),
        (merge_messages, [], MESSAGES, None),
    ],
    ids=["names", "artifacts", "latest", "messages"],
)
def test_the_grouping_of_writes_makes_no_difference(
    reduce: Callable[[Any, Sequence[Any]], Any], empty: Any, writes: list[Any], final: Any
) -> None:
    one_by_one = [empty]
    for write in writes:
        one_by_one.append(reduce(one_by_one[-1], [write]))
    if final is not None:
        assert one_by_one[-1] == final
    chance = random.Random(7)
    for _ in range(50):
        cuts = sorted(chance.sample(range(len(writes) + 1), 2))
        value = empty
        for first, last in zip([0, *cuts], [*cuts, len(writes)], strict=True):
            value = reduce(value, writes[first:last])
            assert value == one_by_one[last]


def test_messages_end_as_the_last_writes_say() -> None:
    merged = merge_messages([], MESSAGES)
    assert [(message.id, message.text) for message in merged] == [("5", "five"), ("6", "six again"), ("7", "seven")]


def test_a_thousand_writes_go_through_the_list_once(monkeypatch: pytest.MonkeyPatch) -> None:
    lengths: list[int] = []

    def counting(left: Any, right: Any) -> Any:
        lengths.append(len(left))
        return add_messages(left, right)

    monkeypatch.setattr("actloop.state.add_messages", counting)
    merged = merge_messages([], [[HumanMessage(str(number), id=str(number))] for number in range(1000)])
    assert (len(merged), lengths) == (1000, [0])


def test_a_reducer_leaves_what_it_was_given_as_it_was() -> None:
    names, files, messages = ["a"], [artifact("a", 1)], [HumanMessage("one", id="1")]
    change_names(names, NAMES)
    change_artifacts(files, ARTIFACTS)
    merge_messages(list(messages), MESSAGES)
    assert (names, files) == (["a"], [artifact("a", 1)])


def test_a_change_leads_from_one_set_to_the_other() -> None:
    before, after = {"a", "b", "c"}, {"b", "d"}
    assert change(before, after) == {"added": ["d"], "removed": ["a", "c"]}
    assert change_names(sorted(before), [change(before, after)]) == ["b", "d"]
