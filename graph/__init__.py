"""The graph: builder, checkpoints, artifacts and the sessions of its threads."""

from .builder import Agent, build_graph, create_agent

__all__ = ["Agent", "build_graph", "create_agent"]
