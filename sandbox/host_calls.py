"""The calls of a session's cells to functions of the host: which are made, where they run, and which wait for a person.

A call that a person has to approve ends this process's wait for the cell, once no other call is under way: the cell
itself goes on waiting in the box, and whoever attaches to it with the answer goes on with it. So a question can stay
open for as long as the box lives, and be answered by another process.
"""

import contextlib
import threading
from collections.abc import Callable, Sequence
from functools import partial

from actloop.errors import SandboxLost
from actloop.protocols import CallAnswer, CallRules, Function, PendingCall

from .box_wire import Message
from .cell import RunningCell
from .host_functions import no_such_function, too_many, unknown_outcome
from .talk import Talk
from .workers import Workers

_NOBODY = "needs a person's approval, and nobody can be asked here"


class HostCalls:
    """The host's end of the calls.

    Args:
        talk: with the box.
        on_question: called when the cell waits for a person and for nothing else.
    """

    def __init__(self, talk: Talk, on_question: Callable[[RunningCell, PendingCall], None]) -> None:
        self._send = talk.send
        self._on_question = on_question
        self._workers = Workers(f"actloop calls {talk.name}")
        self._functions: dict[str, Function] = {}
        self._lock = threading.Lock()
        self._cell: RunningCell | None = None
        self._rules = CallRules()
        self._under_way: set[tuple[str, int]] = set()
        self._questions: list[PendingCall] = []

    def offer(self, functions: Sequence[Function]) -> None:
        """Let cells call these functions, and no others."""
        self._functions = {function.name: function for function in functions}
        self._send({"op": "tools", "tools": [function.described() for function in functions]})

    def begin(self, cell: RunningCell, rules: CallRules) -> None:
        """Serve a cell by these rules."""
        with self._lock:
            self._cell, self._rules, self._questions = cell, rules, []
        cell.when_over(partial(self._end, cell))

    def _end(self, cell: RunningCell) -> None:
        """Nobody follows the cell any more: what was not begun is not made, what can be stopped is stopped."""
        with self._lock:
            # Whoever waited for its end may have begun another one meanwhile.
            if self._cell is cell:
                self._cell, self._questions = None, []
        self._workers.cancel(cell.id)

    def close(self) -> None:
        """End threads and event loop; safe to repeat."""
        self._workers.close()

    def take(self, cell: RunningCell, message: Message) -> None:
        """Take a call from the box, and have it made."""
        number, name = int(message.get("number") or 0), str(message.get("tool"))
        key = (cell.id, number)
        with self._lock:
            # Whoever attaches is told of all open calls, those that are being made here among them.
            if key in self._under_way or self._cell is not cell:
                return
            question = self._question(number, name, message)
            if question is None:
                self._under_way.add(key)
                cell.hold()
            else:
                self._questions.append(question)
        if question is None:
            self._begin(cell, key, message)
        self._ask()

    def _question(self, number: int, name: str, message: Message) -> PendingCall | None:
        """What a person has to be asked before this call; None where it can go on, if only to be refused."""
        function = self._functions.get(name)
        if function is None or not function.needs_approval or not self._rules.ask or message.get("taken"):
            return None
        if number in self._rules.answers or number > self._rules.most:
            return None
        return PendingCall(number=number, tool=name, arguments=str(message.get("arguments")))

    def _begin(self, cell: RunningCell, key: tuple[str, int], message: Message) -> None:
        function = self._functions.get(str(message.get("tool")))
        refusal = self._refusal(function, message)
        if function is None or refusal:
            self._finish(cell, key, {"error": refusal})
            return
        answer = self._rules.answers.get(key[1])
        edited = answer.arguments if answer is not None else None
        arguments = str(message.get("arguments")) if edited is None else edited
        arrow = bool(message.get("arrow"))
        context = cell.context.copy()
        if function.awaits:
            self._workers.spawn(partial(self._amake, cell, key, function, arguments, arrow), context, cell.id)
        else:
            self._workers.run(partial(context.run, self._make, cell, key, function, arguments, arrow))

    def _refusal(self, function: Function | None, message: Message) -> str:
        """Why a call is not made; empty where it is."""
        number, name = int(message.get("number") or 0), str(message.get("tool"))
        if function is None:
            return no_such_function(name)
        if message.get("taken") and not function.idempotent:
            return unknown_outcome(name)
        if number > self._rules.most:
            return self._rules.over or too_many(name, self._rules.most)
        if not function.needs_approval:
            return ""
        answer = self._rules.answers.get(number, CallAnswer(approved=False, reason=_NOBODY))
        return "" if answer.approved else f"{name} was not called: {answer.reason}"

    def _make(self, cell: RunningCell, key: tuple[str, int], function: Function, arguments: str, arrow: bool) -> None:
        outcome: dict[str, str] | None = None
        if self._announced(cell, key):
            outcome = function.call(arguments, arrow)
        self._finish(cell, key, outcome)

    async def _amake(
        self, cell: RunningCell, key: tuple[str, int], function: Function, arguments: str, arrow: bool
    ) -> None:
        outcome: dict[str, str] | None = None
        try:
            if self._announced(cell, key):
                outcome = await function.acall(arguments, arrow)
        finally:
            self._finish(cell, key, outcome)

    def _announced(self, cell: RunningCell, key: tuple[str, int]) -> bool:
        """Tell the box that the call is made now; False where nobody waits for it any more."""
        if self._cell is not cell:
            return False
        with contextlib.suppress(SandboxLost):
            self._send({"op": "taken", "id": key[0], "number": key[1]})
            return True
        return False

    def _finish(self, cell: RunningCell, key: tuple[str, int], outcome: dict[str, str] | None) -> None:
        if outcome is not None:
            with contextlib.suppress(SandboxLost):
                self._send({"op": "result", "id": key[0], "number": key[1], **outcome})
        with self._lock:
            self._under_way.discard(key)
            if not self._busy(cell):
                cell.go_on()
        self._ask()

    def _busy(self, cell: RunningCell) -> bool:
        """Whether a call of this cell is under way; one of an earlier cell may be as well."""
        return any(cell_id == cell.id for cell_id, _ in self._under_way)

    def _ask(self) -> None:
        """Put the first question, once nothing else is under way."""
        with self._lock:
            if self._cell is None or not self._questions or self._busy(self._cell):
                return
            cell, question = self._cell, self._questions[0]
            self._cell, self._questions = None, []
        self._on_question(cell, question)
