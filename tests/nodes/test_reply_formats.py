"""Replies in the formats of other agents and models, and damaged on their way: what is asked for is still read."""

import json
from typing import Any

import pytest
from langchain_core.messages import AIMessage

from actloop.nodes.codegen import parse_reply

CODE = "x = 1\nprint(x)"
CALL = json.dumps({"name": "python", "arguments": {"code": CODE}})
ARGUMENTS = json.dumps({"code": CODE})
PARAMETER = f"<parameter=code>\n{CODE}\n</" + "parameter>"
NAMED = f'<parameter name="code">{CODE}</' + "parameter>"


def fenced(body: str, label: str = "python") -> str:
    return f"```{label}\n{body}\n```\n"


def cell(reply: AIMessage | str, finish_reason: str | None = None) -> str:
    action = parse_reply(reply, finish_reason)
    assert action.kind == "cell", action
    return action.code


def called(arguments: dict[str, Any], name: str = "python") -> AIMessage:
    return AIMessage(content="", tool_calls=[{"id": "c1", "name": name, "args": arguments}])


def miscalled(arguments: str) -> AIMessage:
    call = {"type": "invalid_tool_call", "id": "c1", "name": "python", "args": arguments, "error": "not JSON"}
    return AIMessage(content="", invalid_tool_calls=[call])


@pytest.mark.parametrize(
    "reply",
    [
        f"<tool_call>\n{CALL}\n</tool_call>",
        f"<tool_call>\n{fenced(CALL, 'json')}</tool_call>",
        f"<tool_call>{json.loads(CALL)!r}</tool_call>",
        f"<tool_call>{CODE}</tool_call>",
        f"<tool_calls>[{CALL}]</tool_calls>",
        f"<tool_call>\n<function=python>\n{PARAMETER}\n</function>\n</tool_call>",
        f"<function=execute_ipython_cell>\n{PARAMETER}\n</function>",
        f"<function=python>{ARGUMENTS}</function>",
        f'<function name="python">{ARGUMENTS}</function>',
        f'<function_calls>\n<invoke name="python">\n{NAMED}\n</invoke>\n</function_calls>',
        f"<tool_call>python\n<arg_key>code</arg_key>\n<arg_value>{CODE}</arg_value>\n</tool_call>",
        f"[TOOL_CALLS] [{CALL}]</s>",
        f"[TOOL_CALLS]python[ARGS]{ARGUMENTS}",
        f"[TOOL_CALLS]python[CALL_ID]a1[ARGS]{ARGUMENTS}",
        f"<|python_tag|>{CODE}<|eom_id|>",
        f"<|python_tag|>{CALL}<|eot_id|>",
        f"<|python_tag|>python.call(code={CODE!r})",
        "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>python\n"
        f"{fenced(ARGUMENTS, 'json')}<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
        f"<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>python<｜tool▁sep｜>{ARGUMENTS}<｜tool▁call▁end｜>",
        "<|tool_calls_section_begin|><|tool_call_begin|>functions.python:0<|tool_call_argument_begin|>"
        f"{ARGUMENTS}<|tool_call_end|><|tool_calls_section_end|>",
        "<|channel|>analysis<|message|>hm<|end|><|start|>assistant<|channel|>commentary to=functions.python "
        f"<|constrain|>json<|message|>{ARGUMENTS}<|call|>",
        f"<|start|>assistant<|channel|>analysis to=python code<|message|>{CODE}<|call|>",
        f"<|start|>assistant to=functions.python<|channel|>commentary json<|message|>{ARGUMENTS}<|call|>",
        f"<|channel|>analysis<|message|>hm<|end|>\n{fenced(CODE)}",
        f"<|action_start|><|interpreter|>\n{CODE}<|action_end|>",
        f"[PYTHON]\n{CODE}\n[/PYTHON]",
        f"<execute><![CDATA[\n{CODE}\n]]></execute>",
        f"<python_code>\n{CODE}\n</python_code>",
        f'<pre><code class="language-python">{CODE}\n</code></pre>',
        f"Thought: go\n<code>\n{CODE}",
        f"Code:\n```py\n{CODE}\n```<end_code>",
        f"Code:\n```py\n{CODE}\n<end_code>",
        fenced(f"print(default_api.python(code={CODE!r}))", "tool_code"),
        fenced(f"python(code={CODE!r})"),
        f"python(code={CODE!r})",
        f"[run_python({CODE!r})]",
        CALL,
        f"[{CALL}]",
        json.dumps({"thought": "first", "code": CODE}),
        json.dumps({"action": "python", "action_input": CODE}),
        fenced(CALL, "json"),
        fenced(CALL, "tool_call"),
        f"Thought: I look.\nAction: python\nAction Input: {CODE}\nObservation: 1",
        f"Thought: I look.\nAction: python\nAction Input: {ARGUMENTS}",
        f"Thought: I look.\nAction: python\nAction Input:\n```python\n{CODE}\n```",
        CODE,
        f"python\n{CODE}",
    ],
)
def test_a_cell_in_the_format_of_another_agent_is_read(reply: str) -> None:
    assert cell(reply).strip("\n") == CODE


def test_two_calls_behind_markers_are_one_cell() -> None:
    two = "".join(f"[TOOL_CALLS]python[ARGS]{json.dumps({'code': code})}" for code in ("x = 1", "y = x"))
    assert cell(two) == "x = 1\ny = x"


@pytest.mark.parametrize(
    "reply",
    [
        f"<function=python>\n<parameter=code>\n{CODE}",
        f"<tool_call>{CALL}",
        f"[TOOL_CALLS]python[ARGS]{ARGUMENTS[:-4]}",
        f"<|tool_call_begin|>python<|tool_call_argument_begin|>{ARGUMENTS}",
        f"<|channel|>commentary to=python<|message|>{ARGUMENTS}",
        f"<|python_tag|>{CODE}",
        f"<code>\n{CODE}",
        ARGUMENTS,
        CODE,
    ],
)
def test_no_call_that_the_limit_cut_runs(reply: str) -> None:
    assert (parse_reply(reply, "length").problem, parse_reply(reply, "length").code) == ("truncated", "")


@pytest.mark.parametrize(
    "reply",
    [
        '{"a": true}',
        '{"code": 200, "name": "Ann"}',
        '[{"name": "Ann", "age": 3}]',
        "x = 1",
        "x = 1\ny = 2",
        fenced('{"a": true, "n": 3}', "json"),
        '{"code": "E12"}',
    ],
)
def test_data_stays_an_answer(reply: str) -> None:
    assert parse_reply(reply).kind == "answer"


@pytest.mark.parametrize("tag", ["<code language='bash'>", '<pre><code class="language-js">', "<code lang=sql>"])
def test_a_tag_that_names_another_language_holds_no_code(tag: str) -> None:
    action = parse_reply(f"{tag}\nremove(1)\n</code>")
    assert (action.kind, action.code) == ("answer", "")


@pytest.mark.parametrize(
    "label",
    [
        "python-repl",
        "python_code",
        "jupyter",
        "run_python",
        "language-python",
        "main.py",
        "'python'",
        "src/app.py",
        "python.",
        "py-exec",
        "{code-cell} ipython3",
    ],
)
def test_more_labels_that_mean_python(label: str) -> None:
    assert cell(fenced("data", "json") + fenced(CODE, label)) == CODE


@pytest.mark.parametrize("label", ["code", "execute", "exec"])
def test_a_label_that_names_no_language_is_none(label: str) -> None:
    assert cell(fenced(CODE, label)) == CODE
    assert cell(fenced("bad()", label) + fenced(CODE)) == CODE


@pytest.mark.parametrize("label", ["diff", "python-traceback", "pytb", "cython", "pythonic", "output", "sh"])
def test_labels_near_python_are_other_languages(label: str) -> None:
    assert parse_reply(fenced("print(1)", label)).kind == "answer"
    assert cell(fenced("print(1)", label) + fenced(CODE)) == CODE


@pytest.mark.parametrize(
    "reply",
    [
        f"Here it is: ```python\n{CODE}\n```",
        f"代码如下：```python\n{CODE}\n```\n然后再说。",
        f"```python\n{CODE}\n``` That is it.",
        f"```python\n{CODE}\n```That is it.\nDone.",
        f"```python\n{CODE}```\nThis prints one, I'd think.",
        f"```python\n```python\n{CODE}\n```\n```",
        "```python\nx = 1\n```python\nprint(x)\n```",
        f"```\npython\n{CODE}\n```",
        f"\ufeff```python\n{CODE}\n```",
        f"\u200b```python\n{CODE}\n\u200b```",
        f"\u00a0```python\n{CODE}\n```",
        "> > ```python\n> > x = 1\n> > print(x)\n> > ```",
        f"'''python\n{CODE}\n'''",
        f"```python\n{CODE}\n```<|im_end|>",
        f"```python\n{CODE}\n<|eot_id|>",
        f"```python\n{CODE}</s>",
        fenced(CODE).replace("\n", "\\n"),
        json.dumps("So:\n" + fenced(CODE)),
        fenced(CODE).replace("\n", "\r"),
        "```python x = 1; print(x)```".replace("; ", ";"),
    ],
)
def test_a_fence_that_is_no_good_markdown_is_found(reply: str) -> None:
    assert cell(reply).replace(";", "\n") == CODE


def test_an_early_end_is_taken_only_where_the_code_does_not_parse() -> None:
    body = 's = """\n``` not the end\n"""'
    assert cell(fenced(body)) == body
    broken = cell("```python\nx = (\n``` more\ny\n```")
    assert broken.startswith("x = (\n```")


@pytest.mark.parametrize(
    ("damaged", "right"),
    [
        ("print（1）", "print(1)"),
        ("for i in range（3）：\n    print（i，i）", "for i in range(3):\n    print(i,i)"),
        ("print（'（a，b）'）", "print('（a，b）')"),
        ("print（“结果：”）", 'print("结果：")'),
        ("print(“it’s”)", 'print("it’s")'),
        ("x = 5 − 3", "x = 5 - 3"),
        ("x = 5 if 1 ≤ 2 else 0", "x = 5 if 1 <= 2 else 0"),
        ("print(&amp;quot;a&amp;quot;)", 'print("a")'),
        ("print(&#x27;a&#39;)", "print('a')"),
        ("In [1]: x = 1\n\nIn [2]: for i in x:\n   ...:     print(i)\nOut[2]: 1", "x = 1\nfor i in x:\n    print(i)"),
    ],
)
def test_more_damage_is_undone(damaged: str, right: str) -> None:
    assert cell(fenced(damaged)) == right


@pytest.mark.parametrize("code", ["s = '（a，b）'", "s = 'a – b'", "s = '“x”'", "变量 = 1", "s = '&lt;'"])
def test_what_parses_is_left_alone(code: str) -> None:
    assert cell(fenced(code)) == code


@pytest.mark.parametrize(
    "thinking",
    [
        "<antThinking>{}</antThinking>",
        "<analysis>\n{}</analysis>",
        "<seed:think>{}</seed:think>",
        "<inner_thoughts>\n{}</inner_thoughts>",
        "<思考>\n{}</思考>",
        "<|begin_of_thought|>\n{}<|end_of_thought|>",
        "<|START_THINKING|>{}<|END_THINKING|>",
        "Thinking...\n{}...done thinking.",
        "Here is my thought process:\n{}Here is my response:",
        "<|channel|>analysis<|message|>{}<|end|><|start|>assistant<|channel|>final<|message|>",
        "<think>a<think>b</think>\n{}</think>",
    ],
)
def test_code_never_runs_from_any_form_of_reasoning(thinking: str) -> None:
    assert cell(thinking.format("\n" + fenced("wipe()")) + "\n" + fenced(CODE)) == CODE
    only = parse_reply(thinking.format("\n<execute>\nwipe()\n</execute>\n"))
    assert only.code == ""


def test_a_thought_of_gemini_is_left_out_and_a_block_without_a_type_read() -> None:
    reply = AIMessage([{"type": "text", "text": fenced("wipe()"), "thought": True}, {"text": fenced(CODE)}])
    assert cell(reply) == CODE


@pytest.mark.parametrize(
    "arguments",
    [
        {"code": CODE.split("\n")},
        {"arguments": {"code": CODE}},
        {"input": {"code": CODE}},
        {"kwargs": ARGUMENTS},
        {"Code": CODE},
        {"language": "python", "code": CODE},
        {"command": CODE},
        {"code": json.dumps(CODE)},
    ],
)
def test_code_is_found_in_arguments_of_other_shapes(arguments: dict[str, Any]) -> None:
    assert cell(called(arguments)) == CODE


@pytest.mark.parametrize(
    "arguments",
    [
        json.dumps([CODE]),
        json.dumps([{"code": CODE}]),
        json.dumps({"code": "x = 1"}) + json.dumps({"code": "print(x)"}),
        ARGUMENTS + "</tool_call>",
        ARGUMENTS[:-1] + ",}",
        ARGUMENTS[:-1],
        fenced(ARGUMENTS, "json"),
        fenced(CODE),
        f"{{'code': '''{CODE}'''}}",
        f'{{"code": `{CODE}`}}',
        json.dumps(json.dumps(ARGUMENTS)),
    ],
)
def test_faulty_arguments_are_read(arguments: str) -> None:
    assert cell(miscalled(arguments)) == CODE


def test_quotes_that_were_not_escaped_are_read_where_the_code_parses() -> None:
    assert cell(miscalled('{"code": "print("hi")\\nx = 1"}')) == 'print("hi")\nx = 1'
    assert parse_reply(miscalled('{"code": "print("hi"}')).problem == "bad_call"


def test_a_call_in_another_language_is_refused_by_name() -> None:
    action = parse_reply(called({"language": "bash", "code": "ls"}))
    assert action.problem == "bad_call"
    assert "bash" in action.reason


@pytest.mark.parametrize(
    "name", ["functions:python", "functions.python:0", "python<|channel|>commentary", "pythonTool"]
)
def test_remains_of_a_format_in_the_name_are_ignored(name: str) -> None:
    assert cell(called({"code": CODE}, name)) == CODE


def test_calls_in_a_call_are_read() -> None:
    uses = [{"recipient_name": "functions.python", "parameters": {"code": code}} for code in CODE.split("\n")]
    assert cell(called({"tool_uses": uses}, "multi_tool_use.parallel")) == CODE


@pytest.mark.parametrize("key", ["finishReason", "stopReason", "finish_reason"])
@pytest.mark.parametrize("reason", ["MAX_TOKENS", "model_length", "max_tokens"])
def test_every_word_for_the_limit_is_known(key: str, reason: str) -> None:
    reply = AIMessage("```python\nx = 1", response_metadata={key: reason})
    assert parse_reply(reply).problem == "truncated"


@pytest.mark.parametrize(
    "reply",
    [
        "最终答案：42",
        "**最终答案**：42",
        "FINAL ANSWER：42",
        "## Final Answer\n42",
        "<answer>42</answer>",
        "FINAL ANSWER: 42<|im_end|>",
    ],
)
def test_more_markers_of_an_answer(reply: str) -> None:
    assert (parse_reply(reply).kind, parse_reply(reply).text) == ("answer", "42")


def test_a_question_may_be_marked_in_chinese() -> None:
    assert (parse_reply("QUESTION：哪个？").kind, parse_reply("提问：哪个？").text) == ("question", "哪个？")


@pytest.mark.parametrize("reply", ["Use `print(1)` to see it.", "Use ```print(1)``` for it.", "I'm sorry, I can't."])
def test_prose_with_code_in_it_is_an_answer(reply: str) -> None:
    assert parse_reply(reply).kind == "answer"


@pytest.mark.parametrize("sign", ["[PYTHON]\na\n[/PYTHON]", "<|channel|>analysis<|message|>", "<|action_start|>"])
def test_signs_of_a_format_inside_code_are_text(sign: str) -> None:
    code = f's = """\n{sign}\n"""'
    assert cell(fenced(code)) == code
