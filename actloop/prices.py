"""What models cost: a table as data, `prices.json`, and what the caller knows better.

The table is a snapshot of list prices with its date in it. A model that it lacks has no known price: its cost is None,
never zero.
"""

import json
import re
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from .errors import ConfigError


class Price(NamedTuple):
    """US dollars per million tokens."""

    input: float
    cached_input: float
    """Input that the provider reads from its cache."""
    output: float

    def cost(self, input_tokens: int, cached_tokens: int, output_tokens: int) -> float:
        """Dollars for a request.

        Args:
            input_tokens: all of them.
            cached_tokens: those of them that came from the provider's cache.
            output_tokens: all of them.
        """
        fresh = max(input_tokens - cached_tokens, 0)
        return (fresh * self.input + cached_tokens * self.cached_input + output_tokens * self.output) / 1e6


GivenPrices: TypeAlias = Mapping[str, Sequence[float] | Mapping[str, float]]
"""By a model's name: `(input, cached input, output)`, `(input, output)`, or a mapping with these names."""


class Prices:
    """Prices by the name of a model.

    Args:
        own: what the caller says; it goes before the table.
        table: prices of the well-known models.
    """

    def __init__(self, own: Mapping[str, Price], table: Mapping[str, Price]) -> None:
        self._own = own
        self._table = table

    def of(self, *names: str) -> Price | None:
        """The price of a model that goes by these names, the likeliest first; None where none is known."""
        known = [name for name in names if name]
        for table in (self._own, self._table):
            for name in known:
                for key in (name, _plain(name)):
                    if key in table:
                        return table[key]
        return None


def open_prices(given: GivenPrices | None = None, path: str | Path | None = None) -> Prices:
    """Prices from the table, a file and the caller, of which the last goes first.

    Args:
        given: by name.
        path: a JSON file of the same form, as an object by name, or as one with `models`.

    Raises:
        ConfigError: a price is none, or the file cannot be read.
    """
    table = _read(json.loads(files("actloop").joinpath("prices.json").read_text("utf-8"))["models"], "The price table")
    own: dict[str, Price] = {}
    if path:
        try:
            content = json.loads(Path(path).read_text("utf-8"))
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or error
            raise ConfigError(
                f"The prices in {path} cannot be read: {why}. Give a JSON object such as {_EXAMPLE}."
            ) from None
        models = content.get("models", content) if isinstance(content, dict) else content
        own |= _read(models, f"The file {path}")
    return Prices(own | _read(given or {}, "`prices`"), table)


_EXAMPLE = '{"my-model": [1.25, 0.125, 10.0]}'
_VERSION = re.compile(r"(?:[-@](?:\d{4}-\d{2}-\d{2}|\d{8}|\d{2}-\d{2,4}|latest|preview))+$")


def _plain(name: str) -> str:
    """The name without provider, date and `latest`: `openai:gpt-5-2025-08-07` is `gpt-5`."""
    return _VERSION.sub("", re.split(r"[:/]", name.strip().lower())[-1])


def _read(models: Any, where: str) -> dict[str, Price]:
    if not isinstance(models, Mapping):
        raise ConfigError(f"{where} holds no prices by name; give an object such as {_EXAMPLE}.")
    return {str(name): _price(str(name), value, where) for name, value in models.items()}


def _price(name: str, value: Any, where: str) -> Price:
    """Read one price in any of its forms; without one of its own, cached input costs what input costs."""
    if isinstance(value, Mapping) and {"input", "output"} <= set(value) <= {"input", "cached_input", "output"}:
        numbers = [value["input"], value.get("cached_input", value["input"]), value["output"]]
    elif isinstance(value, Sequence) and not isinstance(value, str) and len(value) in (2, 3):
        numbers = [value[0], *([value[0]] if len(value) == 2 else []), *value[1:]]
    else:
        numbers = []
    if not numbers or not all(_is_price(number) for number in numbers):
        raise ConfigError(
            f"{where} has a price for {name!r} that cannot be read ({value!r}); give dollars per million tokens of "
            f"input, cached input and output, such as {_EXAMPLE}."
        )
    return Price(*map(float, numbers))


def _is_price(number: Any) -> bool:
    return isinstance(number, int | float) and not isinstance(number, bool) and 0 <= number < float("inf")
