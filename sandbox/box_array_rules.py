"""How numpy arrays and parts of pandas data frames are taken apart for a snapshot, so that they share what they shared.

Runs inside the box. Standard library only, Python 3.9 and later.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from . import box_makers as make

if TYPE_CHECKING:
    from .box_pickler import Rule, VariablePickler


def _reduce_array(pickler: VariablePickler, array: Any) -> Any:
    """Reduce a view to a view, where the array that has the memory is kept as well or is hardly larger."""
    root = array
    while type(root.base) is type(array):
        root = root.base
    if root is array or array.size == 0 or array.dtype.hasobject or root.dtype.hasobject:
        return NotImplemented
    if not (root.flags.c_contiguous or root.flags.f_contiguous):
        return NotImplemented
    place = id(root)
    kept = place in pickler.roots or place in pickler.scope.names
    if not kept and root.nbytes > 2 * array.nbytes:
        pickler.views.add(place)
        return NotImplemented
    offset = array.__array_interface__["data"][0] - root.__array_interface__["data"][0]
    steps = [(size - 1) * array.strides[axis] for axis, size in enumerate(array.shape)]
    low = offset + sum(step for step in steps if step < 0)
    high = offset + sum(step for step in steps if step > 0) + array.itemsize
    if low < 0 or high > root.nbytes:
        return NotImplemented
    return make.array_view, (root, array.dtype, array.shape, array.strides, offset, array.flags.writeable)


def _reduce_block(pickler: VariablePickler, block: Any) -> Any:
    """Reduce a part of a data frame so that pandas knows, as before, which others lie in the same memory.

    It copies what is shared before it writes to it; unless it knows, a write to one frame would change the others.
    """
    refs = getattr(block, "refs", None)
    if refs is None:
        return NotImplemented
    return make.block, (block.__reduce__(), refs)


def _reduce_block_refs(pickler: VariablePickler, refs: Any) -> Any:
    return type(refs), ()


def _reduce_single_manager(pickler: VariablePickler, manager: Any) -> Any:
    # By itself it hands over the bare values of its only block.
    if not hasattr(manager.blocks[0], "refs"):
        return NotImplemented
    return type(manager), (manager.blocks[0], manager.axes[0])


def _reduce_index(pickler: VariablePickler, index: Any) -> Any:
    refs = getattr(index, "_references", None)
    if refs is None or not refs.has_reference():
        return NotImplemented
    # An index forgets, on its way, with whom it shares memory.
    return index.copy(deep=True).__reduce__()


NAMED_RULES: dict[str, Rule] = {
    "numpy.ndarray": _reduce_array,
    "pandas._libs.internals.BlockValuesRefs": _reduce_block_refs,
}
"""By the name of the type itself."""
BASE_RULES: dict[str, Rule] = {
    "pandas._libs.internals.Block": _reduce_block,
    "pandas.core.internals.managers.SingleBlockManager": _reduce_single_manager,
    "pandas.core.indexes.base.Index": _reduce_index,
}
"""By the name of the type or of one of its bases."""
