"""The prompt of a run: its language and version, and what it says of the sandbox."""

from typing import TYPE_CHECKING, Any

import pytest
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.runnables import RunnableConfig

from actloop.errors import ConfigError
from actloop.testing import ScriptedModel

if TYPE_CHECKING:
    from tests.graph.conftest import Make


def cell(code: str) -> str:
    return f"```python\n{code}\n```"


def test_every_request_names_what_is_there_and_nothing_of_it_is_stored(make: "Make", thread: RunnableConfig) -> None:
    code = "rows = [1, 2, 3]\nopen('out.txt', 'w').write('x');"
    model = ScriptedModel([cell(code), cell("print(8)"), "FINAL ANSWER: 8", cell("print(9)"), "FINAL ANSWER: 9"])
    agent = make(model)
    agent.invoke({"task": "Compute it."}, thread)
    out = agent.invoke({"task": "Compute more."}, thread)
    assert "<workspace>\n" not in model.requests[0][-1].text
    for request in model.requests[1:]:
        listed = request[-1].text.rpartition("<workspace>\n")[2]
        assert "rows (list, len 3)" in listed
        assert "Files: out.txt" in listed
    assert not any("<workspace>" in message.text for message in out["messages"])


def test_the_language_follows_the_task_of_each_run(make: "Make", thread: RunnableConfig) -> None:
    model = ScriptedModel(["你好。", "Hello."])
    agent = make(model)
    agent.invoke({"task": "打个招呼。"}, thread)
    assert agent.get_state(thread).values["run"]["prompt"].startswith("zh/full/fenced/")
    agent.invoke({"task": "Say hello."}, thread)
    assert agent.get_state(thread).values["run"]["prompt"].startswith("en/full/fenced/")
    assert "沙箱" in model.requests[0][0].text
    assert "沙箱" not in model.requests[1][0].text


def test_traces_tell_the_prompt(make: "Make", thread: RunnableConfig) -> None:
    class Seen(BaseCallbackHandler):
        def __init__(self) -> None:
            self.metadata: dict[str, Any] = {}

        def on_chat_model_start(self, *args: Any, metadata: dict[str, Any] | None = None, **kwargs: Any) -> None:
            self.metadata = metadata or {}

    seen = Seen()
    agent = make(["Hello."], language="zh", prompt="short")
    agent.invoke({"task": "Say hello."}, {**thread, "callbacks": [seen]})
    assert seen.metadata["actloop_prompt"] == agent.get_state(thread).values["run"]["prompt"]
    assert seen.metadata["actloop_prompt"].startswith("zh/short/fenced/")


@pytest.mark.parametrize("settings", [{"language": "fr"}, {"prompt": "long"}])
def test_an_unknown_language_or_form_is_refused(make: "Make", settings: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="choose one of"):
        make.own([], **settings)
