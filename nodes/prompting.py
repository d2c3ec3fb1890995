"""Which prompt a request gets: by language, by form, and by what the model is asked for.

The texts are files in `prompts/<language>/`. `VERSION` beside them is raised when they change in meaning; the name of
a prompt holds it and a digest of the text, so that a trace tells exactly what the model was told.
"""

import hashlib
import re
from functools import lru_cache
from importlib.resources import files
from typing import Literal, TypeAlias

from langchain_core.language_models import BaseChatModel

from .model_errors import name_of

Language: TypeAlias = Literal["en", "zh"]
Form: TypeAlias = Literal["full", "short"]
Part: TypeAlias = Literal["fenced", "tool", "plan", "coder"]
"""What is asked for: a cell in a block or in a call, a plan in words, or the cell for a plan."""

LANGUAGES = ("en", "zh", "auto")
FORMS = ("full", "short", "auto")
SMALL = 8.0
"""Billions of parameters up to which a model gets the short form."""

_SIZE = re.compile(r"(?<![a-z0-9.])(?:(?P<times>\d+)x)?e?(?P<size>\d+(?:\.\d+)?)(?P<unit>[bm])(?![a-z0-9])", re.I)
_HAN = re.compile(r"[\u3400-\u9fff\U00020000-\U0003134f]")
_OTHER_SCRIPT = re.compile(r"[\u3040-\u30ff\uac00-\ud7af]")
_LATIN = re.compile(r"[A-Za-z]+")


def language_of(task: str, wanted: str = "auto") -> Language:
    """The language of the prompt.

    Args:
        task: in the user's words.
        wanted: `en` or `zh`, or `auto` for the script of the task: Chinese where its characters are no fewer than the
            words in Latin letters, which file names and column names are as well. Japanese and Korean are not Chinese.
    """
    if wanted in ("en", "zh"):
        return "zh" if wanted == "zh" else "en"
    han = len(_HAN.findall(task))
    return "zh" if han and han >= len(_LATIN.findall(task)) and not _OTHER_SCRIPT.search(task) else "en"


def form_of(model: BaseChatModel, wanted: str = "auto") -> Form:
    """The form of the prompt: `auto` is short for models whose name says that they are small, `full` for all others."""
    if wanted in ("full", "short"):
        return "short" if wanted == "short" else "full"
    sizes = [
        float(match["size"]) * float(match["times"] or 1) * (1 if match["unit"] in "bB" else 0.001)
        for match in _SIZE.finditer(name_of(model))
    ]
    # A mixture of experts names two sizes; the whole is what it knows.
    return "short" if sizes and max(sizes) <= SMALL else "full"


def prompt_text(language: Language, form: Form, part: Part) -> str:
    """The template of the system message, with places for the facts of the sandbox."""
    if part == "coder":
        return _read(language, "coder")
    reply = _read(language, "plan" if part == "plan" else f"reply_{part}")
    return _read(language, form).replace("{reply}", reply.strip())


@lru_cache
def prompt_name(language: Language, form: Form, part: Part) -> str:
    """Name of a prompt with its version: `en/full/fenced/2+0c9a41d7`."""
    digest = hashlib.sha256(prompt_text(language, form, part).encode()).hexdigest()[:8]
    return f"{language}/{form}/{part}/{_read('', 'VERSION').strip()}+{digest}"


@lru_cache
def _read(language: str, name: str) -> str:
    place = files("actloop.nodes").joinpath("prompts")
    return (place.joinpath(language, f"{name}.md") if language else place.joinpath(name)).read_text("utf-8")
