"""Whether an answer's numbers were seen: an answer must not claim what no cell printed."""

import re
from collections.abc import Iterable

from langchain_core.messages import BaseMessage

from .run import OURS

_NUMBER = re.compile(r"(?<![\w.])-?\d[\d,]*(?:\.\d+)?(?:e[+-]?\d+)?", re.IGNORECASE)


def backed(answer: str, evidence: str) -> bool:
    """Whether at least one of the answer's numbers stands in the evidence, or the answer has none to back.

    It is lenient on purpose: a number may be rounded, scaled to percent, or derived from what was printed; what it
    finds is an answer that was made up before anything was printed.

    Args:
        answer: the text.
        evidence: everything that the task and the cells have said.
    """
    claimed = [number for number in _numbers(answer) if number[1] >= 2]
    if not claimed:
        return True
    seen = {value for value, _, _ in _numbers(evidence)}
    return any(_found(value, decimals, seen) for value, _, decimals in claimed)


def evidence_of(messages: Iterable[BaseMessage], goal: str) -> str:
    """What the task and the observations of its run say."""
    return "\n".join(
        [goal, *(str(message.text) for message in messages if message.additional_kwargs.get(OURS) == "observation")]
    )


def _numbers(text: str) -> list[tuple[float, int, int]]:
    """Value, significant digits and decimals of each number in a text."""
    found = []
    for match in _NUMBER.finditer(text):
        plain = match[0].replace(",", "").rstrip(".")
        try:
            value = abs(float(plain))
        except ValueError:
            continue
        digits = re.sub(r"e.*", "", plain, flags=re.IGNORECASE)
        found.append((value, len(digits.replace(".", "").lstrip("-0")), len(digits.partition(".")[2])))
    return found


def _found(value: float, decimals: int, seen: Iterable[float]) -> bool:
    """Whether a seen number is this one, at its precision, as it is or as a percentage."""
    slack = 0.5000001 * 10.0**-decimals
    return any(abs(value - other * scale) <= slack for other in seen for scale in (1.0, 100.0))
