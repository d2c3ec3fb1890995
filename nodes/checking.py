"""The safety check: what the syntax tree of a cell says about what the cell will do.

This is advice: it decides when a person is asked and what a model is told, and it makes traces readable. It is not
the boundary. Code that wants to get around a reading of its text can; what holds it is the box (no network, no
privileges, limits of the kernel). So the check aims at few false alarms first.
"""

import ast
from collections.abc import Iterator, Mapping

from actloop.state import Finding, Verdict

from .bindings import Bindings
from .evaluation import Evaluator
from .nested import nested_code
from .policy import Level, Policy, Profile
from .rules import CHECKS
from .source import Fault, parse

_JUDGED = (
    ast.Import,
    ast.ImportFrom,
    ast.Name,
    ast.Attribute,
    ast.Call,
    ast.Subscript,
    ast.FunctionDef,
    ast.AsyncFunctionDef,
    ast.ClassDef,
)
"""Nodes that a rule may say something about."""

_ORDER: Mapping[Level, int] = {"allow": 0, "ask": 1, "deny": 2}
_MAX_FINDINGS = 50
_MAX_NESTING = 3


def check(code: str, policy: Profile | Policy = "standard") -> Verdict:
    """Judge a cell before it runs.

    Args:
        code: source of the cell.
        policy: a profile or a policy of one's own. `open` allows everything that parses; `standard` asks about what
            leaves the workspace or cannot be read, and denies what only an attack needs; `strict` denies what
            standard asks about, and asks about more.

    Returns:
        The verdict with findings in the order of their lines, at any depth of the code. Code that does not parse is
        denied under every policy, with the line and a hint. Nothing is raised, whatever the text is.

    Raises:
        ConfigError: there is no such policy.
    """
    policy = Policy.of(policy)
    tree = parse(code)
    if isinstance(tree, Fault):
        return Verdict(decision="deny", findings=(Finding(rule="syntax", line=tree.line, message=tree.message),))
    if policy.silent:
        return Verdict()
    try:
        found = list(_findings(tree, policy, 0))
    except RecursionError:
        message = "The code nests expressions too deeply to be checked; break it into several statements."
        return Verdict(decision="deny", findings=(Finding(rule="syntax", line=1, message=message),))
    unique = sorted(dict.fromkeys(found), key=lambda item: (item.line, item.rule, item.message))
    levels: list[Level] = [policy.level(item.rule) for item in unique]
    decision: Level = max(levels, key=_ORDER.__getitem__, default="allow")
    worst_first = sorted(unique, key=lambda item: -_ORDER[policy.level(item.rule)])[:_MAX_FINDINGS]
    return Verdict(decision=decision, findings=tuple(item for item in unique if item in worst_first))


def _findings(tree: ast.AST, policy: Policy, depth: int) -> Iterator[Finding]:
    evaluator = Evaluator(Bindings(tree))
    for node in evaluator.bindings.nodes:
        if not isinstance(node, _JUDGED):
            continue
        line = node.lineno
        for examine in CHECKS:
            for name, message in examine(evaluator, node):
                if policy.level(name) != "allow":
                    yield Finding(rule=name, line=line, message=message)
        if depth < _MAX_NESTING:
            yield from _nested(evaluator, node, line, policy, depth)


def _nested(evaluator: Evaluator, node: ast.AST, line: int, policy: Policy, depth: int) -> Iterator[Finding]:
    """Findings in texts that the code runs as code; a text that does not parse fails by itself."""
    for function, text in nested_code(evaluator, node):
        inner = parse(text)
        if isinstance(inner, Fault):
            continue
        for finding in _findings(inner, policy, depth + 1):
            yield Finding(rule=finding.rule, line=line, message=f"In the text given to {function}: {finding.message}")
