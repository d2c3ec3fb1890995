"""`safety_check`: the static policy says of a cell: allow, ask or deny."""

from .policy import check as check

__all__ = ["check"]
