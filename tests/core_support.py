"""One core driven by hand: arrays in, instructions, arrays out."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

import trn3.nki.isa as nisa
import trn3.nki.language as nl
from trn3.machine import NeuronCore
from trn3.nki.context import Context, Running
from trn3.nki.targets import figures_of

Array = np.ndarray[Any, Any]


class Machine:
    """A core whose memories are filled and read without instructions of the kernel under test."""

    def __init__(self, arch: str, **options: Any) -> None:
        self.core = NeuronCore(arch, **options)

    def tensor(self, shape: Any, dtype: Any, buffer: Any = nl.sbuf, **options: Any) -> Any:
        """Allocate."""
        return nl.ndarray(tuple(shape), dtype, buffer=buffer, **options)

    def hbm(self, array: Array, dtype: Any = None) -> Any:
        """Put an array into HBM; `dtype` is what its bytes are, if NumPy has no word for it."""
        array = np.ascontiguousarray(array)
        name = str(array.dtype if dtype is None else dtype)
        name = "bool" if name == "bool_" else name
        raw = array.reshape(-1).view(np.uint8)
        return self.core.input(raw, list(array.shape), name, 3, "input")

    def sbuf(self, array: Array, dtype: Any = None, **options: Any) -> Any:
        """Put an array into SBUF, bit for bit."""
        source = self.hbm(array, dtype)
        tile = self.tensor(array.shape, dtype or array.dtype, **options)
        nisa.dma_copy(tile, source)
        return tile

    def psum(self, array: Array, **options: Any) -> Any:
        """Put an array into PSUM with VectorE, which is no matmul."""
        tile = self.tensor(array.shape, array.dtype, nl.psum, **options)
        nisa.tensor_copy(tile, self.sbuf(array))
        return tile

    def read(self, tensor: Any, dtype: Any = None) -> Array:
        """Read a tensor's elements, uninitialised ones as their sentinel."""
        raw = np.asarray(self.core.read(tensor))
        kind = np.dtype(dtype) if dtype is not None else np.dtype(tensor.dtype)
        return raw.view(kind).reshape(tensor.shape)

    def findings(self) -> list[str]:
        """Kinds of what was noticed."""
        return [finding["kind"] for finding in self.core.findings()]


@contextmanager
def machine(arch: str = "trn3", **options: Any) -> Iterator[Machine]:
    """Make a core this thread's kernel core."""
    made = Machine(arch, **options)
    with Running(Context(made.core, figures_of(arch), ())):
        yield made
