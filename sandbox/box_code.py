"""From the text of a cell to something that runs, and from an exception to what the model reads.

Runs inside the box, in the worker. Standard library only, Python 3.9 and later.
"""

from __future__ import annotations
import __future__

import ast
import linecache
import traceback
import types
from typing import Any

CELL_PREFIX = "<cell "
MAX_REMEMBERED = 1 << 20
"""Characters of a cell whose lines tracebacks can show."""
TYPICAL = "values = {'a': [1, 2]}\nprint(f\"{values['a'][0]}\", len(values))"
"""What `rehearse` compiles: a little of most that cells are made of."""
MAX_TEXT = 16 << 10
"""Characters kept of a message or a traceback."""

_CO_COROUTINE = 0x80
_FUTURE_FLAGS = __future__.annotations.compiler_flag
_LEAVES = frozenset({type(None), str, int, ast.Constant, ast.Load, ast.Store})
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)


class Compiler:
    """Compile cells one after the other, as one program.

    `from __future__` imports hold for the cells that follow, as at Python's own prompt.
    """

    def __init__(self) -> None:
        self._flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
        self.class_cells: dict[str, str] = {}
        """Which cell defined a class last; see `inspect_file`."""

    @property
    def future(self) -> int:
        """Flags of the `from __future__` imports that hold for the cells to come."""
        return self._flags & _FUTURE_FLAGS

    @future.setter
    def future(self, flags: int) -> None:
        self._flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT | (flags & _FUTURE_FLAGS)

    def compile(self, source: str, filename: str) -> tuple[Any, Any, set[str]]:
        """Compile a cell.

        Args:
            source: its text.
            filename: name under which tracebacks and `inspect` find its text.

        Returns:
            Code of the statements, or None where there are none; code of a last expression whose value is to be shown,
            or None; names that the cell stores to at its top level.

        Raises:
            SyntaxError, ValueError, MemoryError, RecursionError: it cannot be compiled.
        """
        if len(source) <= MAX_REMEMBERED:
            lines = [line + "\n" for line in _lines(source)]
            linecache.cache[filename] = (len(source), None, lines, filename)
        tree = compile(source, filename, "exec", self._flags | ast.PyCF_ONLY_AST, dont_inherit=True)
        assert isinstance(tree, ast.Module)
        last: Any = None
        stored = stored_names(tree)
        if tree.body and isinstance(tree.body[-1], ast.Expr) and not _ends_in_semicolon(source, tree.body[-1]):
            expression = tree.body.pop()
            assert isinstance(expression, ast.Expr)
            last = compile(ast.Expression(expression.value), filename, "eval", self._flags, dont_inherit=True)
        if not tree.body:
            return None, last, stored
        body = compile(tree, filename, "exec", self._flags, dont_inherit=True)
        self._flags |= body.co_flags & _FUTURE_FLAGS
        for node in tree.body:
            if isinstance(node, ast.ClassDef):
                self.class_cells[node.name] = filename
        return body, last, stored

    def rehearse(self) -> None:
        """Compile a typical cell and forget it, so that what compiling needs is in this process's own memory."""
        self.compile(TYPICAL, "<actloop rehearsal>")
        del linecache.cache["<actloop rehearsal>"]

    def inspect_file(self, thing: object) -> str | None:
        """File in which `inspect` finds a class of the session, whose module has no file."""
        if isinstance(thing, type) and thing.__module__ == "__main__":
            return self.class_cells.get(thing.__qualname__.split(".")[0])
        return None


def _lines(source: str) -> list[str]:
    """Lines as Python counts them: `str.splitlines` would also cut at form feeds and the like inside a text."""
    return source.replace("\r\n", "\n").replace("\r", "\n").split("\n")


def _ends_in_semicolon(source: str, expression: ast.Expr) -> bool:
    """Whether the last expression is followed by `;`, which hides its value as in a notebook."""
    if ";" not in source:
        return False
    lines = _lines(source)
    rest = (
        [lines[expression.end_lineno - 1].encode()[expression.end_col_offset or 0 :].decode()]
        if expression.end_lineno
        else []
    )
    rest += lines[expression.end_lineno or len(lines) :]
    return any(line.split("#")[0].strip().startswith(";") for line in rest)


def stored_names(tree: ast.Module) -> set[str]:
    """Names that top-level statements bind, or whose items or attributes they set."""
    found: set[str] = set()
    queue: list[Any] = list(tree.body)
    while queue:
        node = queue.pop()
        # Most of what there is; and what is no node, as the names of `global`.
        if type(node) in _LEAVES or (type(node) is ast.Name and type(node.ctx) is ast.Load):
            continue
        if isinstance(node, _FUNCTIONS):
            found.add(getattr(node, "name", ""))
            continue
        if isinstance(node, (ast.Name, ast.Attribute, ast.Subscript)) and isinstance(node.ctx, ast.Store):
            base: ast.AST = node
            while isinstance(base, (ast.Attribute, ast.Subscript)):
                base = base.value
            if isinstance(base, ast.Name):
                found.add(base.id)
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            found.update((alias.asname or alias.name).split(".")[0] for alias in node.names)
        for field in getattr(node, "_fields", ()):
            value = getattr(node, field, None)
            if type(value) is list:
                queue.extend(value)
            else:
                queue.append(value)
    return found


class Loop:
    """The event loop of top-level `await`, one for the session, so that a later cell may go on with its tasks."""

    def __init__(self) -> None:
        self._loop: Any = None

    def run(self, code: Any, namespace: dict[str, Any]) -> Any:
        """Run code in the namespace; code that awaits runs on the loop."""
        value = eval(code, namespace)  # noqa: S307 - running the cell is what the box is for
        if not code.co_flags & _CO_COROUTINE or not isinstance(value, types.CoroutineType):
            return value
        import asyncio  # 40 ms that only a cell that awaits should pay

        if self._loop is None or self._loop.is_closed():
            self._loop = asyncio.new_event_loop()
        asyncio.set_event_loop(self._loop)
        task = self._loop.create_task(value)
        try:
            return self._loop.run_until_complete(task)
        finally:
            if not task.done():
                task.cancel()
                asyncio.gather(task, return_exceptions=True)

    def teach(self, asyncio: Any) -> None:
        """Let `asyncio.run` work in a cell that also awaits, where the session's loop is running already."""
        original = asyncio.run

        def run(main: Any, **options: Any) -> Any:
            outer = asyncio._get_running_loop()
            if outer is None or outer is not self._loop:
                return original(main, **options)
            asyncio._set_running_loop(None)
            try:
                return original(main, **options)
            finally:
                asyncio._set_running_loop(outer)
                asyncio.set_event_loop(outer)

        asyncio.run = run


def _is_cell(filename: str) -> bool:
    return filename.startswith(CELL_PREFIX)


def _trim(error: traceback.TracebackException, depth: int = 0) -> None:
    """Leave the cell's own frames and the last one, through all causes."""
    frames = list(error.stack)
    kept = [frame for frame in frames[:-1] if _is_cell(frame.filename)] + frames[-1:]
    if kept and not _is_cell(kept[-1].filename) and kept[-1].filename.startswith("<actloop"):
        kept.pop()
    error.stack = traceback.StackSummary.from_list(kept)
    for below in (error.__cause__, error.__context__):
        if below is not None and depth < 8:
            _trim(below, depth + 1)


def error_info(error: BaseException, filename: str) -> dict[str, Any]:
    """An exception as an `ErrorInfo` record.

    Args:
        error: what ended the cell; its `__str__` may be hostile.
        filename: of the cell.
    """
    kind = type(error)
    name = kind.__qualname__
    if kind.__module__ not in ("builtins", "__main__"):
        name = f"{kind.__module__}.{name}"
    try:
        message = str(error)
    except KeyboardInterrupt:
        raise
    except BaseException as failure:
        message = f"<its text cannot be made: {type(failure).__name__}>"
    try:
        formatted = traceback.TracebackException(kind, error, error.__traceback__)
        _trim(formatted)
        text = "".join(formatted.format())
    except KeyboardInterrupt:
        raise
    except BaseException as failure:
        text = f"<the traceback cannot be made: {type(failure).__name__}>"
    line, source = _where(error, filename)
    return {
        "type": name[:200],
        "message": _short(message),
        "line": line,
        "source": source,
        "traceback": _short(text),
    }


def _where(error: BaseException, filename: str) -> tuple[int | None, str | None]:
    """Deepest line of this cell on the stack, and its text."""
    line = None
    if isinstance(error, SyntaxError) and error.filename == filename:
        line = error.lineno
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == filename:
            line = trace.tb_lineno
        trace = trace.tb_next
    if not line:
        return None, None
    return line, linecache.getline(filename, line).strip()[:300] or None


def _short(text: str) -> str:
    if len(text) <= MAX_TEXT:
        return text
    half = MAX_TEXT // 2
    return f"{text[:half]}\n[... {len(text) - 2 * half} characters left out ...]\n{text[-half:]}"
