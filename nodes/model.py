"""From a name to a chat model: `connect`.

Nothing here runs at import, and `langchain_openai` is imported only where a model of it is built.
"""

import functools
import importlib
import re
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from langchain_core.language_models import BaseChatModel
from langchain_core.runnables import Runnable
from pydantic import SecretStr

from actloop.config import Settings
from actloop.errors import ConfigError, ModelAccessDenied, ModelUnavailable

from .model_errors import coded
from .parameters import known_refusals

if TYPE_CHECKING:
    from .openai_model import ForgivingChatOpenAI

DEFAULT_MODEL = "gpt-5"
"""The model where none is named and OPENAI_API_KEY is set."""

MAX_RETRIES = 4
"""Retries of one request by OpenAI's SDK: some 7 s in all, or as `Retry-After` asks, up to 120 s each."""

TIMEOUT_S = 300.0
"""Seconds that a server may be silent before a request counts as timed out."""

_OPENAI_NAME = re.compile(r"(?:gpt-|chatgpt-|o\d|codex-|ft:)", re.IGNORECASE)
_NO_KEY = "not-needed"


def connect(
    model: str | BaseChatModel | None,
    *,
    base_url: str | None = None,
    api_key: str | None = None,
    settings: Settings | None = None,
    temperature: float | None = 0.0,
    timeout_s: float = TIMEOUT_S,
    max_retries: int = MAX_RETRIES,
) -> BaseChatModel:
    """Make a chat model from a name; a chat model is returned as it is.

    `openai:<name>`, or a bare name that OpenAI uses, is a model of OpenAI. With a `base_url`, any name is one
    of that OpenAI-compatible server (Ollama, vLLM, llama.cpp, a gateway). `<provider>:<name>` without one
    goes through `init_chat_model` of the package `langchain`. No name at all: that of the settings, else the
    first model that the server at `base_url` lists, else `DEFAULT_MODEL` where there is a key for OpenAI.

    Args:
        model: a name, a chat model, or None.
        base_url: address of a server, with scheme; by default that of the settings.
        api_key: key for OpenAI or for the server; by default that of the settings. A server never gets
            OPENAI_API_KEY, unless the name begins with `openai:`.
        settings: by default read from the environment.
        temperature: left out for None, and for models that are known to refuse it.
        timeout_s: seconds of silence after which a request counts as timed out; for OpenAI and compatible.
        max_retries: retries of a request by the SDK; for OpenAI and compatible.

    Raises:
        ConfigError: the model or the address cannot be used.
        ModelAccessDenied: there is no key.
        ModelUnavailable: the server was to be asked for its models and gives no answer.
    """
    if isinstance(model, BaseChatModel):
        return model
    if model is not None and not isinstance(model, str):
        kind = "a Runnable, but no chat model" if isinstance(model, Runnable) else f"a {type(model).__name__}"
        raise ConfigError(f"The model is {kind}. Pass a BaseChatModel without wrappers, or a name like 'openai:gpt-5'.")
    settings = settings or Settings.model_validate({})
    base_url = checked_url(base_url or settings.base_url)
    own_key = api_key or settings.api_key
    options: dict[str, Any] = {"temperature": temperature, "timeout_s": timeout_s, "max_retries": max_retries}
    name = (model or settings.model or "").strip()
    if base_url:
        return _at_server(name, base_url, own_key, settings, options)
    key = api_key or settings.openai_api_key or settings.api_key
    if not name and key:
        name = DEFAULT_MODEL
    provider, colon, rest = name.partition(":")
    if provider == "openai" and rest:
        name = rest
    elif name and not _OPENAI_NAME.match(name):
        return _of_provider(name, bool(colon), temperature)
    if not key:
        asked = f"the model {name}" if name else "any model"
        raise coded(
            ModelAccessDenied(
                f"There is no key for {asked}. Set OPENAI_API_KEY, name a server with --base-url, "
                "or try `actloop demo`, which needs neither."
            ),
            "no_key",
        )
    return _openai(name, None, key, **options)


def checked_url(address: str | None) -> str | None:
    """The address of an OpenAI-compatible server in the form that the SDK takes.

    Raises:
        ConfigError: it is no http or https address.
    """
    if not address or not address.strip():
        return None
    address = address.strip().rstrip("/").removesuffix("/chat/completions")
    advice = "Write scheme, host and path, for example http://127.0.0.1:11434/v1."
    try:
        parts = urlsplit(address)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError as error:
        raise ConfigError(f"The base URL cannot be read: {error}. {advice}") from None
    if not usable or re.search(r"\s", address):
        shown = address.rpartition("@")[2]
        raise ConfigError(f"The base URL {shown!r} is no http or https address. {advice}")
    return address


def _at_server(name: str, base_url: str, key: str | None, settings: Settings, options: dict[str, Any]) -> BaseChatModel:
    if name.startswith("openai:"):
        # Named as OpenAI's: a gateway that wants OpenAI's key, and may speak its newer API.
        return _openai(name.removeprefix("openai:"), base_url, key or settings.openai_api_key or _NO_KEY, **options)
    key = key or _NO_KEY
    name = name or _first_model(base_url, key)
    return _openai(name, base_url, key, use_responses_api=False, **options)


def _openai(
    name: str,
    base_url: str | None,
    key: str,
    *,
    temperature: float | None,
    timeout_s: float,
    max_retries: int,
    use_responses_api: bool | None = None,
) -> "ForgivingChatOpenAI":
    from .openai_model import ForgivingChatOpenAI

    if "temperature" in known_refusals(name):
        temperature = None
    return ForgivingChatOpenAI(
        model=name,
        base_url=base_url,
        api_key=SecretStr(key),
        temperature=temperature,
        timeout=timeout_s,
        max_retries=max_retries,
        use_responses_api=use_responses_api,
        stream_usage=True,
        http_async_client=_async_client(),
    )


@functools.lru_cache(maxsize=1)
def _async_client() -> Any:
    """A client that keeps no connection open.

    An open connection dies with its event loop, and the next `asyncio.run` would fail on it. A new one for
    each request costs some milliseconds, beside the seconds of a reply.
    """
    import openai

    limits = type(openai.DEFAULT_CONNECTION_LIMITS)(max_connections=1000, max_keepalive_connections=0)
    return openai.DefaultAsyncHttpxClient(limits=limits)


def _of_provider(name: str, has_provider: bool, temperature: float | None) -> BaseChatModel:
    """A model of another provider, by the package `langchain` where it is installed."""
    if not has_provider:
        raise ConfigError(
            f"Nothing tells where the model {name!r} is. Write 'provider:{name}', or name its server with --base-url."
        )
    provider = name.partition(":")[0]
    advice = "pass a chat model object to create_agent, or name a compatible server with --base-url"
    try:
        factory = importlib.import_module("langchain.chat_models").init_chat_model
    except ImportError:
        raise ConfigError(
            f"Models of {provider!r} need langchain. Install it with langchain-{provider}, or {advice}."
        ) from None
    options = {} if temperature is None else {"temperature": temperature}
    try:
        made = factory(name, **options)
    except (ImportError, ValueError) as error:
        raise ConfigError(f"langchain makes no model of {name!r}: {error}. Correct the name, or {advice}.") from error
    if not isinstance(made, BaseChatModel):
        raise ConfigError(f"langchain made a {type(made).__name__} of {name!r}. Please {advice}.")
    return made


def _first_model(base_url: str, key: str) -> str:
    import openai

    try:
        with openai.OpenAI(base_url=base_url, api_key=key, timeout=10, max_retries=1) as client:
            names = [listed.id for listed in client.models.list().data or ()]
    except openai.AuthenticationError:
        raise coded(
            ModelAccessDenied(f"{base_url} does not accept the key. Set ACTLOOP_API_KEY to a key of this server."),
            "wrong_key",
        ) from None
    except (openai.OpenAIError, ValueError, AttributeError) as error:
        raise coded(
            ModelUnavailable(
                f"{base_url} does not list its models ({error}). Check that the server runs and that "
                "--base-url is right, or name a model with --model."
            ),
            "unreachable",
        ) from error
    if not names:
        raise ConfigError(f"{base_url} serves no model. Load one there, or name one with --model.")
    return str(names[0])
