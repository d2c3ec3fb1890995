"""Signs around a reply that are not its text: end tokens that a server left in, marks of a damaged transport.

Servers with a wrong chat template hand on the tokens that end a turn; pages and documents add invisible characters
before a fence; a serializer may hand on the whole reply as one line with literal backslash-n. None of these says
anything, and each hides a fence.
"""

import json
import re

_END = (
    r"(?:<\|(?:im_end|im_start|eot_id|eom_id|end_of_text|endoftext|end|return|assistant_end|eot)\|>"
    r"|<[|｜]end[▁_]of[▁_]sentence[|｜]>|</s>|<(?:end_of_turn|eos|end_code|end_action|eoa|eom|eod)>|\[/INST\])"
)
_AT_END = re.compile(rf"[ \t]*(?:{_END}\s*)+\Z")
_AFTER_FENCE = re.compile(rf"^([ \t]*(?:`{{3,}}|~{{3,}}))[ \t]*(?:{_END}[ \t]*)+$", re.MULTILINE)
_INVISIBLE = re.compile(r"^[\u200b\u200c\u200d\u2060\ufeff]+", re.MULTILINE)
_ODD_INDENT = re.compile(r"^[ \t\u00a0\u3000]*[\u00a0\u3000][ \t\u00a0\u3000]*(?=```|~~~)", re.MULTILINE)
_ODD_FENCE = re.compile(r"^([ \t]*)(?:｀｀｀|(?:\\`){3}|´´´)", re.MULTILINE)
_PAIRS = (
    (re.compile(r"^[ \t]*\[(?:PYTHON|CODE)\]", re.MULTILINE), re.compile(r"\[/(?:PYTHON|CODE)\]")),
    (re.compile(r"<\|action_start\|>\s{0,4}<\|interpreter\|>"), re.compile(r"<\|action_end\|>")),
)
"""Opening and closing signs of code."""
_ONE_LINE = re.compile(r"(?:```|~~~)[\w{}.]*(?:\\r)?\\n")
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_ESCAPED = {"n": "\n", "t": "\t", "r": "", '"': '"', "\\": "\\"}


def clean_text(text: str) -> str:
    """Take the stray signs out of a reply's text.

    Args:
        text: line ends normalised.
    """
    text = _INVISIBLE.sub("", _whole(text))
    if "\u00a0" in text or "\u3000" in text:
        text = _ODD_INDENT.sub("", text)
    if "｀" in text or "\\`" in text or "´" in text:
        text = _ODD_FENCE.sub(r"\1```", text)
    if ("[/" in text or "<|" in text) and "```" not in text:
        for opened, closed in _PAIRS:
            if opened.search(text):
                text = closed.sub("</python>", opened.sub("<python>", text))
    if any(sign in text for sign in ("|>", "｜>", "</s>", "<e", "[/INST]")):
        text = _AFTER_FENCE.sub(r"\1", _AT_END.sub("", text))
    return text


def _whole(text: str) -> str:
    """Undo the escaping of a reply that arrived as one line."""
    line = text.strip()
    if "\n" in line or not _ONE_LINE.search(line):
        return text
    if line.startswith('"') and line.endswith('"'):
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            value = None
        if isinstance(value, str):
            return value.replace("\r\n", "\n")
    return _ESCAPE.sub(lambda match: _ESCAPED.get(match[1], match[0]), line)
