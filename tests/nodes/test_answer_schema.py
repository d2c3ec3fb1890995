"""An answer by a schema: what is read as one, what is refused, and what the model is told."""

import dataclasses
import datetime
import json
from typing import Any, Literal

import pytest
from pydantic import BaseModel, Field, field_validator

from actloop.nodes.answer_schema import AnswerSchema, NotAccepted, answer_schema

SCHEMA = {
    "title": "Growth",
    "type": "object",
    "properties": {"region": {"type": "string"}, "percent": {"type": "number"}},
    "required": ["region", "percent"],
    "additionalProperties": False,
}
VALUE = {"region": "North", "percent": 12.5}
TEXT = json.dumps(VALUE)


class Growth(BaseModel):
    region: str
    percent: float = Field(ge=0)


class Odd(BaseModel):
    day: datetime.date
    kinds: set[int] = set()
    level: Literal["low", "high"] = "low"

    @field_validator("day")
    @classmethod
    def _not_too_old(cls, day: datetime.date) -> datetime.date:
        if day.year < 2000:
            raise ValueError("the year is before 2000")
        return day


@dataclasses.dataclass
class Pair:
    left: int
    right: int


def made(given: Any) -> AnswerSchema:
    schema = answer_schema(given)
    assert schema is not None
    return schema


@pytest.mark.parametrize("given", [SCHEMA, Growth])
@pytest.mark.parametrize(
    "text",
    [
        TEXT,
        f"  {TEXT}\n",
        f"```json\n{json.dumps(VALUE, indent=2)}\n```",
        f"Here it is:\n```\n{TEXT}\n```\nThat is all.",
        f"The answer is {TEXT}.",
        f"As of [1], {{roughly}}, it is {TEXT} {{}}",
    ],
)
def test_the_value_is_found_in_whatever_stands_around_it(given: Any, text: str) -> None:
    assert made(given).read(text) == VALUE


@pytest.mark.parametrize("given", [SCHEMA, Growth])
@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("North, 12.5 percent", "JSON"),
        ('{"region": "North"}', "percent"),
        ('{"region": "North", "percent": "much"}', "percent"),
        ('{"region": 5, "percent": 1}', "region"),
        ('{"region": "North", "percent": 1', "JSON"),
        ("[]", ""),
        ("", ""),
        ('{"region": "North", "percent": NaN}', ""),
    ],
)
def test_what_is_not_accepted_is_refused_with_the_place(given: Any, text: str, why: str) -> None:
    with pytest.raises(NotAccepted) as caught:
        made(given).read(text)
    assert why in str(caught.value)
    assert len(str(caught.value)) < 1500


def test_a_text_needs_no_quotes_where_the_schema_wants_a_text() -> None:
    assert made({"type": "string"}).read("Paris") == "Paris"
    assert made(str).read('"Paris"') == "Paris"
    assert made({"type": "string"}).read("42") == "42"
    assert made({"type": "integer"}).read("42") == 42


def test_types_are_given_back_as_plain_data_with_their_defaults() -> None:
    assert made(Odd).read('{"day": "2026-03-01", "kinds": [2]}') == {"day": "2026-03-01", "kinds": [2], "level": "low"}
    assert made(list[int]).read("[1, 2]") == [1, 2]
    assert made(Pair).read('{"left": 1, "right": 2}') == {"left": 1, "right": 2}


def test_the_reasons_of_the_callers_own_validators_reach_the_model() -> None:
    with pytest.raises(NotAccepted, match=r"day: .*before 2000"):
        made(Odd).read('{"day": "1999-03-01"}')


@pytest.mark.parametrize(
    ("given", "name"),
    [(SCHEMA, "Growth"), ({"type": "object"}, "answer"), (Growth, "Growth"), (list[int], "list[int]"), (Pair, "Pair")],
)
def test_a_schema_has_a_name(given: Any, name: str) -> None:
    assert made(given).name == name


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"type": "objekt"}, "objekt"),
        ({"$ref": "https://example.com/schema.json"}, "which is not in it"),
        ({"$ref": "#/$defs/nothing"}, "which is not in it"),
        ({"properties": {"a": {"$ref": "file:///etc/passwd"}}}, "which is not in it"),
        (Growth(region="North", percent=1), "it is a Growth"),
        ("object", "it is a str"),
        (object(), "it is a object"),
    ],
)
def test_what_is_no_schema_is_refused(given: Any, why: str) -> None:
    with pytest.raises(ValueError, match=r".") as caught:
        answer_schema(given)
    assert why in str(caught.value)


def test_references_within_the_schema_hold() -> None:
    node = {"type": "object", "properties": {"next": {"$ref": "#/$defs/node"}}, "additionalProperties": False}
    schema = made({"$defs": {"node": node}, "$ref": "#/$defs/node"})
    assert schema.read('{"next": {"next": {}}}') == {"next": {"next": {}}}
    with pytest.raises(NotAccepted, match=r"next\.next"):
        schema.read('{"next": {"next": 5}}')


def test_a_text_full_of_brackets_takes_no_time_and_is_refused() -> None:
    with pytest.raises(NotAccepted):
        made(SCHEMA).read("{[" * 20_000)


@pytest.mark.parametrize(
    ("code", "answer"), [(TEXT, True), ("print(1)", False), ('{"region": 1}', False), ("{1, 2}", False), ("42", False)]
)
def test_only_an_object_or_a_list_that_is_accepted_is_an_answer_in_place_of_a_cell(code: str, answer: bool) -> None:
    assert made(SCHEMA).is_answer(code) is answer


def test_no_schema_is_none() -> None:
    assert answer_schema(None) is None
