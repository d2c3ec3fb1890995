"""An agent whose policy switches single rules of the safety check."""

from typing import TYPE_CHECKING

from langchain_core.messages import BaseMessage
from langchain_core.runnables import RunnableConfig

from actloop import Policy

if TYPE_CHECKING:
    from tests.graph.conftest import Make

SHELL = (
    "```python\nimport subprocess\nprint(subprocess.run(['echo', 'heard'], capture_output=True, text=True).stdout)\n```"
)


def test_a_rule_that_is_off_asks_nobody(make: "Make", thread: RunnableConfig) -> None:
    agent = make([SHELL, "FINAL ANSWER: heard"], policy=Policy("standard", {"process": "allow"}))
    out = agent.invoke({"task": "Say what the shell says."}, thread)
    assert "__interrupt__" not in out
    assert (out["status"], out["answer"], out["turns"]) == ("success", "heard", 1)


def test_a_rule_that_denies_tells_the_model_why_and_asks_nobody(make: "Make", thread: RunnableConfig) -> None:
    asked: list[str] = []

    def reply(messages: list[BaseMessage]) -> str:
        asked.append(str(messages[-1]))
        return SHELL if len(asked) == 1 else "```python\n1 + 2\n```" if len(asked) == 2 else "FINAL ANSWER: 3"

    agent = make(reply, policy=Policy("open", {"process": "deny"}))
    out = agent.invoke({"task": "Compute 1 + 2."}, thread)
    assert (out["status"], out["answer"], out["turns"]) == ("success", "3", 1)
    assert "starts or signals processes" in asked[1]
