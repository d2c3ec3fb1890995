"""Whatever a model sends: nothing raises, and what was thought or written in another language never runs.

`make fuzz` runs these for longer: the number of examples is `ACTLOOP_FUZZ`.
"""

import os
import re

from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.messages import AIMessage

from actloop.nodes.codegen import parse_reply
from actloop.nodes.safety_check import check

EXAMPLES = int(os.environ.get("ACTLOOP_FUZZ", "120"))
LONG = settings(max_examples=EXAMPLES, deadline=None)

PIECES = st.sampled_from(
    [
        "```",
        "````",
        "~~~",
        "```python\n",
        "```json\n",
        "\n```\n",
        "\n",
        "<think>",
        "</think>",
        "<execute>",
        "</execute>",
        "<tool_call>",
        "</tool_call>",
        '{"code": "x = 1"}',
        '{"name": "python", "arguments": ',
        "[TOOL_CALLS]",
        "[ARGS]",
        "<|python_tag|>",
        "<function=python>",
        "</function>",
        "<parameter=code>",
        "<|channel|>analysis<|message|>",
        "<|channel|>commentary to=python<|message|>",
        "<|end|>",
        "<|call|>",
        "<｜tool▁call▁begin｜>",
        "<code>",
        "</code>",
        "<｜tool▁sep｜>",
        "<|im_end|>",
        "Action: python\n",
        "Action Input: ",
        "'''",
        '"""',
        "> ",
        "- ",
        "    ",
        "x = 1",
        "\\n",
        "“",
        "（",
        "&lt;",
        ">>> ",
        "In [1]: ",
        "\r",
        "\u00a0",
        "\ud800",
        "\0",
        "QUESTION:",
        "最终答案：",
        "<answer>",
    ]
)
CODE = r"(import os|x = [a-z]+\(|open\(.\)|eval\(.+\)|getattr\(a, .+\))\n?.*"
SOUP = st.one_of(st.text(), st.lists(st.one_of(PIECES, PIECES, st.text(max_size=3))).map("".join))
ENDS = st.sampled_from(["stop", "length", "tool_calls", None])

SIGNS = "`~<>{}[]|:\\\"'“”‘’«»´｜()（）"
WORDS = st.text(st.characters(codec="utf-8", exclude_characters=SIGNS, exclude_categories=("Cc", "Cs")), max_size=30)
BAD = "wipe_everything(1)"
BODY = st.sampled_from([BAD, f"import os\n{BAD}", f"x = 1\n\n{BAD}  # so", f"    {BAD}", f'print("a")\n{BAD}'])
OTHERS = st.sampled_from(["bash", "sh", "json", "text", "diff", "output", "js", "r", "sql", "markdown", "pytb", "c"])
MARKS = st.sampled_from(["```", "````", "~~~", "~~~~~"])
PAIRS = st.sampled_from(
    [
        ("<think>", "</think>"),
        ("<thinking>", "</thinking>"),
        ("<Thought>", "</Thought>"),
        ("[THINK]", "[/THINK]"),
        ("<reasoning>", "</reasoning>"),
        ("<antThinking>", "</antThinking>"),
        ("<|begin_of_thought|>", "<|end_of_thought|>"),
        ("<|channel|>analysis<|message|>", "<|end|>"),
        ("◁think▷", "◁/think▷"),
    ]
)


@st.composite
def never_run(draw: st.DrawFn) -> str:
    """A part of a reply whose code must not run: reasoning, or a block of another language."""
    body, marks = draw(BODY), draw(MARKS)
    if draw(st.booleans()):
        return f"{marks}{draw(OTHERS)}\n{body}\n{marks}"
    opened, closed = draw(PAIRS)
    inside = draw(st.sampled_from([f"{marks}python\n{body}\n{marks}", f"<execute>\n{body}\n</execute>", body]))
    return f"{opened}{draw(WORDS)}\n{inside}\n{draw(WORDS)}{closed}"


@st.composite
def replies(draw: st.DrawFn) -> str:
    """Words, parts that must not run, and own blocks, in any order."""
    own = st.sampled_from(["```python\nfine = 1\n```", "~~~py\nfine = 2\n~~~", "<execute>\nfine = 3\n</execute>"])
    parts = draw(st.lists(st.one_of(WORDS, never_run(), own), min_size=1, max_size=6))
    text = "\n".join(parts)
    return text.replace("\n", draw(st.sampled_from(["\n", "\r\n"])))


@LONG
@given(SOUP, ENDS)
def test_no_reply_raises_and_each_action_is_whole(text: str, end: str | None) -> None:
    for reply in (text, AIMessage(text), AIMessage([{"type": "text", "text": text}, text])):
        action = parse_reply(reply, end)
        assert bool(action.code) == (action.kind == "cell")
        assert bool(action.reason) == bool(action.problem) == (action.kind == "unusable")


@LONG
@given(replies(), ENDS)
def test_what_was_thought_or_is_another_language_never_runs(text: str, end: str | None) -> None:
    action = parse_reply(text, end)
    assert "wipe_everything" not in action.code
    own = len(re.findall(r"fine = ", text))
    assert action.code.count("fine = ") in ({own} if end != "length" else {0, own})


@LONG
@given(replies())
def test_a_prefix_of_a_reply_that_the_limit_cut_runs_whole_blocks_only(text: str) -> None:
    whole = {"", *re.findall(r"fine = \d", text)}
    for cut in range(0, len(text), max(1, len(text) // 20)):
        code = parse_reply(text[:cut], "length").code
        assert set(code.split("\n")) <= whole


@LONG
@given(st.one_of(st.none(), st.text(max_size=12), st.sampled_from(["python", "final_answer"])), SOUP)
def test_no_call_raises(name: str | None, arguments: str) -> None:
    call = {"id": "c", "name": name, "args": arguments, "error": None, "type": "invalid_tool_call"}
    parse_reply(AIMessage(content="", invalid_tool_calls=[call]))
    valid = {"id": "c", "name": name or "", "args": {"code": arguments, "input": [arguments]}, "type": "tool_call"}
    parse_reply(AIMessage(content=[{"type": "text", "text": arguments}], tool_calls=[valid]))


@LONG
@given(st.one_of(SOUP, st.from_regex(CODE, fullmatch=True)))
def test_no_code_raises_in_the_safety_check(code: str) -> None:
    for policy in ("open", "standard", "strict"):
        assert check(code, policy).decision in {"allow", "ask", "deny"}
