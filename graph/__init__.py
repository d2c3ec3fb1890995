"""The graph: builder, checkpoints, artifacts, threads and their sessions."""

from . import threads
from .agent import Agent
from .builder import build_graph, create_agent

__all__ = ["Agent", "build_graph", "create_agent", "threads"]
