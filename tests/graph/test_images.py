from typing import TYPE_CHECKING

import pytest
from langchain_core.runnables import RunnableConfig

from actloop.nodes.images import takes_images
from actloop.testing import ScriptedModel

if TYPE_CHECKING:
    from tests.graph.conftest import Make

DRAW = "```python\nimport matplotlib.pyplot as plt\nplt.plot([1, 2])\nprint('drawn')\n```"


@pytest.mark.usefixtures("image")
def test_a_model_that_sees_is_shown_the_figure(make: "Make", thread: RunnableConfig) -> None:
    model = ScriptedModel([DRAW, "FINAL ANSWER: drawn"], profile={"image_inputs": True})
    agent = make(model, images=takes_images(model))
    out = agent.invoke({"task": "Draw it."}, thread)
    assert out["status"] == "success"
    shown = model.requests[-1][-1].content
    assert isinstance(shown, list)
    kinds = [block["type"] for block in shown if isinstance(block, dict)]
    assert kinds == ["text", "image_url"]
    assert "base64" not in str(agent.get_state(thread).values["messages"])


@pytest.mark.usefixtures("image")
def test_a_model_that_does_not_see_reads_the_figures_name(make: "Make", thread: RunnableConfig) -> None:
    model = ScriptedModel([DRAW, "FINAL ANSWER: drawn"])
    agent = make(model, images=takes_images(model))
    agent.invoke({"task": "Draw it."}, thread)
    shown = model.requests[-1][-1].content
    assert isinstance(shown, str)
    assert "figure-1.png" in shown
