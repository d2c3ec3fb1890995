import langchain_core.exceptions
import openai
import pytest

from actloop.nodes.model_errors import classify
from actloop.nodes.model_failures import BAD_REQUEST, BY_NAME, FAILING, RATE_LIMITED, TOO_LONG, UNKNOWN


def exceptions_of(module: object, package: str) -> list[type[Exception]]:
    found = [item for item in list(vars(module).values()) if isinstance(item, type) and issubclass(item, Exception)]
    return [item for item in found if item.__module__.partition(".")[0] == package and item.__name__[0] != "_"]


def family(cls: type[Exception]) -> set[type[Exception]]:
    return {cls}.union(*(family(child) for child in cls.__subclasses__() if child.__name__[0] != "_"))


HOMES = ("openai", "openai._exceptions")
"""Modules of the client's own errors; those of other modules belong to features that no chat model uses."""

OPENAI = sorted(
    (cls for cls in {*exceptions_of(openai, "openai"), *family(openai.OpenAIError)} if cls.__module__ in HOMES),
    key=lambda cls: cls.__name__,
)


@pytest.mark.parametrize("cls", OPENAI, ids=lambda cls: str(cls.__name__))
def test_every_error_of_openai_has_a_row(cls: type[Exception]) -> None:
    assert f"openai.{cls.__name__}" in BY_NAME


def test_every_model_error_of_langchain_has_a_row() -> None:
    base = langchain_core.exceptions.ModelError
    classes = [cls for cls in exceptions_of(langchain_core.exceptions, "langchain_core") if issubclass(cls, base)]
    assert len(classes) > 5
    assert {f"langchain_core.{cls.__name__}" for cls in [*classes, base]} <= BY_NAME.keys()


def test_every_row_names_a_class_that_exists() -> None:
    import httpx
    import httpx2

    known = {"langchain_core": langchain_core.exceptions, "httpx": httpx, "httpx2": httpx2}
    for row in BY_NAME:
        package, _, name = row.partition(".")
        assert package not in known or hasattr(known[package], name), row
        assert package != "openai" or name in {cls.__name__ for cls in OPENAI}, row


def test_a_class_of_openai_without_a_row_is_unknown() -> None:
    class Later(openai.OpenAIError):
        pass

    assert classify(Later("odd")) is UNKNOWN


class Foreign(Exception):
    def __init__(self, status: int, message: str = "no"):
        super().__init__(message)
        self.status_code = status


@pytest.mark.parametrize(
    ("status", "failure"), [(429, RATE_LIMITED), (529, FAILING), (418, BAD_REQUEST), (413, TOO_LONG)]
)
def test_the_status_of_any_sdk_is_understood(status: int, failure: object) -> None:
    assert classify(Foreign(status)) is failure


def test_a_failing_server_that_quotes_a_filter_is_still_failing() -> None:
    assert classify(Foreign(500, "content_filter service is down")) is FAILING


def test_an_overflow_of_langchain_is_known_before_its_status() -> None:
    class Overflow(Foreign, langchain_core.exceptions.ContextOverflowError):
        pass

    assert classify(Overflow(400)) is TOO_LONG


def test_a_plain_error_is_unknown() -> None:
    assert classify(KeyError("content_filter")) is UNKNOWN
