"""A model's reply read as an action: run a cell, answer, ask the user, or say why it is unusable.

The rules that decide are few. Calls come before text. All Python blocks of a reply, in order, are one cell; other
languages never run, reasoning never runs, and nothing runs that the token limit cut off. A reply with code is a cell,
even where it also states an answer: those words were written before the code ran.
"""

import re
from dataclasses import dataclass, field

from langchain_core.messages import AIMessage

from actloop.state import Action

from .calls import Call, calls_of_expression
from .fences import Block, Lines, is_python
from .harmony import read_harmony
from .preparing import prepare_code
from .replies import Reply, read_message
from .source import is_blank, looks_like_code, parses
from .stray import clean_text
from .tags import Tagged, TagReader
from .thinking import without_thinking
from .wholes import read_whole

_QUESTION = re.compile(r"^[ \t]*(?:\*\*)?(?:QUESTION|提问)(?:\*\*)?[:：](?:\*\*)?[ \t]*", re.MULTILINE)
_ANSWER = re.compile(
    r"^[ \t]*(?:#{1,6}[ \t]+)?(?:\*\*|__)?(?:FINAL[ _]ANSWER|[Ff]inal [Aa]nswer|最终答案|最终回答|最後答案)"
    r"(?:(?:\*\*|__)?[ \t]*[:：](?:\*\*|__)?[ \t]*)"
    r"|^#{1,6}[ \t]+(?:FINAL ANSWER|[Ff]inal [Aa]nswer|最终答案)[ \t]*$",
    re.MULTILINE,
)
_TAGGED_ANSWER = re.compile(r"<(answer|final_answer|solution)>", re.IGNORECASE)
_MAX_UNLABELLED = 100
_MAX_ODD = 20_000
_TRUNCATED = "The reply was cut off at the token limit before it was complete; nothing of it ran. Send a shorter one."
_NO_CODE = (
    "The reply holds {count} blocks without a language, so it is not clear which of them should run;"
    " begin the one to run with ```python."
)
_EMPTY = {
    "reply": "The reply is empty; send a Python block to run, or the answer.",
    "thinking": "The reply holds reasoning only; send a Python block to run, or the answer.",
    "block": "The code block is empty or holds comments only, so nothing ran; send the code itself.",
}


@dataclass
class Parts:
    """A reply's text, taken apart."""

    blocks: list[Block] = field(default_factory=list)
    calls: list[tuple[Call, bool]] = field(default_factory=list)
    """Calls between tags, and whether each was closed."""
    words: list[str | tuple[Block, str]] = field(default_factory=list)
    """The text in order: lines, and blocks with their source."""
    prose: list[str] = field(default_factory=list)
    """The reply with the lines of its blocks blanked, to look for markers in."""

    def around(self, chosen: list[Block]) -> str:
        """The reply without the chosen blocks."""
        left_out = {id(block) for block in chosen}
        kept = [
            part if isinstance(part, str) else part[1]
            for part in self.words
            if isinstance(part, str) or id(part[0]) not in left_out
        ]
        return "\n".join(kept).strip()


def parse_reply(reply: AIMessage | str, finish_reason: str | None = None) -> Action:
    """Read a reply as an action.

    Args:
        reply: the model's message, or its text.
        finish_reason: the provider's word for why the reply ended; without it the message's metadata is asked.

    Returns:
        The action. Whatever the reply holds, nothing is raised: a reply that cannot be used is an action of the kind
        `unusable` with the reason in words that the model can act on.
    """
    read = read_message(reply, finish_reason)
    text, open_thinking = without_thinking(read_harmony(clean_text(read.text)))
    if read.refusal is not None or read.end == "refused":
        words = read.refusal or text.strip()
        return _unusable("refused", f"The model refused or was filtered: {words or 'no reason given'}", words)
    if read.calls:
        if read.end == "length":
            # Client libraries complete the JSON of a cut call, so that it looks whole.
            return _unusable("truncated", _TRUNCATED, text.strip())
        return _from_calls(list(read.calls), text.strip())
    if not text.strip():
        if read.end == "length":
            return _unusable("truncated", _TRUNCATED)
        return _unusable("empty", _EMPTY["thinking" if open_thinking or read.text.strip() else "reply"])
    parts = _take_apart(text)
    if not parts.calls and not any(block.label for block in parts.blocks) and _choose(parts.blocks) == ([], ""):
        parts = _again(text, parts)
    return _from_text(read, text, parts)


def _again(text: str, parts: Parts) -> Parts:
    """Look for blocks in odd places, where the rules find none; the first look counts where the second finds none."""
    odd = _take_apart(text, anywhere=True)
    return odd if odd.calls or _choose(odd.blocks)[0] else parts


def _from_text(read: Reply, text: str, parts: Parts) -> Action:
    cut = read.end == "length"
    chosen, problem = _choose(parts.blocks)
    words = parts.around(chosen)
    if parts.calls:
        if cut and not all(closed for _, closed in parts.calls):
            return _unusable("truncated", _TRUNCATED, words)
        return _from_calls([call for call, _ in parts.calls], words)
    if cut and (not chosen or any(not block.closed for block in parts.blocks)):
        return _unusable("truncated", _TRUNCATED, words)
    if problem:
        return _unusable("no_code", problem, words)
    if chosen:
        return _cell([block.body for block in chosen], words)
    calls = [] if cut else read_whole(text, parts.blocks, words)
    if calls:
        return _from_calls(calls, "" if not parts.blocks else words)
    return _words(text, "\n".join(parts.prose))


def _take_apart(text: str, *, anywhere: bool = False) -> Parts:
    """Find fenced and tagged parts in one pass, so that neither is found inside the other."""
    parts = Parts()
    lines = Lines(text.split("\n"))
    tags = TagReader(text)
    offsets = [0]
    for line in lines.lines:
        offsets.append(offsets[-1] + len(line) + 1)
    while lines.at < len(lines.lines):
        start = lines.at
        block = lines.take_block(anywhere=anywhere) or (_odd_block(lines) if anywhere else None)
        if block is not None:
            parts.blocks.append(block)
            parts.words.append((block, "\n".join(lines.lines[start : lines.at])))
            parts.prose += [""] * (lines.at - start)
            continue
        tagged = tags.find(offsets[start], offsets[start + 1] - 1)
        if tagged is None:
            line = lines.skip()
            parts.words.append(line)
            parts.prose.append(line)
            continue
        before = text[offsets[start] : tagged.start]
        _add_tagged(parts, tagged)
        parts.words.append(before)
        while lines.at < len(lines.lines) and offsets[lines.at + 1] <= tagged.end:
            lines.skip()
        _resume_in_line(lines, tags, parts, text, tagged.end, offsets)
        parts.prose += [before] + [""] * (lines.at - start - 1)
    return parts


def _resume_in_line(lines: Lines, tags: TagReader, parts: Parts, text: str, position: int, offsets: list[int]) -> None:
    """Go on behind a closing tag: the rest of its line may hold more tagged parts."""
    while lines.at < len(lines.lines):
        end = offsets[lines.at + 1] - 1
        tagged = tags.find(position, end)
        if tagged is None:
            parts.words.append(text[position:end])
            lines.skip()
            return
        parts.words.append(text[position : tagged.start])
        _add_tagged(parts, tagged)
        position = tagged.end
        while lines.at < len(lines.lines) and offsets[lines.at + 1] <= position:
            lines.skip()


def _add_tagged(parts: Parts, tagged: Tagged) -> None:
    if tagged.calls:
        parts.calls += [(call, tagged.closed) for call in tagged.calls]
        return
    inner = _fenced(tagged.body)
    parts.blocks.append(Block(tagged.label, tagged.body if inner is None else inner, tagged.closed))


_SQUEEZED = re.compile(r"\s*(`{3,})(python3?|py|)\s*([^`]+?)\s*\1\s*", re.IGNORECASE)
_BEHIND_WORDS = re.compile(r"(`{3,})([^\s`]+)[ \t]*")
_QUOTES = re.compile(r"[ \t]*(\'\'\'|\"\"\")([\w.]+)[ \t]*")


def _odd_block(lines: Lines) -> Block | None:
    """A block in a form that is no Markdown, looked for where the reply holds no other.

    In one line, ```` ```python print(1)``` ````; begun behind words, ```` So: ```python ````; or between the quotes of
    Python in place of backticks.
    """
    line = lines.lines[lines.at]
    squeezed = _SQUEEZED.fullmatch(line) if "```" in line else None
    if squeezed is not None and looks_like_code(squeezed[3]):
        lines.skip()
        return Block("python", squeezed[3])
    at = line.find("```")
    words = _BEHIND_WORDS.fullmatch(line, at) if at > 0 else None
    quotes = _QUOTES.fullmatch(line)
    if words is not None and is_python(words[2].lower()):
        marks = words[1]
    elif quotes is not None and is_python(quotes[2].lower()):
        marks = quotes[1]
    else:
        return None
    if lines.odd_tries <= 0:
        return None
    lines.odd_tries -= 1
    inside = lines.lines[lines.at + 1 :]
    end = next((index for index, other in enumerate(inside) if other.strip() == marks), None)
    body = "\n".join(inside if end is None else inside[:end])
    if len(body) > _MAX_ODD or not parses(prepare_code(body)):
        return None
    lines.at += len(inside) + 1 if end is None else end + 2
    return Block("python", body, closed=end is not None)


def _choose(blocks: list[Block]) -> tuple[list[Block], str]:
    """The blocks that make the cell, or the problem with choosing.

    Blocks that are called Python; without one, the single block without a label that looks like code. A quotation
    counts only where nothing else does.
    """
    for candidates in ([b for b in blocks if not b.quoted], [b for b in blocks if b.quoted]):
        python = [block for block in candidates if block.python]
        if python:
            return python, ""
        unlabelled = [block for block in candidates if not block.label and block.body.strip()][:_MAX_UNLABELLED]
        unlabelled = [block for block in unlabelled if looks_like_code(prepare_code(block.body))]
        if len(unlabelled) == 1:
            return unlabelled, ""
        if unlabelled:
            return [], _NO_CODE.format(count=len(unlabelled))
    return [], ""


def _cell(bodies: list[str], words: str) -> Action:
    pieces = [_called_code(prepare_code(body)) for body in bodies]
    code = "\n".join(piece for piece in pieces if not is_blank(piece))
    if is_blank(code):
        return _unusable("empty", _EMPTY["block"], words)
    if len(bodies) > 1 and not parses(code):
        # A statement split over two blocks parses only as a whole, with the indent of the second part.
        whole = prepare_code("\n".join(bodies))
        code = whole if parses(whole) else code
    return Action(kind="cell", code=code, text=words)


def _called_code(code: str) -> str:
    """The code inside of a body that does nothing but call the Python tool: `python(code="…")`."""
    calls = calls_of_expression(code)
    return "\n".join(call.text for call in calls) if calls else code


def _from_calls(calls: list[Call], words: str) -> Action:
    problems = [call.problem for call in calls if call.problem]
    if problems:
        return _unusable("bad_call", f"The tool call cannot be used: {problems[0]}. Nothing ran.", words)
    cells = [call.text for call in calls if call.tool == "cell"]
    if cells:
        bodies = [body if (inner := _fenced(body)) is None else inner for body in cells]
        return _cell(bodies, words)
    question = next((call.text for call in calls if call.tool == "question"), None)
    if question is not None:
        return Action(kind="question", text=question.strip())
    return Action(kind="answer", text=calls[-1].text.strip())


def _fenced(code: str) -> str | None:
    """The Python inside a body that is Markdown itself; None where it is plain code."""
    if "```" not in code and "~~~" not in code:
        return None
    text = code.replace("\r\n", "\n")
    if parses(prepare_code(text)):
        return None
    blocks = [block for block in _take_fences(text) if block.python or not block.label]
    return "\n".join(block.body for block in blocks) if blocks else None


def _take_fences(text: str) -> list[Block]:
    lines = Lines(text.split("\n"))
    blocks: list[Block] = []
    while lines.at < len(lines.lines):
        block = lines.take_block(anywhere=True)
        if block is None:
            lines.skip()
        else:
            blocks.append(block)
    return blocks


def _words(text: str, prose: str) -> Action:
    """A reply without code: a question where a line says so, else the answer."""
    question = _QUESTION.search(prose)
    if question is not None:
        asked = _after(text, prose, question)
        if asked:
            return Action(kind="question", text=asked)
    markers = list(_ANSWER.finditer(prose))
    if markers:
        answer = _after(text, prose, markers[-1]) or text[: _offset(text, prose, markers[-1].start())].strip()
        if not answer:
            return _unusable("empty", "The final answer is empty; state it.")
        return Action(kind="answer", text=answer)
    tagged = _TAGGED_ANSWER.search(text)
    end = text.rfind(f"</{tagged[1]}>") if tagged else -1
    inside = text[tagged.end() : end].strip() if tagged and end > 0 else ""
    return Action(kind="answer", text=inside or text.strip())


def _after(text: str, prose: str, marker: re.Match[str]) -> str:
    return text[_offset(text, prose, marker.end()) :].strip()


def _offset(text: str, prose: str, position: int) -> int:
    """Offset in the text of a position in the prose: both have the same lines."""
    row = prose.count("\n", 0, position)
    column = position - (prose.rfind("\n", 0, position) + 1)
    start = 0
    for _ in range(row):
        start = text.index("\n", start) + 1
    return start + column


def _unusable(problem: str, reason: str, words: str = "") -> Action:
    return Action.model_validate({"kind": "unusable", "problem": problem, "reason": reason, "text": words})
