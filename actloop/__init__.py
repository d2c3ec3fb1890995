"""actloop: a LangGraph agent that solves a task by writing Python, running it in a sandbox and repairing it.

```python
from actloop import create_agent

agent = create_agent("openai:gpt-5")
with agent.sessions:
    out = agent.invoke({"task": "What is 2 ** 100?"}, {"configurable": {"thread_id": "t1"}})
print(out["status"], out["answer"])
```
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .config import Budget as Budget
    from .config import Limits as Limits
    from .graph import Agent as Agent
    from .graph import build_graph as build_graph
    from .graph import create_agent as create_agent
    from .graph import threads as threads
    from .nodes.policy import Policy as Policy

__all__ = ["Agent", "Budget", "Limits", "Policy", "build_graph", "create_agent", "threads"]

_HOMES = {
    "Budget": ".config",
    "Limits": ".config",
    "Agent": ".graph",
    "build_graph": ".graph",
    "create_agent": ".graph",
    "threads": ".graph",
    "Policy": ".nodes.policy",
}


def __getattr__(name: str) -> Any:
    """Import on first use: `import actloop.errors` must not load LangGraph, nor meet a half-made package."""
    if name not in _HOMES:
        raise AttributeError(f"module 'actloop' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOMES[name], __name__), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
