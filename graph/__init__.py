"""The graph: builder, checkpoints, artifacts and the sessions of its threads."""

from .agent import Agent
from .builder import build_graph, create_agent

__all__ = ["Agent", "build_graph", "create_agent"]
