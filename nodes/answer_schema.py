"""A final answer by the caller's schema: read from whatever the model wrote around it, and validated."""

import inspect
import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, get_args

from jsonschema.exceptions import SchemaError, ValidationError
from jsonschema.protocols import Validator
from jsonschema.validators import Draft202012Validator, validator_for
from pydantic import PydanticSchemaGenerationError, PydanticUserError, TypeAdapter
from pydantic import ValidationError as TypeValidationError
from referencing import Registry, Resource
from referencing.exceptions import Unresolvable
from referencing.jsonschema import DRAFT202012

MAX_TOLD = 3
"""Faults that the model is told of at once."""
MAX_STARTS = 50
"""Places in a text at which a JSON value is looked for."""

_FENCED = re.compile(r"^[ \t]*(`{3,}|~{3,})[^\n`]*\n(.*?)^[ \t]*\1[ \t]*$", re.MULTILINE | re.DOTALL)


class NotAccepted(ValueError):
    """A value that the schema does not accept, with the reason in words for the model."""


@dataclass(frozen=True)
class AnswerSchema:
    """What a final answer must be.

    Args:
        name: of the schema; becomes the type name of the answer.
        schema: as JSON Schema, for the model.
        check: takes JSON text and returns the plain JSON value that it stands for, or raises `NotAccepted`.
    """

    name: str
    schema: Mapping[str, Any]
    check: Callable[[str], Any]

    def read(self, text: str) -> Any:
        """The answer in a text: all of it, a block in it, or the first JSON value in it that the schema accepts.

        Raises:
            NotAccepted: there is none.
        """
        first: NotAccepted | None = None
        for candidate in _candidates(text):
            try:
                return self.check(candidate)
            except NotAccepted as error:
                first = first or error
        try:
            # A schema for a plain text needs no quotes around it.
            return self.check(json.dumps(text.strip()))
        except NotAccepted:
            raise first or NotAccepted("it holds no JSON value") from None

    def is_answer(self, code: str) -> bool:
        """Whether a cell is nothing but an object or a list that the schema accepts: an answer, badly wrapped."""
        if not code.strip().startswith(("{", "[")):
            return False
        try:
            self.check(_strict(code.strip()))
        except ValueError:
            return False
        return True

    def told(self) -> str:
        """What the model is told of it."""
        return (
            "\nThe final answer must be one JSON value that this JSON Schema accepts, with no other text beside it; a "
            f"cell may give it as final_answer(value), too:\n{json.dumps(self.schema, ensure_ascii=False)}\n"
        )


def answer_schema(given: Any) -> AnswerSchema | None:
    """Make a schema of what the caller gave.

    Args:
        given: a pydantic model, any other type that pydantic can validate, a JSON Schema as a dict, or None.

    Raises:
        ValueError: it is none of these, or refers to what is not in it.
    """
    if given is None:
        return None
    if isinstance(given, Mapping):
        return _of_json_schema(given)
    if isinstance(given, type) or get_args(given):
        return _of_type(given)
    raise ValueError(f"it is a {type(given).__name__}")


def _of_type(given: Any) -> AnswerSchema:
    try:
        adapter: TypeAdapter[Any] = TypeAdapter(given)
        schema = adapter.json_schema()
    except (PydanticSchemaGenerationError, PydanticUserError) as error:
        raise ValueError(str(error).splitlines()[0]) from error

    def check(text: str) -> Any:
        try:
            return json.loads(_strict(json.dumps(adapter.dump_python(adapter.validate_json(text), mode="json"))))
        except TypeValidationError as error:
            faults = [_told(fault["loc"], fault["msg"]) for fault in error.errors(include_url=False)]
            raise NotAccepted("; ".join(faults[:MAX_TOLD])) from None
        except ValueError as error:
            raise NotAccepted(str(error)) from None

    name = given.__name__ if inspect.isclass(given) and not get_args(given) else str(given)
    return AnswerSchema(name, schema, check)


def _of_json_schema(given: Mapping[str, Any]) -> AnswerSchema:
    schema = json.loads(json.dumps(given))
    kind: type[Validator] = validator_for(schema, default=Draft202012Validator)
    try:
        kind.check_schema(schema)
    except SchemaError as error:
        raise ValueError(_told(error.absolute_path, error.message)) from error
    resource = Resource.from_contents(schema, default_specification=DRAFT202012)
    resolver = Registry().with_resource("", resource).resolver()
    for reference in _references(schema):
        try:
            resolver.lookup(reference)
        except Unresolvable:
            # Nothing is ever fetched for a schema.
            raise ValueError(f"it refers to {reference!r}, which is not in it") from None
    # The empty registry keeps the library from fetching what a reference names.
    validator = kind(schema, registry=Registry())

    def check(text: str) -> Any:
        try:
            value = json.loads(_strict(text))
        except (ValueError, RecursionError) as error:
            raise NotAccepted(f"it is not JSON ({error})") from None
        faults = sorted(validator.iter_errors(value), key=_depth)
        if faults:
            raise NotAccepted("; ".join(_told(f.absolute_path, f.message) for f in faults[:MAX_TOLD]))
        return value

    return AnswerSchema(str(schema.get("title") or "answer"), schema, check)


def _depth(fault: ValidationError) -> int:
    return len(fault.absolute_path)


def _told(path: Any, message: str) -> str:
    place = ".".join(map(str, path))
    short = message if len(message) <= 300 else message[:297] + "..."
    return f"{place}: {short}" if place else short


def _references(schema: Any) -> Iterator[str]:
    if isinstance(schema, dict):
        for key, value in schema.items():
            if key in ("$ref", "$dynamicRef") and isinstance(value, str):
                yield value
            elif key not in ("const", "enum", "default", "examples"):
                yield from _references(value)
    elif isinstance(schema, list):
        for item in schema:
            yield from _references(item)


def _candidates(text: str) -> Iterator[str]:
    """Parts of an answer that may be its JSON, the likeliest first."""
    yield text.strip()
    for match in _FENCED.finditer(text):
        yield match[2].strip()
    decoder = json.JSONDecoder()
    at = 0
    for _ in range(MAX_STARTS):
        found = re.compile(r"[{\[]").search(text, at)
        if found is None:
            return
        try:
            _, at = decoder.raw_decode(text, found.start())
        except (ValueError, RecursionError):
            at = found.end()
        else:
            yield text[found.start() : at]


def _strict(text: str) -> str:
    """The text, if it is JSON as the standard has it; Python's reader takes `NaN` and `Infinity` as well."""
    json.loads(text, parse_constant=_refuse)
    return text


def _refuse(name: str) -> None:
    raise ValueError(f"{name} is no JSON value; use null")
