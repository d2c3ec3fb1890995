"""Prices: a table with its date, what the caller knows better, and the names that models go by."""

import json
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from actloop.errors import ConfigError
from actloop.prices import Price, open_prices


def test_the_table_says_of_when_it_is_and_prices_the_default_model() -> None:
    table = json.loads(files("actloop").joinpath("prices.json").read_text("utf-8"))
    assert table["date"].startswith("20")
    assert "snapshot" in table["note"]
    assert open_prices().of("gpt-5") == Price(1.25, 0.125, 10.0)


@pytest.mark.parametrize(
    "name", ["gpt-5", "openai:gpt-5", "openai/gpt-5", "gpt-5-2025-08-07", "GPT-5", "gpt-5-latest", "gpt-5-preview"]
)
def test_a_model_is_known_by_all_its_names(name: str) -> None:
    assert open_prices().of(name) == open_prices().of("gpt-5")


@pytest.mark.parametrize("name", ["", "gpt-5-mega", "my-gpt-5", "gpt", "qwen2.5-coder:7b", "scripted"])
def test_a_model_that_is_not_in_the_table_has_no_price(name: str) -> None:
    assert open_prices().of(name) is None


def test_the_smaller_model_is_not_taken_for_the_larger() -> None:
    assert open_prices().of("claude-sonnet-4-5-20250929") == Price(3.0, 0.3, 15.0)
    mini, large = open_prices().of("gpt-5-mini"), open_prices().of("gpt-5")
    assert mini is not None
    assert large is not None
    assert mini.input < large.input


def test_cached_input_is_a_part_of_the_input() -> None:
    assert Price(10.0, 1.0, 100.0).cost(1_000_000, 400_000, 10_000) == pytest.approx(6.0 + 0.4 + 1.0)


@pytest.mark.parametrize("value", [[1, 0.1, 2], (1, 0.1, 2), {"input": 1, "cached_input": 0.1, "output": 2}])
def test_a_price_may_be_given_in_any_of_its_forms(value: Any) -> None:
    assert open_prices({"gpt-5": value}).of("openai:gpt-5") == Price(1.0, 0.1, 2.0)


@pytest.mark.parametrize("value", [[3, 2], {"input": 3, "output": 2}])
def test_cached_input_without_a_price_of_its_own_costs_what_input_costs(value: Any) -> None:
    assert open_prices({"m": value}).of("m") == Price(3.0, 3.0, 2.0)


@pytest.mark.parametrize("value", [1, "cheap", [], [1], [1, 2, 3, 4], [1, -1], [1, True], {"input": 1}, ["1", "2"]])
def test_what_is_no_price_is_refused_by_name(value: Any) -> None:
    with pytest.raises(ConfigError, match=r"'my-model'.*dollars per million"):
        open_prices({"my-model": value})


def test_the_caller_goes_before_the_file_and_the_file_before_the_table(tmp_path: Path) -> None:
    path = tmp_path / "prices.json"
    path.write_text(json.dumps({"models": {"gpt-5": [7, 7, 7], "gpt-4o": [8, 8, 8]}}))
    prices = open_prices({"gpt-4o": [9, 9]}, path)
    found = [prices.of(name) for name in ("gpt-5", "gpt-4o", "gpt-4.1")]
    assert [price and price.input for price in found] == [7.0, 9.0, 2.0]


@pytest.mark.parametrize("content", ["", "[1]", '{"models": 5}', '{"m": "free"}'])
def test_a_file_without_prices_is_refused_by_its_path(tmp_path: Path, content: str) -> None:
    path = tmp_path / "prices.json"
    path.write_text(content)
    with pytest.raises(ConfigError, match=r"prices\.json"):
        open_prices(path=path)


def test_a_file_that_is_not_there_is_refused_by_its_path(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"gone\.json cannot be read: No such file"):
        open_prices(path=tmp_path / "gone.json")
