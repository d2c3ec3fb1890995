import subprocess
import sys
import types
from typing import TYPE_CHECKING, Any

import pytest
from langchain_core.language_models import BaseChatModel
from langchain_openai import ChatOpenAI

from actloop.config import Settings
from actloop.errors import ConfigError, ModelAccessDenied, ModelUnavailable
from actloop.nodes.model import DEFAULT_MODEL, connect
from actloop.nodes.model_errors import code_of
from actloop.testing import ScriptedModel

if TYPE_CHECKING:
    from tests.fake_server import FakeServer

KEY = "sk-test-0123456789abcdef"
SERVER = "http://127.0.0.1:11434/v1"


def settings(**values: Any) -> Settings:
    return Settings.model_validate(values)


def as_openai(model: BaseChatModel) -> ChatOpenAI:
    assert isinstance(model, ChatOpenAI)
    return model


def key_of(model: BaseChatModel) -> str:
    client = as_openai(model).root_client
    return str(client.api_key)


def test_a_chat_model_passes_through_unchanged() -> None:
    model = ScriptedModel(["hi"])
    assert connect(model) is model


def test_a_wrapped_model_is_a_config_error() -> None:
    with pytest.raises(ConfigError, match="no chat model"):
        connect(ScriptedModel(["hi"]).with_retry())  # type: ignore[arg-type]


def test_something_else_is_a_config_error() -> None:
    with pytest.raises(ConfigError, match="is a int"):
        connect(5)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["openai:gpt-4o", "gpt-4o"])
def test_an_openai_name_makes_a_model_of_openai(name: str) -> None:
    model = as_openai(connect(name, settings=settings(openai_api_key=KEY)))
    assert model.model_name == "gpt-4o"
    assert key_of(model) == KEY
    assert str(model.root_client.base_url) == "https://api.openai.com/v1/"
    assert model.temperature == 0.0
    assert model.stream_usage is True


def test_a_fine_tuned_name_keeps_its_colons() -> None:
    assert as_openai(connect("ft:gpt-4o:acme::1", api_key=KEY)).model_name == "ft:gpt-4o:acme::1"


@pytest.mark.parametrize("name", ["qwen2.5-coder:7b", "gpt-oss:20b", "anthropic/claude", "my-model"])
def test_any_name_with_a_server_is_a_model_of_that_server(name: str) -> None:
    model = as_openai(connect(name, base_url=SERVER))
    assert model.model_name == name
    assert model.use_responses_api is False
    assert model.stream_usage is True
    assert model.temperature == 0.0


def test_the_settings_may_name_the_server() -> None:
    model = connect(None, settings=settings(model="m", base_url=SERVER, api_key="server-key"))
    assert str(as_openai(model).root_client.base_url) == SERVER + "/"
    assert key_of(model) == "server-key"


def test_a_server_never_gets_the_key_of_openai() -> None:
    assert key_of(connect("m", base_url=SERVER, settings=settings(openai_api_key=KEY))) != KEY


def test_a_gateway_to_openai_gets_the_key_of_openai() -> None:
    model = connect("openai:gpt-4o", base_url=SERVER, settings=settings(openai_api_key=KEY))
    assert key_of(model) == KEY
    assert as_openai(model).use_responses_api is None


def test_the_key_shows_in_no_repr() -> None:
    assert KEY not in repr(connect("gpt-4o", api_key=KEY))


@pytest.mark.parametrize("name", ["gpt-5", "gpt-5-mini", "o3", "o4-mini", "o1", "openai:o3-mini"])
def test_a_reasoning_model_gets_no_temperature(name: str) -> None:
    model = as_openai(connect(name, api_key=KEY, temperature=0.3))
    assert model.temperature in (None, 1)  # LangChain sets 1, the only value, for o1


@pytest.mark.parametrize("name", ["gpt-4o", "gpt-5-chat-latest", "gpt-4.1"])
def test_other_models_get_the_temperature(name: str) -> None:
    assert as_openai(connect(name, api_key=KEY, temperature=0.3)).temperature == 0.3


def test_no_key_is_an_error_with_the_next_step() -> None:
    with pytest.raises(ModelAccessDenied, match=r"OPENAI_API_KEY.*--base-url.*actloop demo") as caught:
        connect("gpt-4o")
    assert code_of(caught.value) == "no_key"
    with pytest.raises(ModelAccessDenied, match="any model"):
        connect(None)


def test_a_key_alone_gives_the_default_model() -> None:
    assert as_openai(connect(None, settings=settings(openai_api_key=KEY))).model_name == DEFAULT_MODEL


def test_a_server_alone_gives_its_first_model(server: "FakeServer") -> None:
    server.models = ["first", "second"]
    assert as_openai(connect(None, base_url=server.url)).model_name == "first"


def test_a_server_without_models_is_a_config_error(server: "FakeServer") -> None:
    server.models = []
    with pytest.raises(ConfigError, match=r"serves no model.*--model"):
        connect(None, base_url=server.url)


def test_a_server_that_is_not_there_is_named() -> None:
    with pytest.raises(ModelUnavailable, match=r"http://127\.0\.0\.1:9/v1 .*--base-url"):
        connect(None, base_url="http://127.0.0.1:9/v1")


@pytest.mark.parametrize(
    "address",
    ["localhost:11434", "127.0.0.1/v1", "ftp://x/v1", "http://", "http://a b/v1", "http://h:99999/", "x"],
)
def test_an_address_that_is_none_is_a_config_error(address: str) -> None:
    with pytest.raises(ConfigError, match="http://127"):
        connect("m", base_url=address)


def test_a_password_in_a_bad_address_is_not_shown() -> None:
    with pytest.raises(ConfigError) as caught:
        connect("m", base_url="ftp://me:hunter2@host/v1")
    assert "hunter2" not in str(caught.value)


def test_the_path_of_the_request_is_taken_off_the_address() -> None:
    model = as_openai(connect("m", base_url=SERVER + "/chat/completions/"))
    assert str(model.root_client.base_url) == SERVER + "/"


def test_a_bare_name_that_nobody_knows_is_a_config_error() -> None:
    with pytest.raises(ConfigError, match="--base-url"):
        connect("llama3", api_key=KEY)


def test_another_provider_needs_langchain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "langchain", None)
    monkeypatch.setitem(sys.modules, "langchain.chat_models", None)
    with pytest.raises(ConfigError, match="pass a chat model object"):
        connect("anthropic:claude-x")


def fake_langchain(monkeypatch: pytest.MonkeyPatch, factory: Any) -> None:
    module = types.ModuleType("langchain.chat_models")
    module.init_chat_model = factory  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "langchain", types.ModuleType("langchain"))
    monkeypatch.setitem(sys.modules, "langchain.chat_models", module)


def test_another_provider_is_made_by_langchain(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []

    def factory(name: str, **options: Any) -> BaseChatModel:
        asked.append((name, options))
        return ScriptedModel(["hi"])

    fake_langchain(monkeypatch, factory)
    assert isinstance(connect("anthropic:claude-x"), ScriptedModel)
    assert asked == [("anthropic:claude-x", {"temperature": 0.0})]


def test_a_provider_that_langchain_does_not_know_is_a_config_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def factory(name: str, **_: Any) -> BaseChatModel:
        raise ValueError(f"no provider for {name}")

    fake_langchain(monkeypatch, factory)
    with pytest.raises(ConfigError, match=r"no provider for llama3:8b.*--base-url"):
        connect("llama3:8b")


def test_the_import_of_the_module_loads_no_sdk() -> None:
    code = (
        "import sys, actloop.nodes.model, actloop.nodes.asking\nprint({'openai', 'langchain_openai'} & {*sys.modules})"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
