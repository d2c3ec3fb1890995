"""Terminal output as plain text: what a reader would see on the screen, without the codes that draw it."""

import re

_ESCAPES = re.compile(
    # OSC, DCS, SOS, PM, APC; one that is never ended takes no more than its line
    r"(?:\x1b[P\]X^_]|[\x90\x9d\x98\x9e\x9f])[^\x07\x1b\x9c\n]*(?:\x07|\x1b\\|\x9c|(?=[\x1b\n])|\Z)"
    r"|(?:\x1b\[|\x9b)[0-?]*[ -/]*(?:[@-~]|\Z)?"  # CSI, also one cut off at the end
    r"|\x1b[ -/]+[0-~]?"  # character sets and the like
    r"|\x1b[0-~]?"
)
_NEW_LINES = re.compile(r"\r+\n")
_CONTROLS = re.compile(
    r"[\x00-\x07\x0b-\x0c\x0e-\x1f\x7f-\x9f\u200b\u200e\u200f\u202a-\u202e\u2060-\u2064\u2066-\u2069\ufeff]"
)


def strip_controls(text: str) -> str:
    """Remove terminal control from a text.

    Escape sequences (colour, cursor, erase, titles), other control characters and invisible direction marks go; line
    feeds and tabs stay. A carriage return or a backspace acts as on a terminal: later text overwrites, so that of a
    progress bar the last state remains. Lone surrogates become U+FFFD, so that the text can be encoded.
    """
    plain = _ESCAPES.sub("", text)
    plain = _NEW_LINES.sub("\n", plain)
    if "\r" in plain or "\b" in plain:
        plain = "\n".join(_overwritten(line) for line in plain.split("\n"))
    plain = _CONTROLS.sub("", plain)
    return plain.encode("utf-8", "replace").decode("utf-8") if _has_surrogates(plain) else plain


def _overwritten(line: str) -> str:
    if "\r" not in line and "\b" not in line:
        return line
    parts = line.split("\r")
    while len(parts) > 1 and not parts[-1]:
        parts.pop()  # the cursor went back and nothing was written: the line still shows
    shown: list[str] = []
    for part in parts:
        written = _with_backspaces(part)
        shown[: len(written)] = written
    return "".join(shown)


def _with_backspaces(part: str) -> list[str]:
    if "\b" not in part:
        return list(part)
    cells: list[str] = []
    at = 0
    for character in part:
        if character == "\b":
            at = max(at - 1, 0)
            continue
        cells[at : at + 1] = [character]
        at += 1
    return cells[:at] if at < len(cells) and not "".join(cells[at:]).strip() else cells


def _has_surrogates(text: str) -> bool:
    return re.search("[\ud800-\udfff]", text) is not None
