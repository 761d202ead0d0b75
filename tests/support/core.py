"""One core driven by hand: arrays in, instructions, arrays out.

`Machine` sets and reads tiles from outside; `run` runs a function as a kernel, in which `put` and
`get` do the same.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Self

import numpy as np
from numpy.typing import NDArray

import trn3.nki.isa as nisa
import trn3.nki.language as nl
from support.engines import TYPES, cast
from trn3.machine import NeuronCore, NkiTensor
from trn3.nki import simulate
from trn3.nki.language.creation import ndarray
from trn3.nki.ranks.context import Context, Running, core
from trn3.nki.values.arrays import element_bytes, to_array
from trn3.nki.values.element_types import canonicalise_array
from trn3.nki.values.memory_regions import MemoryRegion
from trn3.nki.values.targets import figures_of

Array = np.ndarray[Any, Any]
ONE = np.zeros((1,), np.float32)
_BUFFERS: Final = {"sbuf": 0, "psum": 1, "hbm": 3}


class Machine:
    """One core whose kernel is the test; use as a context manager.

    `empty`, `tile`, `put` and `get` move values without instructions; `hbm`, `sbuf`, `psum` and
    `read` arrays, as the kernel under test would find them.
    """

    def __init__(self, arch: str = "trn3", **options: Any) -> None:
        self.core = NeuronCore(arch, **options)
        self._running = Running(Context(self.core, figures_of(arch), ()))
        self._count = 0

    def __enter__(self) -> Self:
        self._running.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._running.__exit__(*error)

    def empty(
        self,
        shape: tuple[int, ...],
        dtype: str = "float32",
        buffer: str = "sbuf",
        address: tuple[int, int] | None = None,
    ) -> NkiTensor:
        """Return a tile that nothing was written to."""
        self._count += 1
        name = f"t{self._count}"
        return self.core.allocate(list(shape), dtype, _BUFFERS[buffer], name, address)

    def tile(
        self,
        values: Any,
        dtype: str = "float32",
        buffer: str = "sbuf",
        address: tuple[int, int] | None = None,
    ) -> NkiTensor:
        """Return a tile that holds these values."""
        values = np.asarray(values)
        tile = self.empty(values.shape, dtype, buffer, address)
        self.put(tile, values)
        return tile

    def put(self, tile: NkiTensor, values: Any) -> None:
        """Set a tile's elements."""
        codes = cast(np.asarray(values), tile.dtype_name)
        self.core.write_bytes(tile, np.ascontiguousarray(codes).reshape(-1).view(np.uint8))

    def get(self, tile: NkiTensor) -> Any:
        """Return a tile's elements."""
        codes = self.core.read(tile)
        return codes.view(TYPES.get(tile.dtype_name, np.uint32)).reshape(tile.shape)

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
        values: Array = raw.view(kind).reshape(tensor.shape)
        return values

    def findings(self) -> list[str]:
        """Kinds of what was noticed."""
        return [finding["kind"] for finding in self.core.findings()]


def run(function: Callable[[], Any]) -> Any:
    """Run a function without arguments as a kernel; what it returns passes unchanged."""
    found: list[Any] = []
    simulate(lambda: found.append(function()))()
    return found[0]


def put(array: NDArray[Any], buffer: MemoryRegion = MemoryRegion.sbuf, name: str = "") -> NkiTensor:
    """Return a tensor that holds an array, without instructions."""
    tensor = ndarray(array.shape, canonicalise_array(array.dtype, "array"), buffer, name)
    core().write_bytes(tensor, element_bytes(array))
    return tensor


def get(tensor: NkiTensor) -> NDArray[Any]:
    """Return a tensor's values, without instructions."""
    return to_array(core(), tensor)[0]
