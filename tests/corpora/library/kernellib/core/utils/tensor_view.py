"""Views composed in Python, and handed to the hardware as one access pattern."""

from dataclasses import dataclass
from typing import Dict, List, Optional, Tuple

import nki.language as nl

from .kernel_assert import kernel_assert
from .kernel_helpers import sizeinbytes


def _row_major(shape) -> Tuple[int, ...]:
    strides = []
    step = 1
    for length in shape[::-1]:
        strides.append(step)
        step = step * length
    return tuple(strides[::-1])


@dataclass
class TensorView(nl.NKIObject):
    """Shape, strides and offset over a whole tensor; `get_view` makes the pattern."""

    base_tensor: nl.ndarray
    shape: Optional[Tuple[int, ...]] = None
    strides: Optional[Tuple[int, ...]] = None
    offset: int = 0
    scalar_offset: Optional[nl.ndarray] = None
    indirect_dim: int = 0
    dtype: Optional[nl.ndarray] = None

    def __post_init__(self):
        if self.shape is None:
            self.shape = tuple(self.base_tensor.shape)
        if self.strides is None:
            self.strides = _row_major(self.base_tensor.shape)
        if self.dtype is None:
            self.dtype = self.base_tensor.dtype

    @property
    def dim(self) -> int:
        return len(self.shape)

    def is_sbuf(self) -> bool:
        return self.base_tensor.buffer == nl.sbuf

    def _copy(self, shape=None, strides=None, offset=None, scalar_offset=None, indirect_dim=None):
        view = TensorView(
            self.base_tensor,
            tuple(shape) if shape is not None else self.shape,
            tuple(strides) if strides is not None else self.strides,
            offset if offset is not None else self.offset,
        )
        view.scalar_offset = scalar_offset if scalar_offset is not None else self.scalar_offset
        view.indirect_dim = indirect_dim if indirect_dim is not None else self.indirect_dim
        view.dtype = self.dtype
        vector = getattr(self, "vector_offset", None)
        if vector is not None:
            view.vector_offset = vector
        return view

    def _check(self, dim: int):
        kernel_assert(0 <= dim < self.dim, f"dim {dim} of {self.shape}")

    def slice(self, dim: int, start: int, end: int, step: int = 1):
        self._check(dim)
        end = min(end, self.shape[dim])
        kernel_assert(0 <= start < end, f"slice [{start}, {end}) of {self.shape[dim]}")
        shape = [n for n in self.shape]
        strides = [n for n in self.strides]
        shape[dim] = (end - start + step - 1) // step
        strides[dim] = strides[dim] * step
        return self._copy(shape, strides, self.offset + start * self.strides[dim])

    def select(self, dim: int, index):
        self._check(dim)
        kernel_assert(dim > 0 or not self.is_sbuf(), "partitions stay")
        shape = self.shape[:dim] + self.shape[dim + 1 :]
        strides = self.strides[:dim] + self.strides[dim + 1 :]
        if isinstance(index, int):
            return self._copy(shape, strides, self.offset + index * self.strides[dim])
        kernel_assert(self.scalar_offset is None, "one dynamic select a view")
        return self._copy(
            shape, strides, scalar_offset=index, indirect_dim=self._base_dim(self.strides[dim])
        )

    def vector_select(self, dim: int, index: nl.ndarray):
        kernel_assert(dim == 0 and not self.is_sbuf(), "rows of HBM alone")
        view = self._copy((index.shape[0],) + self.shape[1:])
        view.vector_offset = index
        return view

    def _base_dim(self, stride: int) -> int:
        """Return the base's axis of a stride, reshaping the base if there is none."""
        for axis, step in enumerate(_row_major(self.base_tensor.shape)):
            if step == stride:
                return axis
        total = 1
        for length in self.base_tensor.shape:
            total = total * length
        kernel_assert(total % stride == 0, f"no axis of {self.base_tensor.shape} has step {stride}")
        self.base_tensor = self.base_tensor.reshape((total // stride, stride))
        return 0

    def permute(self, dims: Tuple[int, ...]):
        kernel_assert(sorted(dims) == list(range(self.dim)), f"{dims} is no permutation")
        kernel_assert(not self.is_sbuf() or dims[0] == 0, "partitions stay")
        return self._copy([self.shape[d] for d in dims], [self.strides[d] for d in dims])

    def broadcast(self, dim: int, size: int):
        kernel_assert(self.shape[dim] == 1, f"axis {dim} of {self.shape} is not 1")
        shape = [n for n in self.shape]
        strides = [n for n in self.strides]
        shape[dim], strides[dim] = size, 0
        return self._copy(shape, strides)

    def expand_dim(self, dim: int):
        step = self.strides[dim] * self.shape[dim] if dim < self.dim else 1
        return self._copy(
            self.shape[:dim] + (1,) + self.shape[dim:],
            self.strides[:dim] + (step,) + self.strides[dim:],
        )

    def squeeze_dim(self, dim: int):
        kernel_assert(self.shape[dim] == 1, f"axis {dim} of {self.shape} is not 1")
        return self._copy(
            self.shape[:dim] + self.shape[dim + 1 :], self.strides[:dim] + self.strides[dim + 1 :]
        )

    def reshape_dim(self, dim: int, shape):
        known = 1
        for n in shape:
            known = known * (n if n != -1 else 1)
        shape = tuple([self.shape[dim] // known if n == -1 else n for n in shape])
        inner = tuple([step * self.strides[dim] for step in _row_major(shape)])
        return self._copy(
            self.shape[:dim] + shape + self.shape[dim + 1 :],
            self.strides[:dim] + inner + self.strides[dim + 1 :],
        )

    def flatten_dims(self, start_dim: int, end_dim: int):
        length = 1
        for axis in range(start_dim, end_dim + 1):
            length = length * self.shape[axis]
            if axis < end_dim:
                kernel_assert(
                    self.strides[axis] == self.shape[axis + 1] * self.strides[axis + 1],
                    f"axes {start_dim} to {end_dim} of {self.shape} are not one",
                )
        return self._copy(
            self.shape[:start_dim] + (length,) + self.shape[end_dim + 1 :],
            self.strides[:start_dim] + (self.strides[end_dim],) + self.strides[end_dim + 1 :],
        )

    def rearrange(self, src: Tuple, dst: Tuple, sizes: Optional[Dict[str, int]] = None):
        """``rearrange(('p', ('h', 'w')), ('p', 'w', 'h'), {'h': 3})``."""
        view = self
        labels: List[str] = []
        for group in src:
            dim = len(labels)
            if isinstance(group, tuple):
                view = view.reshape_dim(
                    dim,
                    tuple([sizes[n] if sizes is not None and n in sizes else -1 for n in group]),
                )
                labels.extend(group)
            else:
                labels.append(group)
        flat = [n for group in dst for n in (group if isinstance(group, tuple) else (group,))]
        view = view.permute(tuple([labels.index(n) for n in flat]))
        dim = 0
        for group in dst:
            if isinstance(group, tuple) and len(group) > 1:
                view = view.flatten_dims(dim, dim + len(group) - 1)
            dim = dim + 1
        return view

    def reinterpret_cast(self, dtype):
        old, new = sizeinbytes(self.dtype), sizeinbytes(dtype)
        kernel_assert(self.strides[-1] == 1, "the last axis is not contiguous")
        shape = self.shape[:-1] + (self.shape[-1] * old // new,)
        strides = tuple([s * old // new for s in self.strides[:-1]]) + (1,)
        view = self._copy(shape, strides, self.offset * old // new)
        view.dtype = dtype
        return view

    def has_dynamic_access(self) -> bool:
        return self.scalar_offset is not None or getattr(self, "vector_offset", None) is not None

    def get_view(self) -> nl.ndarray:
        pattern = tuple([(step, count) for step, count in zip(self.strides, self.shape)])
        vector = getattr(self, "vector_offset", None)
        if vector is not None:
            return self.base_tensor.ap(
                pattern=pattern,
                offset=self.offset,
                vector_offset=vector,
                indirect_dim=0,
                dtype=self.dtype,
            )
        if self.scalar_offset is not None:
            return self.base_tensor.ap(
                pattern=pattern,
                offset=self.offset,
                scalar_offset=self.scalar_offset,
                indirect_dim=self.indirect_dim,
                dtype=self.dtype,
            )
        return self.base_tensor.ap(pattern=pattern, offset=self.offset, dtype=self.dtype)
