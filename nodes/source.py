"""Python source as text that may be anything: parsed without harm to this process.

Models write code that breaks the parser itself: a null byte, a lone surrogate, ten thousand signs in a row. Which
exception that raises depends on the version of Python; a chain that is deep enough can end the process where the
stack is small. So everything that parses code written by a model goes through `parse`.
"""

import ast
import re
import warnings
from dataclasses import dataclass

MAX_SOURCE = 4_000_000
"""Characters of source that are looked at; a cell beyond that belongs into a file."""

_MAX_PREFIXES = 400
_PREFIXES = re.compile(r"(?:[-+~(\[{][ \t]*+|\b(?:not|lambda[ \t]*:)[ \t]*+)++")
_FLAGS = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT

_HINTS = (
    (
        "unterminated triple-quoted",
        "A string that begins with triple quotes is never closed; close it with the same three.",
    ),
    ("unterminated", "A quote is never closed; close it on the same line, or use triple quotes."),
    ("was never closed", "Close the bracket."),
    ("does not match", "Two brackets do not belong together."),
    ("unexpected indent", "Begin the line where its block begins."),
    ("unindent", "Indent every line of a block by the same spaces."),
    ("expected an indented block", "Indent the body of the block."),
    ("invalid non-printable character", "Replace this character by a plain space, or delete it."),
    ("invalid character", "Use the plain ASCII character."),
    ("'return' outside function", "End the cell with the bare value to show it."),
    ("Missing parentheses in call to 'print'", "Write Python 3."),
)
_SHELL_HINT = "Shell lines and notebook magics do not work here; write plain Python."


@dataclass(frozen=True)
class Fault:
    """Why a source cannot be compiled."""

    line: int
    message: str


def parse(code: str, mode: str = "exec") -> ast.AST | Fault:
    """Parse a cell the way the interpreter of the sandbox does: `await` may stand outside a function.

    Args:
        code: anything.
        mode: `exec` for statements, `eval` for one expression.

    Returns:
        The tree, or what is wrong and in which line. Nothing is raised, whatever the text is.
    """
    if len(code) > MAX_SOURCE:
        return Fault(1, f"The code has {len(code)} characters, more than {MAX_SOURCE}; put data into a file.")
    for run in _PREFIXES.finditer(code):
        if run.end() - run.start() > _MAX_PREFIXES and len(_signs(run[0])) > _MAX_PREFIXES:
            line = code.count("\n", 0, run.start()) + 1
            return Fault(line, "The code nests signs or brackets too deeply for the parser.")
    try:
        with warnings.catch_warnings():
            # Under "error" filters an invalid escape such as "\d" would turn into a SyntaxError.
            warnings.simplefilter("ignore")
            return _compile(code, mode)
    except SyntaxError as error:
        return Fault(error.lineno or 1, _explain(code, error))
    except UnicodeEncodeError as error:
        line = code.count("\n", 0, error.start) + 1
        return Fault(line, f"The code holds U+{ord(code[error.start]):04X}, half a character, which is not valid.")
    except (ValueError, OverflowError) as error:
        line = code.count("\n", 0, max(code.find("\0"), 0)) + 1
        return Fault(line, f"The code cannot be parsed: {error}.")
    except (MemoryError, RecursionError):
        return Fault(1, "The code nests expressions too deeply for the parser; break it into several statements.")


def _compile(code: str, mode: str) -> ast.AST:
    tree = compile(code, "<cell>", mode, _FLAGS | ast.PyCF_ONLY_AST, dont_inherit=True)
    # The tree alone does not tell of a `return` outside a function, or a `break` outside a loop.
    compile(code, "<cell>", mode, _FLAGS, dont_inherit=True)
    assert isinstance(tree, ast.AST)
    return tree


def parses(code: str) -> bool:
    """Whether the text is Python."""
    return not isinstance(parse(code), Fault)


def _signs(run: str) -> str:
    return re.sub(r"\s+", "", re.sub(r"not|lambda[ \t]*:", "-", run))


def _explain(code: str, error: SyntaxError) -> str:
    message = error.msg or "invalid syntax"
    hint = next((hint for part, hint in _HINTS if part in message), "")
    if not hint and _line(code, error.lineno or 1).lstrip()[:1] in {"!", "%"}:
        hint = _SHELL_HINT
    return f"{message}. {hint}".rstrip()


def _line(code: str, number: int) -> str:
    lines = code.split("\n")
    return lines[number - 1] if 0 < number <= len(lines) else ""


def is_blank(code: str) -> bool:
    """Whether there is nothing to run: no text, or comments only."""
    return all(not line.strip() or line.lstrip().startswith("#") for line in code.splitlines())


def looks_like_code(code: str) -> bool:
    """Whether a text without a label is Python that does something.

    Much that is no code parses as Python: a word, a number, a JSON object, `ls -la`, `mean: 3.5`. A text counts as
    code when one of its statements does more than name or compute values from such things: a call, an assignment,
    an import, a definition, a loop.
    """
    tree = parse(code)
    if not isinstance(tree, ast.Module):
        return False
    return any(_acts(statement) for statement in tree.body)


def _acts(statement: ast.stmt) -> bool:
    if isinstance(statement, ast.Expr):
        return any(isinstance(node, ast.Call | ast.Await) for node in ast.walk(statement))
    if isinstance(statement, ast.AnnAssign):
        return statement.value is not None
    return not isinstance(statement, ast.Pass)
