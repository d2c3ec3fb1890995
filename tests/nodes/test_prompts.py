"""Which prompt a model gets, and what the prompts must say in every language and form."""

from itertools import product
from string import Formatter
from typing import Any, get_args

import pytest
from langchain_openai import ChatOpenAI
from pydantic import SecretStr

from actloop.nodes.prompting import Form, Language, Part, form_of, language_of, prompt_name, prompt_text

ALL = list(product(get_args(Language), get_args(Form), get_args(Part)))
CELLS = [which for which in ALL if which[2] in ("fenced", "tool")]


@pytest.mark.parametrize(
    ("task", "language"),
    [
        ("Which region grew fastest?", "en"),
        ("哪个地区增长最快？", "zh"),
        ("请分析 sales.csv 中哪个 region 增长最快", "zh"),
        ("What does the word 增长 mean in the column names of this file?", "en"),
        ("どの地域が最も成長しましたか", "en"),
        ("가장 빠르게 성장한 지역은? 地域", "en"),
        ("42", "en"),
        ("", "en"),
    ],
)
def test_the_language_is_that_of_the_task(task: str, language: str) -> None:
    assert language_of(task) == language


def test_a_language_that_is_asked_for_is_kept() -> None:
    assert (language_of("哪个地区？", "en"), language_of("Which one?", "zh")) == ("en", "zh")


@pytest.mark.parametrize(
    ("name", "form"),
    [
        ("qwen2.5-coder-1.5b-instruct", "short"),
        ("qwen2.5-coder-1.5b-instruct-q4_k_m.gguf", "short"),
        ("Llama-3.1-8B-Instruct", "short"),
        ("mistral:7b", "short"),
        ("gemma-3n-e4b", "short"),
        ("smollm2-360m", "short"),
        ("llama3.3:70b", "full"),
        ("mixtral-8x7b", "full"),
        ("qwen3-30b-a3b", "full"),
        ("gpt-5", "full"),
        ("gpt-4o-mini", "full"),
        ("claude-sonnet-4-5-20250929", "full"),
    ],
)
def test_small_models_get_the_short_form(name: str, form: str) -> None:
    model = ChatOpenAI(model=name, api_key=SecretStr("none"))
    assert form_of(model) == form
    assert form_of(model, "full") == "full"
    assert form_of(model, "short") == "short"


@pytest.mark.parametrize(("language", "form", "part"), ALL)
def test_a_prompt_has_places_for_known_facts_only(language: Any, form: Any, part: Any) -> None:
    text = prompt_text(language, form, part)
    fields = {field for _, field, _, _ in Formatter().parse(text) if field is not None}
    assert fields <= {"python", "packages", "wall_s", "memory", "turns"}
    assert {"python", "packages", "wall_s", "memory"} <= fields


@pytest.mark.parametrize(("language", "form", "part"), CELLS)
def test_a_prompt_names_the_markers_that_the_reader_knows(language: Any, form: Any, part: Any) -> None:
    text = prompt_text(language, form, part)
    for marker in ("FINAL ANSWER:", "QUESTION:"):
        assert marker in text
    assert ("```python" in text) == (part == "fenced")


@pytest.mark.parametrize("language", get_args(Language))
def test_the_short_form_is_shorter_and_keeps_its_example(language: Any) -> None:
    full, short = (prompt_text(language, form, "fenced") for form in ("full", "short"))
    assert len(short) < len(full)
    assert "orders.csv" in short


def test_a_prompts_name_tells_its_version_and_its_text() -> None:
    names = {prompt_name(*which) for which in ALL}
    assert len(names) == len(ALL)
    assert prompt_name("zh", "short", "tool").startswith("zh/short/tool/2+")
