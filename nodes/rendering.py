"""The text that a model reads about a cell's run.

Facts come first, each in a fixed sentence: how the cell ended and what became of the variables. What the code itself
produced is data: it stands between tags that it can neither close nor imitate, without terminal codes and with known
secrets masked. Both happen before anything is cut, so that a cut never lays half a code or half a secret bare.
"""

import re
import signal
from collections.abc import Iterable, Mapping, Sequence

from actloop.protocols import After, Execution, FileInfo, HostCall, NameInfo, Output

from .controls import strip_controls
from .masking import mask
from .shortening import shorten

_TAGS = "observation|output|value|traceback|workspace|earlier"
_IMITATION = re.compile(rf"<(?=\s*/?\s*(?:{_TAGS})\b)|<(?=\|[A-Za-z_ ]{{1,40}}\|>)", re.IGNORECASE)
_MAX_LISTED = 20
_OPEN, _CLOSE = "<observation>\n", "\n</observation>"

_STATE: Mapping[After, str] = {
    "kept": "All variables are as the cell left them.",
    "rolled_back": "The interpreter was replaced: all variables are as they were before this cell.",
    "restored": "The sandbox was replaced: variables and files are those of the last snapshot.",
    "lost": "The sandbox was replaced: all variables and imports are gone; define again what you need.",
}


def render(execution: Execution, *, limit: int = 8000, secrets: Sequence[str] = ()) -> str:
    """Write the observation of a run.

    Args:
        execution: the record of the run.
        limit: greatest length of the result in characters. Output, traceback and value share it; the sentences about
            outcome and variables come first.
        secrets: values to mask.

    Returns:
        The same text for an equal record.
    """
    clean = Cleaner(secrets)
    room = max(limit - len(_OPEN) - len(_CLOSE), 0)
    head = [_outcome(execution, clean), *_state(execution, clean)]
    tail = _facts(execution, clean, room // 8)
    fixed = "\n".join([*head, *tail])
    left = max(room - len(fixed) - 8, 0)
    middle = _products(execution, clean, left)
    inner = "\n".join([*head, *middle, *tail])
    if len(inner) > room:
        inner = shorten(inner, room)
    text = _OPEN + inner + _CLOSE
    return text if len(text) <= limit else shorten(head[0], limit)


class Cleaner:
    """Makes text of the box fit to be shown."""

    def __init__(self, secrets: Sequence[str]) -> None:
        self._secrets = tuple(secrets)

    def text(self, raw: str) -> str:
        """Several lines, without control codes, secrets and imitated tags."""
        return _IMITATION.sub("&lt;", mask(strip_controls(raw), self._secrets))

    def line(self, raw: str, limit: int = 200) -> str:
        """One line of at most `limit` characters."""
        flat = " ".join(self.text(raw).split())
        return flat if len(flat) <= limit else flat[: max(limit - 3, 0)].rstrip() + "..."


def _outcome(execution: Execution, clean: Cleaner) -> str:
    code = f"exit code {execution.exit_code}"
    match execution.outcome:
        case "ok":
            return f"The cell ran to its end ({code})."
        case "error":
            name = clean.line(execution.error.type, 80) if execution.error else "an exception"
            return f"The cell was ended by {name} ({code})."
        case "exit":
            return f"The cell ended itself ({code})."
        case "timeout":
            return f"The cell was stopped at its time limit, after {execution.wall_s:.1f} s ({code})."
        case "out_of_memory":
            return f"The cell was ended because it ran out of memory ({code})."
        case "crashed":
            return f"The cell crashed the interpreter ({code}{_signal(execution.exit_code)})."
        case "cancelled":
            return f"The cell was cancelled ({code})."
        case "lost":
            return "The sandbox was lost before the cell came to its end; effects that it may have had in it are gone."


def _signal(code: int | None) -> str:
    try:
        return f", {signal.Signals((code or 0) - 128).name}"
    except ValueError:
        return ""


def _state(execution: Execution, clean: Cleaner) -> list[str]:
    lines = [_STATE[execution.state]]
    if execution.lost_names:
        lines.append(f"Missing now: {_list(map(clean.line, execution.lost_names))}.")
    return lines


def _list(items: Iterable[str]) -> str:
    """Items in one line; beyond twenty only their number."""
    known = list(items)
    more = len(known) - _MAX_LISTED
    return ", ".join(known[:_MAX_LISTED]) + (f" and {more} more" if more > 0 else "")


def _products(execution: Execution, clean: Cleaner, room: int) -> list[str]:
    """Output, error and value, which share the room: each gets what the shorter ones leave."""
    parts: list[tuple[str, str]] = []
    output = _printed(execution)
    if output.strip():
        parts.append(("output", clean.text(output).rstrip("\n")))
    error = _error(execution, clean)
    if execution.error is not None and execution.error.traceback.strip():
        parts.append(("traceback", clean.text(execution.error.traceback).strip("\n")))
    if execution.result is not None:
        parts.append(("value", clean.text(execution.result)))
    lines = [*error]
    if execution.outcome == "ok" and not output.strip() and execution.result is None:
        lines.append("The cell ran and printed nothing.")
    room -= sum(len(line) + 1 for line in lines)
    room -= sum(len(f"<{tag}>\n\n</{tag}>\n") for tag, _ in parts)
    room -= len(_full_text(execution.output, clean)) + 1
    shares = _shares([len(text) for _, text in parts], max(room, 0))
    shown = {
        tag: f"<{tag}>\n{shorten(text, share)}\n</{tag}>" for (tag, text), share in zip(parts, shares, strict=True)
    }
    where = _full_text(execution.output, clean)
    result = [shown["output"]] if "output" in shown else []
    result += [where] if where else []
    result += lines
    return result + [shown[tag] for tag in ("traceback", "value") if tag in shown]


def _printed(execution: Execution) -> str:
    if execution.output.text:
        return execution.output.text
    out, err = execution.stdout.text, execution.stderr.text
    return out + ("\n" if out and err and not out.endswith("\n") else "") + err


def _full_text(output: Output, clean: Cleaner) -> str:
    if output.path is None:
        return ""
    return f"The full output, {output.total_bytes} bytes, is in the file {clean.line(output.path)}."


def _error(execution: Execution, clean: Cleaner) -> list[str]:
    error = execution.error
    if error is None:
        return []
    message = clean.line(error.message, 500)
    lines = [f"{clean.line(error.type, 80)}: {message}" if message else clean.line(error.type, 80)]
    if error.line is not None:
        source = f": {clean.line(error.source)}" if error.source and error.source.strip() else ""
        lines.append(f"Raised in line {error.line} of the cell{source}")
    return lines


def _shares(lengths: Sequence[int], room: int) -> list[int]:
    """Divide the room evenly; what a short text does not use goes to the longer ones."""
    shares = [0] * len(lengths)
    order = sorted(range(len(lengths)), key=lambda index: lengths[index])
    for place, index in enumerate(order):
        shares[index] = min(lengths[index], room // (len(order) - place))
        room -= shares[index]
    return shares


def _facts(execution: Execution, clean: Cleaner, width: int) -> list[str]:
    """One line for each kind of effect, each at most `width` characters (but at least 200)."""
    names, files = execution.names, execution.files
    found = [
        ("Names created: ", _list(_name(item, clean) for item in names.created)),
        ("Names changed: ", _list(_name(item, clean) for item in names.changed)),
        ("Names deleted: ", _list(clean.line(name, 60) for name in names.deleted)),
        ("Files created: ", _list(_file(item, clean) for item in files.created)),
        ("Files changed: ", _list(_file(item, clean) for item in files.changed)),
        ("Files deleted: ", _list(clean.line(path, 120) for path in files.deleted)),
    ]
    lines = [shorten_line(title + text, max(width, 200)) for title, text in found if text]
    lines += [
        f"{clean.line(display.name, 80)} ({clean.line(display.media_type, 60)}) was shown to the user."
        for display in execution.displays[:_MAX_LISTED]
    ]
    more = len(execution.displays) - _MAX_LISTED
    lines += [f"{more} more displays were shown to the user."] if more > 0 else []
    lines += _calls(execution.host_calls, execution.more_host_calls, clean)
    if execution.answer is not None:
        lines.append(f"final_answer was called with: {clean.line(execution.answer, max(width, 200))}")
    notes = [clean.line(note, 300) for note in execution.notes[:_MAX_LISTED]]
    return lines + [f"Note: {note}" for note in notes if note]


def shorten_line(line: str, limit: int) -> str:
    """Cut one line at its end and say so."""
    return line if len(line) <= limit else line[: limit - 4].rstrip() + " ..."


def _name(info: NameInfo, clean: Cleaner) -> str:
    detail = f", {clean.line(info.detail, 60)}" if info.detail else ""
    return f"{clean.line(info.name, 60)} ({clean.line(info.type, 60)}{detail})"


def _file(info: FileInfo, clean: Cleaner) -> str:
    return f"{clean.line(info.path, 120)} ({info.size} bytes)"


def _calls(calls: Sequence[HostCall], more: int, clean: Cleaner) -> list[str]:
    lines = []
    for call in calls[:_MAX_LISTED]:
        end = f"failed: {call.error}" if call.error is not None else f"returned {call.result}"
        if call.error is None and call.result is None:
            end = "has no result"
        lines.append(f"Host call {call.number}: " + clean.line(f"{call.tool} {call.arguments} {end}", 300))
    more += max(0, len(calls) - _MAX_LISTED)
    return lines + ([f"{more} more host calls were made."] if more > 0 else [])
