"""`codegen`: the model's reply becomes one cell."""

from .reading import parse_reply as parse_reply

__all__ = ["parse_reply"]
