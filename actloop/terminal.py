"""What a person sees of a run while it goes on: thought, code, verdict, output, answer.

All of it goes to stderr; the answer alone goes to stdout, so that a pipe gets just that. Whatever a model or a cell
wrote is shown without terminal control: it must not be able to move the cursor, set titles or hide what ran. Lines are
broken by the terminal alone, so that a path that is copied, or a line in a log, is whole.
"""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.syntax import Syntax
from rich.text import Text

from .nodes.controls import strip_controls

_QUESTIONS = {"cell": "Run this cell?", "call": "Make this call?"}
LIVE_LINES = 12
"""Lines of a reply shown while it comes."""


class View:
    """The live view.

    Args:
        quiet: show nothing.
    """

    def __init__(self, quiet: bool = False) -> None:
        self._console = Console(stderr=True, quiet=quiet, highlight=False, soft_wrap=True)
        self._live: Live | None = None
        self._reply = ""
        self._open_line = False

    def begin(self, task: str, notice: str = "") -> None:
        """Show the task."""
        if notice:
            self._console.print(Text(notice, style="yellow"))
        self._console.print(Text("Task  ", style="bold").append(strip_controls(task), style="not bold"))

    def show(self, mode: str, data: Any) -> None:
        """Show one item of the graph's stream.

        Args:
            mode: `messages`, `custom` or `updates`.
            data: as LangGraph yields it for that mode.
        """
        if mode == "messages":
            message, facts = data
            if facts.get("langgraph_node") in ("reason", "repair") and message.type.startswith("AI"):
                self._token(str(message.text))
        elif mode == "custom":
            self._event(data)
        elif mode == "updates":
            for node, update in data.items():
                self._node(node, update or {})

    def _token(self, text: str) -> None:
        """Show a reply while it comes; it is replaced by its thought and its code once it is whole."""
        if not self._console.is_terminal or self._console.quiet or not text:
            return
        self._reply += text
        if self._live is None:
            self._live = Live(console=self._console, transient=True, refresh_per_second=12)
            self._live.start()
        self._live.update(Text("\n".join(strip_controls(self._reply).splitlines()[-LIVE_LINES:]), style="dim"))

    def _settle(self) -> None:
        if self._live is not None:
            self._live.stop()
        self._live, self._reply = None, ""
        if self._open_line:
            self._console.print()
            self._open_line = False

    def _node(self, node: str, update: dict[str, Any]) -> None:
        if node in ("reason", "repair"):
            self._settle()
        elif node == "codegen" and (update.get("action") or {}).get("kind") == "cell":
            self._cell(strip_controls(update["action"]["text"]).strip(), strip_controls(update["action"]["code"]))
        elif node == "safety_check":
            verdict = update.get("verdict") or {}
            if verdict.get("decision") != "allow":
                for finding in verdict.get("findings", []):
                    self._line(f"{verdict['decision']}: line {finding['line']}: {finding['message']}", "yellow")
        elif node == "execute" and update.get("execution"):
            self._settle()
            self._ending(update["execution"])

    def _cell(self, words: str, code: str) -> None:
        """Show a cell before it runs."""
        self._console.print()
        if words:
            self._console.print(Text(words, style="italic"))
        if self._console.is_terminal:
            shown = Syntax(code, "python", line_numbers=True, background_color="default", word_wrap=True)
            self._console.print(shown, soft_wrap=False)
            return
        for number, line in enumerate(code.splitlines(), 1):
            self._console.print(Text(f"{number:3} {line}"))

    def _event(self, event: dict[str, Any]) -> None:
        kind = event.get("kind")
        if kind in ("stdout", "stderr"):
            text = strip_controls(event["text"].replace("\r\n", "\n").replace("\r", "\n"))
            self._console.print(Text(text, style="red" if kind == "stderr" else "cyan"), end="")
            self._open_line = not text.endswith("\n") if text else self._open_line
        elif kind == "display":
            self._line(f"[{event['name']}]", "magenta")
        elif kind == "skipped":
            self._line(f"[… {event['text']} bytes not shown live]", "dim")

    def _line(self, text: str, style: str) -> None:
        if self._open_line:
            self._console.print()
            self._open_line = False
        self._console.print(Text(strip_controls(text), style=style))

    def _ending(self, execution: dict[str, Any]) -> None:
        if execution.get("result") is not None:
            self._line(execution["result"], "cyan")
        seconds = f"{execution['wall_s']:.2f} s"
        if execution["outcome"] == "ok":
            self._line(f"✓ exit 0, {seconds}", "green")
            return
        error = execution.get("error")
        what = execution["outcome"].replace("_", " ")
        if error:
            where = f" (line {error['line']})" if error["line"] else ""
            what = f"{error['type']}: {error['message'].splitlines()[0] if error['message'] else ''}{where}"
        self._line(f"✗ exit {execution['exit_code']}, {seconds}: {what}", "red")

    @property
    def attended(self) -> bool:
        """Whether a person is there to see a question and to answer it."""
        return sys.stdin.isatty() and self._console.is_terminal

    def recall(self, question: dict[str, Any]) -> None:
        """Show the cell that a question is about, where it was not shown in this process."""
        self._cell("", strip_controls(str(question.get("code", ""))))
        if question.get("kind") == "call":
            return
        self._node("safety_check", {"verdict": {"decision": "ask", "findings": question.get("findings", [])}})

    def ask(self, question: dict[str, Any]) -> Any:
        """Put an approval to the person; without one at the terminal the answer is no."""
        self._settle()
        what = "cell"
        if question.get("kind") == "call":
            what = "call"
            self._line(f"The cell calls {question['tool']} with {_arguments(question['arguments'])}", "yellow")
        if not self.attended:
            self._line(f"Nobody is here to approve this {what}: it is refused.", "yellow")
            return {"decision": "reject", "reason": "nobody was there to approve it"}
        try:
            answer = self._console.input(f"[yellow]{_QUESTIONS[what]} \\[y/N] [/yellow]")
        except EOFError:
            answer = ""
        return answer.strip().lower() in ("y", "yes")

    def end(self, result: dict[str, Any], saved: Sequence[Path], thread: str = "") -> None:
        """Show how the run ended: the answer on stdout, all else on stderr.

        Args:
            result: state that it ended in.
            saved: files that it made.
            thread: its id, where the person is to know it.
        """
        self._settle()
        status = result.get("status") or "unknown"
        usage = result.get("usage") or {}
        self._console.print()
        if result.get("answer"):
            self._console.print(Text("Question" if status == "needs_input" else "Answer", style="bold"))
            sys.stderr.flush()
            print(strip_controls(result["answer"]), flush=True)
        self._line(f"{status}: {result.get('summary', '')}", "green" if status == "success" else "red")
        for path in saved:
            self._console.print(Text(f"  {path}", style="magenta"))
        if usage.get("model_calls"):
            tokens = usage["input_tokens"] + usage["output_tokens"]
            counts = ((result.get("turns") or 0, "cell"), (usage["model_calls"], "request"), (tokens, "token"))
            shown = [f"{number} {name}{'' if number == 1 else 's'}" for number, name in counts]
            shown += [f"${usage['cost_usd']:.2g}"] if usage.get("cost_usd") else []
            self._console.print(Text(", ".join([*shown, f"thread {thread}"] if thread else shown), style="dim"))

    def tell(self, text: str) -> None:
        """Show a remark of the command line's own."""
        self._settle()
        self._line(text, "yellow")


def _arguments(arguments: Any) -> str:
    """Arguments of a call as a person reads them: one a line where there are several."""
    if not isinstance(arguments, dict):
        return str(arguments)
    parts = [f"{name} = {value!r}" for name, value in arguments.items()]
    return "no arguments" if not parts else parts[0] if len(parts) == 1 else "".join(f"\n    {part}" for part in parts)
