"""Figures for models that can see: referred to in the state by their path, put into the prompt when it is built."""

import base64
from collections.abc import Sequence
from pathlib import Path

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AnyMessage, HumanMessage

from actloop.state import Artifact

KEY = "images"
"""Where an observation keeps the paths of its figures, in `additional_kwargs`."""
MAX_SHOWN = 4
"""Figures in one prompt: the newest ones."""
MAX_BYTES = 4 << 20
"""Size of a figure that is shown."""


def takes_images(model: BaseChatModel) -> bool:
    """Whether the model's profile says that it sees images; one without a profile is taken not to."""
    profile = getattr(model, "profile", None)
    return bool(profile and profile.get("image_inputs"))


def figures_of(artifacts: Sequence[Artifact], turn: int) -> list[str]:
    """Paths of the figures that a turn made."""
    return [
        artifact["path"]
        for artifact in artifacts
        if artifact["turn"] == turn
        and artifact["media_type"] in ("image/png", "image/jpeg")
        and artifact["size"] <= MAX_BYTES
    ][:MAX_SHOWN]


def figures_in(messages: Sequence[AnyMessage]) -> int:
    """How many figures a prompt of these messages shows at most."""
    return min(MAX_SHOWN, sum(len(message.additional_kwargs.get(KEY) or ()) for message in messages))


def with_images(messages: Sequence[AnyMessage]) -> list[AnyMessage]:
    """The history with its newest figures as image blocks; one that is gone from the disk stays a name in the text."""
    room = MAX_SHOWN
    result: list[AnyMessage] = []
    for message in reversed(messages):
        paths = message.additional_kwargs.get(KEY) if isinstance(message, HumanMessage) else None
        blocks = [_block(Path(path)) for path in (paths or [])[:room] if Path(path).is_file()]
        room -= len(blocks)
        if blocks:
            message = message.model_copy(update={"content": [{"type": "text", "text": message.text}, *blocks]})
        result.append(message)
    return result[::-1]


def _block(path: Path) -> dict[str, object]:
    kind = "jpeg" if path.suffix.lower() in (".jpg", ".jpeg") else "png"
    data = base64.b64encode(path.read_bytes()).decode("ascii")
    return {"type": "image_url", "image_url": {"url": f"data:image/{kind};base64,{data}"}}
