import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.fake_server import FakeServer


def _load(path: Path) -> ModuleType:
    """A helper beside the tests; with `importlib` as import mode, none of them can be imported by name."""
    name = f"actloop_tests_{path.stem}"
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None
        assert spec.loader is not None
        sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[name])
    return sys.modules[name]


@pytest.fixture(scope="session")
def fake() -> ModuleType:
    """The module of the fake server, for the bodies that it makes."""
    return _load(Path(__file__).parent.parent / "fake_server.py")


@pytest.fixture
def server(fake: ModuleType) -> Iterator["FakeServer"]:
    """An OpenAI-compatible server on loopback, with no answers yet."""
    yield from fake.serve()


@pytest.fixture(autouse=True)
def _no_provider(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test here finds a key or an address in the environment."""
    for name in (
        *("OPENAI_API_KEY", "OPENAI_API_BASE", "OPENAI_BASE_URL", "ACTLOOP_MODEL"),
        *("ACTLOOP_BASE_URL", "ACTLOOP_API_KEY", "LANGSMITH_TRACING", "LANGCHAIN_TRACING_V2"),
    ):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(autouse=True)
def _nothing_learned(monkeypatch: pytest.MonkeyPatch) -> None:
    """What one test's server refuses must not be known of another's that gets the same port."""
    monkeypatch.setattr("actloop.nodes.parameters._learned", {})
