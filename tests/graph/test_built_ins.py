"""Small functions that every cell has: an answer or a question that was given stands, whatever the cell does then."""

from typing import TYPE_CHECKING

import pytest
from langchain_core.runnables import RunnableConfig

if TYPE_CHECKING:
    from tests.graph.conftest import Make


@pytest.mark.parametrize(
    "code",
    [
        "ask_user('Which year?')\nprint('not reached')",
        "try:\n    ask_user('Which year?')\nexcept Exception:\n    print('no')",
        "try:\n    ask_user('Which year?')\nexcept:\n    pass\nprint('swallowed')",
        "try:\n    ask_user('Which year?')\nexcept BaseException:\n    1 / 0",
        "async def f():\n    ask_user('Which year?')\nawait f()",
    ],
)
def test_a_question_ends_the_run(make: "Make", thread: RunnableConfig, code: str) -> None:
    out = make([f"```python\n{code}\n```"]).invoke({"task": "Sum it up."}, thread)
    assert (out["status"], out["answer"], out["turns"]) == ("needs_input", "Which year?", 1)
    assert "not reached" not in out["messages"][-1].text


@pytest.mark.parametrize(
    "code",
    [
        "try:\n    final_answer(1)\nexcept:\n    pass",
        "try:\n    final_answer(1)\n    1 / 0\nexcept BaseException:\n    print('caught')",
        "try:\n    final_answer(1)\nfinally:\n    print('on')",
    ],
)
def test_an_answer_counts_inside_a_try(make: "Make", thread: RunnableConfig, code: str) -> None:
    out = make([f"```python\n{code}\n```"]).invoke({"task": "Compute it."}, thread)
    assert (out["status"], out["answer"]) == ("success", "1")
