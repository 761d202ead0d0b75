"""Views that are made of access patterns."""

from dataclasses import dataclass
from typing import Any, Optional, Tuple

import nki.language as nl

from .kernel_assert import kernel_assert


@dataclass
class TensorView(nl.NKIObject):
    """Shape, strides and offset over a tensor."""

    base_tensor: nl.ndarray
    shape: Optional[Tuple[int, ...]] = None
    strides: Optional[Tuple[int, ...]] = None
    offset: int = 0
    dtype: Any = None
    scalar_offset: Any = None
    indirect_dim: int = 0

    def __post_init__(self):
        if self.shape is None:
            self.shape = tuple(self.base_tensor.shape)
        if self.strides is None:
            strides = []
            step = 1
            for extent in reversed(self.shape):
                strides.append(step)
                step = step * extent
            self.strides = tuple(reversed(strides))
        if self.dtype is None:
            self.dtype = self.base_tensor.dtype

    def _like(self, shape, strides, offset):
        view = TensorView(self.base_tensor, tuple(shape), tuple(strides), offset, self.dtype)
        view.scalar_offset = self.scalar_offset
        view.indirect_dim = self.indirect_dim
        return view

    def slice(self, dim, start, end, step=1):
        """Part of a dimension; the end is clamped."""
        end = min(end, self.shape[dim])
        shape, strides = list(self.shape), list(self.strides)
        offset = self.offset + start * strides[dim]
        shape[dim] = (end - start + step - 1) // step
        strides[dim] = strides[dim] * step
        return self._like(shape, strides, offset)

    def permute(self, dims):
        """Other order of dimensions."""
        return self._like(
            [self.shape[d] for d in dims], [self.strides[d] for d in dims], self.offset
        )

    def broadcast(self, dim, size):
        """Repeat a dimension of one."""
        kernel_assert(self.shape[dim] == 1, "broadcast of more than one")
        shape, strides = list(self.shape), list(self.strides)
        shape[dim], strides[dim] = size, 0
        return self._like(shape, strides, self.offset)

    def expand_dim(self, dim):
        """Dimension of one."""
        shape, strides = list(self.shape), list(self.strides)
        shape.insert(dim, 1)
        strides.insert(dim, 1)
        return self._like(shape, strides, self.offset)

    def reshape_dim(self, dim, sizes):
        """Split a dimension."""
        sizes = list(sizes)
        if -1 in sizes:
            known = 1
            for size in sizes:
                known = known * (size if size != -1 else 1)
            sizes[sizes.index(-1)] = self.shape[dim] // known
        inner = []
        step = self.strides[dim]
        for size in reversed(sizes):
            inner.insert(0, step)
            step = step * size
        shape = list(self.shape[:dim]) + sizes + list(self.shape[dim + 1 :])
        strides = list(self.strides[:dim]) + inner + list(self.strides[dim + 1 :])
        return self._like(shape, strides, self.offset)

    def select(self, dim, index):
        """One element of a dimension, known now or by a tile or register."""
        shape, strides = list(self.shape), list(self.strides)
        step = strides[dim]
        del shape[dim], strides[dim]
        if isinstance(index, int):
            return self._like(shape, strides, self.offset + index * step)
        view = self._like(shape, strides, self.offset)
        base = self.base_tensor
        # The dimension of the base whose stride this is; its own by a reshape where there is none.
        product, found = 1, None
        for d in range(len(base.shape) - 1, -1, -1):
            if product == step and base.shape[d] > 1:
                found = d
            product = product * base.shape[d]
        if found is None:
            view.base_tensor = base.reshape((product // step, step))
            found = 0
        view.scalar_offset, view.indirect_dim = index, found
        return view

    def get_view(self):
        """Tensor of this view."""
        pattern = []
        for step, count in zip(self.strides, self.shape):
            pattern.append((step, count))
        if self.scalar_offset is not None:
            return self.base_tensor.ap(
                pattern=pattern,
                offset=self.offset,
                scalar_offset=self.scalar_offset,
                indirect_dim=self.indirect_dim,
                dtype=self.dtype,
            )
        return self.base_tensor.ap(pattern, self.offset, dtype=self.dtype)
