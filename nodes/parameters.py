"""Optional parameters of a request: which a model is known to refuse, and which it turned out to refuse.

Sampling parameters and stop texts are wishes; a model that refuses one gets the request without it. Reasoning
models are known to refuse some, so these never cost a request. A refusal by any other model costs one, and is
remembered for the model's name and address as long as the process lives.
"""

import re
from collections.abc import Mapping
from typing import Any

from langchain_core.language_models import BaseChatModel

from .model_errors import address_of, name_of, status_of

_REASONING = re.compile(r"(?:^|/)(?:o\d|gpt-[5-9](?![\w.-]*chat)|codex)[^/]*$", re.IGNORECASE)
_REASONING_REFUSE = frozenset(
    {
        "temperature",
        "top_p",
        "stop",
        "presence_penalty",
        "frequency_penalty",
        "logprobs",
        "top_logprobs",
        "logit_bias",
    }
)

_FIELDS = {
    "stop_sequences": "stop",
    "max_completion_tokens": "max_tokens",
    "max_output_tokens": "max_tokens",
    "stream_options": "stream_usage",
}
"""Fields of chat models that are sent under another name."""

_OPTIONAL = _REASONING_REFUSE | {
    *(
        "max_tokens",
        "seed",
        "n",
        "top_k",
        "reasoning_effort",
        "verbosity",
        "service_tier",
        "store",
        "stream_usage",
    )
}
_CODES = frozenset({"unsupported_parameter", "unsupported_value", "unknown_parameter"})
_WORDS = re.compile(
    r"unsupported|unrecognized|unknown|not support|not permitted|not allowed|unexpected|extra_forbidden",
    re.IGNORECASE,
)

_learned: dict[tuple[str, str], frozenset[str]] = {}


def known_refusals(name: str) -> frozenset[str]:
    """Parameters that the model of this name is known to refuse: none but for OpenAI's reasoning models."""
    return _REASONING_REFUSE if _REASONING.search(name) else frozenset()


class Parameters:
    """The optional parameters of one call: fields of the model, and options of the call."""

    def __init__(self, model: BaseChatModel, options: Mapping[str, Any]):
        """Collect them.

        Args:
            model: its fields stay as the caller set them until the provider refuses one.
            options: what the call adds, by the name of the parameter.
        """
        self._model = model
        self._options = dict(options)
        self._key = (name_of(model), address_of(model))
        self._known = known_refusals(self._key[0])

    def accepted(self) -> tuple[BaseChatModel, dict[str, Any]]:
        """The model and the options without what the provider refuses; the caller's model stays unchanged."""
        learned = _learned.get(self._key, frozenset())
        options = {name: value for name, value in self._options.items() if name not in learned | self._known}
        changes: dict[str, Any] = {name: None for name in self._fields() if name in learned}
        if "stream_usage" in changes:
            changes["stream_usage"] = False
        for holder in ("model_kwargs", "extra_body"):
            extra = getattr(self._model, holder, None)
            if isinstance(extra, dict) and learned & extra.keys():
                changes[holder] = {name: value for name, value in extra.items() if name not in learned}
        return (self._model.model_copy(update=changes) if changes else self._model), options

    def refused_by(self, error: Exception) -> bool:
        """Whether the error refuses a parameter that can be left out; from then on it is."""
        name = self._refused(error)
        if name is None:
            return False
        _learned[self._key] = _learned.get(self._key, frozenset()) | {name}
        return True

    def _refused(self, error: Exception) -> str | None:
        text = str(error)
        if status_of(error) not in (400, 422):
            return None
        if getattr(error, "code", None) not in _CODES and not _WORDS.search(text):
            return None
        sent = self._sent()
        param = getattr(error, "param", None)
        named = [param] if isinstance(param, str) and param else re.findall(r"[a-z]+(?:_[a-z]+)*", text)
        wanted = (_FIELDS.get(name, name) for name in (re.split(r"[.\[]", name)[0] for name in named))
        return next((name for name in wanted if name in sent), None)

    def _sent(self) -> set[str]:
        """Parameters in the next request; what is not sent cannot be refused again."""
        model, options = self.accepted()
        values = {name: getattr(model, name) for name in self._fields()}
        if not values.get("stream_usage"):
            values["stream_usage"] = None
        sent = {*options, *(name for name, value in values.items() if value is not None)}
        for holder in ("model_kwargs", "extra_body"):
            sent |= (getattr(model, holder, None) or {}).keys()
        return sent

    def _fields(self) -> list[str]:
        fields = type(self._model).model_fields
        return [name for name in _OPTIONAL if name in fields]
