"""From a provider's error to one of ours.

An error is read in three steps, the most telling first: what its code or text says (a filter, a prompt that
is too long, an empty account), then its HTTP status, then the name of its class or of a base class.
"""

import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

from langchain_core.language_models import BaseChatModel
from pydantic import SecretStr

from actloop.errors import ModelError

from .model_failures import (
    BAD_REQUEST,
    BARE,
    BY_NAME,
    BY_STATUS,
    BY_WORDS,
    CLOSED_LOOP,
    FAILING,
    TOO_LONG,
    UNKNOWN,
    Failure,
)


def classify(error: BaseException) -> Failure:
    """What an error of a model call means; `UNKNOWN` where nothing about it is known."""
    status = status_of(error)
    names = [f"{cls.__module__.partition('.')[0]}.{cls.__name__}" for cls in type(error).__mro__]
    if "langchain_core.ContextOverflowError" in names:
        return TOO_LONG
    rows = [name for name in names if name in BY_NAME and (name == names[0] or name not in BARE)]
    named = BY_NAME[rows[0]] if rows else None
    if named is not None or status is not None:
        text = f"{getattr(error, 'code', '')} {getattr(error, 'type', '')} {error}"
        # A failing server may quote anything; only a refusal is searched for its reason.
        if status is None or status in (400, 402, 403, 413, 422, 429):
            for pattern, failure in BY_WORDS:
                if pattern.search(text):
                    return failure
    if status is not None:
        return FAILING if status >= 500 else BY_STATUS.get(status, BAD_REQUEST)
    if isinstance(error, RuntimeError) and "loop is closed" in str(error):
        return CLOSED_LOOP
    return named or UNKNOWN


def translate(error: BaseException, model: BaseChatModel) -> ModelError:
    """Make our error of a foreign one: with address, model and next step, and without any key."""
    failure = classify(error)
    name, address = name_of(model), address_of(model)
    details = {"name": name, "address": address, "said": _said(error, model), "why": _why(error)}
    ours = failure.error(f"{failure.happened.format(**details)}. {failure.step.format(**details)}.")
    return coded(ours, failure.code)


def coded(error: ModelError, code: str) -> ModelError:
    """Put a code on an error."""
    vars(error)["code"] = code
    return error


def code_of(error: BaseException) -> str:
    """A word for the cause: `content_filter`, `context_length_exceeded`, `wrong_key`, ...; else empty."""
    code = getattr(error, "code", None)
    return code if isinstance(code, str) else ""


def status_of(error: BaseException) -> int | None:
    """HTTP status that the error carries, itself or on its response."""
    for holder in (error, getattr(error, "response", None)):
        status = getattr(holder, "status_code", None)
        if isinstance(status, int) and not isinstance(status, bool):
            return status
    return None


def name_of(model: BaseChatModel) -> str:
    """The model's name with its provider; the name of its class where it has none."""
    for field in ("model_name", "model", "model_id", "deployment_name"):
        name = getattr(model, field, None)
        if isinstance(name, str) and name:
            return name
    return type(model).__name__


def address_of(model: BaseChatModel) -> str:
    """Where the model's requests go, without a password; the name of its class where it does not tell."""
    client = getattr(model, "root_client", None) or getattr(model, "root_async_client", None)
    for address in (getattr(client, "base_url", None), getattr(model, "base_url", None)):
        parts = urlsplit(str(address or ""))
        if parts.hostname:
            return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path.rstrip('/')}"
    return type(model).__name__


def _said(error: BaseException, model: BaseChatModel) -> str:
    """The provider's own words on one line, cut, and with keys masked."""
    words = getattr(error, "message", None)
    text = " ".join((words if isinstance(words, str) and words else str(error)).split())
    for secret in _secrets(model):
        text = text.replace(secret, "***")
    text = re.sub(r"(?i)\b(?:bearer\s+\S+|(?:sk|pk|key|gsk|xai|hf)[-_][\w*.-]{6,})", "***", text)
    text = text if len(text) <= 300 else text[:297] + "..."
    return text.rstrip(".") or type(error).__name__


def _secrets(model: BaseChatModel) -> Iterator[str]:
    for field in type(model).model_fields:
        value: Any = getattr(model, field, None)
        if isinstance(value, SecretStr) and len(value.get_secret_value()) > 3:
            yield value.get_secret_value()


def _why(error: BaseException) -> str:
    """The innermost cause: the SDKs say 'Connection error.' where the socket knows why."""
    innermost, seen = error, {id(error)}
    while (deeper := innermost.__cause__ or innermost.__context__) is not None and id(deeper) not in seen:
        innermost = deeper
        seen.add(id(innermost))
    return " ".join(str(innermost).split()).rstrip(".")[:200] or type(innermost).__name__
