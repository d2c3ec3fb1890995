"""Replies as models write them, and the action that each one asks for."""

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.messages import AIMessage

from actloop.nodes.codegen import parse_reply
from actloop.nodes.preparing import prepare_code


def run(code: str) -> dict[str, object]:
    names: dict[str, object] = {}
    exec(code, names)  # noqa: S102
    return names


def cell(reply: AIMessage | str, finish_reason: str | None = None) -> str:
    action = parse_reply(reply, finish_reason)
    assert action.kind == "cell", action
    return action.code


def fenced(body: str, label: str = "python") -> str:
    return f"```{label}\n{body}\n```\n"


# Fences


def test_an_untagged_fence_is_ignored_beside_a_tagged_one() -> None:
    reply = f"Not like this:\n{fenced('left = 1 / 0', '')}but so:\n{fenced('left = 3 * 5')}"
    assert cell(reply) == "left = 3 * 5"


def test_a_fence_closes_only_on_as_many_marks_as_opened_it() -> None:
    body = 'page = """\n```sh\nls\n```\n"""\nticks = page.count("`")'
    assert run(cell(f"````python\n{body}\n````"))["ticks"] == 6
    assert run(cell(f"~~~python\n{body}\n~~~"))["ticks"] == 6


def test_an_inner_fence_of_the_same_length_in_a_string_does_not_close() -> None:
    body = 'page = """\n```sh\nls\n```\n"""\nticks = page.count("`")'
    assert run(cell(fenced(body)))["ticks"] == 6


def test_marks_in_the_middle_of_a_line_do_not_close() -> None:
    assert run(cell('```py\ntext = "open with ```py"\nsize = len(text)\n```\n'))["size"] == 15


def test_a_closing_line_may_be_longer_indented_or_followed_by_spaces() -> None:
    assert cell("```python\nx = 1\n  `````  \nDone.") == "x = 1"


def test_tildes_do_not_close_backticks() -> None:
    assert cell('```python\ns = """\n~~~\n"""\n```') == 's = """\n~~~\n"""'


def test_a_block_left_open_runs_to_the_end_of_a_finished_reply() -> None:
    assert run(cell("So:\n```python\ntotal = sum(range(5))\n", "stop"))["total"] == 10


def test_marks_at_the_end_of_the_last_line_close_an_open_block() -> None:
    assert cell("```python\nprint(1)```") == "print(1)"


def test_all_python_blocks_run_in_order_as_one_cell() -> None:
    reply = f"First\n{fenced('x = 20')}then\n{fenced('pip install x', 'bash')}and\n{fenced('y = x + 2', 'py')}"
    assert run(cell(reply))["y"] == 22


def test_a_function_split_over_two_blocks_is_joined() -> None:
    assert run(cell(fenced("def f():\n    a = 1") + "more\n" + fenced("    return a\nb = f()")))["b"] == 1


@pytest.mark.parametrize(
    "label",
    ["Python ", "py", "python3", "PYTHON", "ipython", "{python}", "{.python #id}", 'python title="x"', "python3.12"],
)
def test_every_way_to_write_the_label_means_python(label: str) -> None:
    assert cell(fenced("print(3 + 4)", label)) == "print(3 + 4)"


@pytest.mark.parametrize(
    ("label", "body"),
    [("json", '{"a": true}'), ("bash", "ls"), ("text", "print(1)"), ("javascript", "f()"), ("pythonish", "f()")],
)
def test_blocks_in_other_languages_never_run(label: str, body: str) -> None:
    action = parse_reply(f"The result:\n{fenced(body, label)}")
    assert (action.kind, action.code) == ("answer", "")
    assert body in action.text


def test_a_single_untagged_block_of_code_runs() -> None:
    action = parse_reply("So:\n```\nimport math\nprint(math.pi)\n```")
    assert action.code == "import math\nprint(math.pi)"
    assert action.text == "So:"


@pytest.mark.parametrize("body", ['{"a": 1}', "mean: 3.5", "ls -la", "42", "done", "a | b\n--|--\n1 | 2", ""])
def test_an_untagged_block_that_is_no_code_is_part_of_the_answer(body: str) -> None:
    assert parse_reply(f"Result:\n```\n{body}\n```").kind == "answer"


def test_several_untagged_blocks_of_code_are_sent_back() -> None:
    action = parse_reply(fenced("print(1)", "") + "or\n" + fenced("print(2)", ""))
    assert (action.kind, action.problem) == ("unusable", "no_code")
    assert "```python" in action.reason


def test_common_indent_goes_from_all_lines() -> None:
    assert cell(fenced("    a = 1\n    b = a + 2")) == "a = 1\nb = a + 2"


def test_a_string_at_the_margin_does_not_keep_the_indent() -> None:
    assert run(cell(fenced('    t = """\nx\n"""\n    n = len(t)')))["n"] == 3


@pytest.mark.parametrize(
    "reply",
    [
        "1. Do\n\n   ```python\n   if 1:\n       x = 1\n   ```\n",
        "- a\n  - b\n\n    ```python\n    if 1:\n        x = 1\n    ```\n",
        "- ```python\n  if 1:\n      x = 1\n  ```",
        "> ```python\n> if 1:\n>     x = 1\n> ```\nso",
        "    ```python\n    if 1:\n        x = 1\n    ```",
    ],
)
def test_a_block_in_a_list_item_or_quotation_loses_its_container(reply: str) -> None:
    assert cell(reply) == "if 1:\n    x = 1"


def test_an_indented_fence_beside_a_real_block_is_text() -> None:
    assert cell(fenced('x = """\n    ```\n"""')) == 'x = """\n    ```\n"""'


def test_a_quoted_block_is_ignored_beside_an_own_one() -> None:
    assert cell("> ```python\n> old()\n> ```\n\n```python\nnew = 1\n```") == "new = 1"


def test_line_ends_of_windows_leave_no_trace() -> None:
    names = run(cell('```python\r\nt = """ab\r\ncd"""\r\nn = len(t)\r\n```\r\n'))
    assert names["n"] == 5


# Tags


@pytest.mark.parametrize("tag", ["execute", "execute_python", "python", "code"])
def test_code_between_tags_is_a_cell(tag: str) -> None:
    action = parse_reply(f"Now.\n<{tag}>\nx = 5\n</{tag}>\nBye")
    assert (action.code, action.text.split()) == ("x = 5", ["Now.", "Bye"])


def test_a_closing_tag_in_a_string_does_not_close() -> None:
    assert cell('<execute>\nprint("</execute>")\n</execute>') == 'print("</execute>")'


def test_a_fence_inside_tags_is_opened() -> None:
    assert cell("<execute>\n```python\nx = 1\n```\n</execute>") == "x = 1"


def test_html_code_in_a_sentence_is_no_cell() -> None:
    assert parse_reply("Use <code>os.listdir</code> for this.").kind == "answer"


def test_a_tag_inside_a_block_of_another_language_is_text() -> None:
    assert parse_reply(fenced("<execute>\nbad()\n</execute>", "xml")).kind == "answer"


def test_a_tool_call_between_tags_is_read() -> None:
    call = '<tool_call>\n{"name": "python", "arguments": {"code": "s = \'</tool_call>\'"}}\n</tool_call>'
    assert cell(call) == "s = '</tool_call>'"
    broken = parse_reply("<tool_call>{oops</tool_call>")
    assert (broken.kind, broken.problem) == ("unusable", "bad_call")


# Reasoning


@pytest.mark.parametrize(
    "reasoning",
    [
        "<think>one could\n```python\nwipe()\n```\nno</think>\n",
        "<THINKING>\n```python\nwipe()\n</THINKING>\n",
        "the prompt opened it\n```python\nwipe()\n```\n</think>\n",
        "the prompt opened it\n```python\nwipe()\n</think>\n",
        "<think>a</think>b<think>\n```python\nwipe()\n```\n</think>\n",
        "[THINK]```python\nwipe()\n```[/THINK]\n",
    ],
)
def test_code_in_a_reasoning_section_never_runs(reasoning: str) -> None:
    assert cell(reasoning + fenced("safe = 1")) == "safe = 1"


def test_code_behind_an_unclosed_reasoning_tag_never_runs() -> None:
    action = parse_reply("<think>maybe\n```python\nwipe()\n```\n")
    assert (action.kind, action.problem, action.code) == ("unusable", "empty", "")


def test_reasoning_tags_inside_code_or_quotes_are_text() -> None:
    assert cell("The `<think>` tag.\n" + fenced('s = "<think>"')) == 's = "<think>"'


def test_thinking_blocks_are_left_out_and_text_blocks_joined() -> None:
    reply = AIMessage(
        content=[
            {"type": "thinking", "thinking": fenced("wipe()")},
            {"type": "redacted_thinking", "data": "xx"},
            {"type": "reasoning", "summary": [{"type": "summary_text", "text": fenced("wipe()")}]},
            {"type": "text", "text": "Now"},
            {"type": "text", "text": fenced("x = 1")},
            "```python\ny = 2\n```",
        ]
    )
    assert cell(reply) == "x = 1\ny = 2"


# Damage


def test_literal_backslash_n_is_undone_only_where_nothing_else_parses() -> None:
    assert run(cell(fenced("import math\\nroot = int(math.sqrt(4))")))["root"] == 2
    assert cell(fenced("print('a\\nb')")) == "print('a\\nb')"
    assert run(cell(fenced("x = 1\\ns = 'a\\nb'")))["s"] == "a\nb"


def test_entities_are_undone_only_where_the_text_does_not_parse() -> None:
    assert cell(fenced("if 3 &gt; 2:\n    print(&quot;ok&quot;)")) == 'if 3 > 2:\n    print("ok")'
    assert cell(fenced('print("&lt;b&gt;")')) == 'print("&lt;b&gt;")'


def test_odd_spaces_are_replaced_outside_strings_only() -> None:
    code = cell(fenced('if True:\n\u00a0\u00a0\u00a0\u00a0s\u200b\u3000= "a\u00a0b"'))
    assert run(code)["s"] == "a\u00a0b"


def test_typographic_quotes_become_plain_ones() -> None:
    assert run(cell(fenced("a = “x”\nb = ‘y’")))["a"] == "x"
    assert cell(fenced('a = "“x”"')) == 'a = "“x”"'


def test_a_transcript_becomes_its_input() -> None:
    reply = fenced(">>> x = 2\n>>> for i in range(x):\n...     y = i\n0\n1\n>>> x\n2", "pycon")
    assert cell(reply) == "x = 2\nfor i in range(x):\n    y = i\nx"


def test_display_magics_are_dropped_and_shell_lines_kept() -> None:
    assert cell(fenced("%matplotlib inline\nx = 1")) == "x = 1"
    assert cell(fenced("!pip install x\ny = 1")) == "!pip install x\ny = 1"


# Nothing to run


@pytest.mark.parametrize("body", ["", "\n# TODO\n", "   \n  # one\n# two"])
def test_an_empty_block_is_no_run(body: str) -> None:
    action = parse_reply(fenced(body))
    assert (action.kind, action.problem, action.code) == ("unusable", "empty", "")
    assert "empty" in action.reason


@pytest.mark.parametrize("reply", ["", "  \n", AIMessage(content=""), AIMessage.model_construct(content=None)])
def test_an_empty_reply_is_named(reply: AIMessage | str) -> None:
    assert (parse_reply(reply).kind, parse_reply(reply).problem) == ("unusable", "empty")


# The token limit


@pytest.mark.parametrize(
    "reply",
    [
        "```python\nimport os\nos.remove('a",
        fenced("x = 1") + "```python\ny = ",
        "<execute>\nx = 1",
        '<tool_call>{"name": "python", "arguments": {"code": "x"}}',
        "<think>so",
        "The answer is that",
        "",
    ],
)
def test_nothing_runs_or_counts_that_the_limit_cut(reply: str) -> None:
    for reason in ("length", "max_tokens", "MAX_TOKENS"):
        action = parse_reply(reply, reason)
        assert (action.kind, action.problem, action.code) == ("unusable", "truncated", "")


def test_a_whole_block_in_a_cut_reply_runs() -> None:
    assert cell(fenced("x = 1") + "And now we s", "length") == "x = 1"


@pytest.mark.parametrize(
    "metadata",
    [
        {"finish_reason": "length"},
        {"stop_reason": "max_tokens"},
        {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}},
    ],
)
def test_the_reason_is_found_in_the_message(metadata: dict[str, object]) -> None:
    reply = AIMessage(content="```python\nx = 1", response_metadata=metadata)
    assert parse_reply(reply).problem == "truncated"


def test_a_call_in_a_cut_reply_never_runs_even_if_it_looks_whole() -> None:
    assert parse_reply(called({"code": "x = 1"}), "length").problem == "truncated"


# Refusals, questions, answers


def test_refusals_are_told_apart() -> None:
    said = parse_reply(AIMessage(content="", additional_kwargs={"refusal": "I will not."}))
    assert (said.problem, said.text) == ("refused", "I will not.")
    block = parse_reply(AIMessage(content=[{"type": "refusal", "refusal": "No."}]))
    assert (block.problem, block.text) == ("refused", "No.")
    assert parse_reply(fenced("x = 1"), "content_filter").problem == "refused"


def test_a_question_line_asks_the_user() -> None:
    action = parse_reply("I need to know.\nQUESTION: Which file?\nThe old one?")
    assert (action.kind, action.text) == ("question", "Which file?\nThe old one?")
    assert parse_reply("Question: what is 1+1?\nAnswer: 2").kind == "answer"


@pytest.mark.parametrize(
    "reply", ["42", "FINAL ANSWER: 42", "Final answer: 42\n", "**Final Answer:** 42", "It adds up.\nFINAL ANSWER: 42"]
)
def test_the_marker_of_an_answer_is_left_out(reply: str) -> None:
    assert (parse_reply(reply).kind, parse_reply(reply).text) == ("answer", "42")


def test_an_answer_beside_code_is_kept_as_words() -> None:
    action = parse_reply(fenced("print(total)") + "FINAL ANSWER: 42\n")
    assert (action.kind, action.code, action.text) == ("cell", "print(total)", "FINAL ANSWER: 42")


# Tool calls


def called(arguments: dict[str, object], name: str = "run_python") -> AIMessage:
    return AIMessage(content="", tool_calls=[{"id": "c1", "name": name, "args": arguments}])


def miscalled(arguments: str | None, name: str = "run_python") -> AIMessage:
    call = {"id": "c1", "name": name, "args": arguments, "error": "not JSON"}
    return AIMessage(content="", invalid_tool_calls=[{"type": "invalid_tool_call", **call}])


@pytest.mark.parametrize("name", ["python", "run_python", "execute_python", "functions.python", "Python"])
def test_a_call_of_the_python_tool_is_a_cell(name: str) -> None:
    assert cell(called({"code": "x = 1"}, name)) == "x = 1"


def test_several_calls_are_joined_in_order() -> None:
    calls = [{"id": i, "name": "python", "args": {"code": code}} for i, code in (("a", "x = 1"), ("b", "y = x"))]
    assert cell(AIMessage(content="", tool_calls=calls)) == "x = 1\ny = x"


@pytest.mark.parametrize(
    "arguments",
    [
        "import math\nprint(math.sqrt(16))",
        '"import math\\nprint(math.sqrt(16))"',
        '"{\\"code\\": \\"import math\\\\nprint(math.sqrt(16))\\"}"',
        '{"code": "import math\nprint(math.sqrt(16))"}',
        "{'code': 'import math\\nprint(math.sqrt(16))'}",
    ],
)
def test_arguments_that_are_not_plain_json_are_recovered(arguments: str) -> None:
    assert cell(miscalled(arguments)) == "import math\nprint(math.sqrt(16))"


def test_code_inside_a_second_layer_is_taken_out() -> None:
    assert cell(called({"code": '{"code": "x = 1"}'})) == "x = 1"
    assert cell(called({"code": "```python\nx = 1\n```"})) == "x = 1"


@pytest.mark.parametrize("arguments", [{}, {"code": 5}, {"code": None}, {"code": ""}, {"code": "  "}, {"cod": "x"}])
def test_a_call_without_code_is_named(arguments: dict[str, object]) -> None:
    action = parse_reply(called(arguments))
    assert (action.kind, action.problem) == ("unusable", "bad_call")
    assert "code is missing" in action.reason


@pytest.mark.parametrize("arguments", ["", "null", "5", '{"code": 5}', None])
def test_arguments_without_code_are_named(arguments: str | None) -> None:
    assert "code is missing" in parse_reply(miscalled(arguments)).reason


@pytest.mark.parametrize("arguments", ["{oops", '{"code": "print(1', "please run it"])
def test_arguments_that_cannot_be_read_are_named(arguments: str) -> None:
    action = parse_reply(miscalled(arguments))
    assert (action.kind, action.problem) == ("unusable", "bad_call")
    assert "not JSON" in action.reason


def test_one_bad_call_stops_all() -> None:
    calls = [{"id": "a", "name": "python", "args": {"code": "x"}}, {"id": "b", "name": "search", "args": {"q": 1}}]
    action = parse_reply(AIMessage(content="", tool_calls=calls))
    assert action.problem == "bad_call"
    assert "search" in action.reason


def test_the_tools_for_answers_and_questions_are_known() -> None:
    assert parse_reply(called({"answer": "42"}, "final_answer")).text == "42"
    assert parse_reply(called({"answer": [1, 2]}, "final_answer")).text == "[1, 2]"
    assert parse_reply(called({"question": "Which?"}, "ask_user")).kind == "question"
    assert parse_reply(called({"reason": "42"}, "final_answer")).problem == "bad_call"


# Any text at all

PIECES = st.sampled_from(
    ["```", "~~~", "python", "\n", "<think>", "</think>", "<execute>", "</execute>", "<tool_call>", '{"code": ', "'''",
     "> ", "- ", "    ", "x = 1", "\\n", "&lt;", ">>> ", "\r", "\u00a0", "\ud800", "\0", "QUESTION:", "FINAL ANSWER:"]
)  # fmt: skip


@settings(max_examples=300, deadline=None)
@given(
    st.one_of(st.text(), st.lists(st.one_of(PIECES, st.text(max_size=3))).map("".join)),
    st.sampled_from(["stop", "length", None]),
)
def test_no_text_raises_and_each_kind_carries_what_it_needs(text: str, reason: str | None) -> None:
    action = parse_reply(text, reason)
    assert bool(action.code) == (action.kind == "cell")
    assert bool(action.reason) == bool(action.problem) == (action.kind == "unusable")
    assert action.kind not in {"answer", "question"} or action.text.strip()
    prepare_code(text)


@settings(max_examples=100, deadline=None)
@given(st.one_of(st.none(), st.text()), st.one_of(st.none(), st.text()))
def test_no_arguments_raise(name: str | None, arguments: str | None) -> None:
    call = {"id": "c", "name": name, "args": arguments, "error": None, "type": "invalid_tool_call"}
    parse_reply(AIMessage(content="", invalid_tool_calls=[call]))


@pytest.mark.parametrize(
    "piece", ["`", "```python\n", "<think>", "<code>", "<tool_call>{", "> ```\n", "- ", '"""\n', "QUESTION:\n", "'''\\"]
)
def test_half_a_megabyte_of_anything_is_read_in_seconds(piece: str) -> None:
    begun = time.monotonic()
    parse_reply(piece * (500_000 // len(piece)))
    assert time.monotonic() - begun < 30
