"""`observe`: the run of a cell becomes what the model reads."""

from .rendering import render as render

__all__ = ["render"]
