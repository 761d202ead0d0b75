"""A core with tiles set and read from outside, and the casts of its engines by NumPy alone."""

from __future__ import annotations

from typing import Any, Final, Self

import ml_dtypes
import numpy as np

import trn3.nki.language  # noqa: F401  (registers the tokens of operators)
from trn3._trn3.machine import NeuronCore, NkiTensor
from trn3.nki.context import Context, Running
from trn3.nki.targets import figures_of

#: NumPy types by the machine's names.
TYPES: Final[dict[str, Any]] = {
    "float32": np.float32,
    "bfloat16": ml_dtypes.bfloat16,
    "float16": np.float16,
    "float8_e4m3": ml_dtypes.float8_e4m3,
    "float8_e4m3fn": ml_dtypes.float8_e4m3fn,
    "float8_e5m2": ml_dtypes.float8_e5m2,
    "int8": np.int8,
    "uint8": np.uint8,
    "int16": np.int16,
    "uint16": np.uint16,
    "int32": np.int32,
    "uint32": np.uint32,
}
FLOATS: Final = [name for name in TYPES if "float" in name]
INTEGERS: Final = [name for name in TYPES if "int" in name]
_BUFFERS: Final = {"sbuf": 0, "psum": 1, "hbm": 3}


class Machine:
    """One core whose kernel is the test; use as a context manager."""

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


def cast(values: np.ndarray[Any, Any], dtype: str) -> Any:
    """Round as the engines do: floats to nearest, integers to nearest even and into range."""
    target = TYPES.get(dtype)
    if target is None or values.dtype == target:
        return values
    if dtype in INTEGERS and values.dtype.kind not in "iub":
        limits = np.iinfo(target)
        wide = np.nan_to_num(np.rint(values.astype(np.float64)), nan=0.0, posinf=1e30, neginf=-1e30)
        return np.clip(wide, limits.min, limits.max).astype(target)
    if dtype in INTEGERS:
        return values.astype(target)
    with np.errstate(over="ignore", invalid="ignore"):
        return values.astype(np.float32).astype(target)


def widen(values: np.ndarray[Any, Any]) -> np.ndarray[Any, np.dtype[np.float32]]:
    """Values as an engine reads them."""
    wide: np.ndarray[Any, np.dtype[np.float32]] = values.astype(np.float32)
    return wide


def assert_same(got: np.ndarray[Any, Any], expected: np.ndarray[Any, Any]) -> None:
    """Bit equality; all NaN are one."""
    assert got.dtype == expected.dtype
    assert got.size == expected.size
    got, expected = got.reshape(-1), expected.reshape(-1)
    same = got.view(f"u{got.itemsize}") == expected.view(f"u{got.itemsize}")
    if got.dtype.kind not in "iub":
        same |= np.isnan(got.astype(np.float32)) & np.isnan(expected.astype(np.float32))
    wrong = np.flatnonzero(~same)
    assert not wrong.size, (
        f"{wrong.size} differ, first {wrong[0]}: {got[wrong[0]]} for {expected[wrong[0]]}"
    )


def sample(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> Any:
    """Random elements of a type, small enough for its products."""
    if dtype in INTEGERS:
        limits = np.iinfo(TYPES[dtype])
        low, high = max(limits.min, -(2**15)), min(limits.max, 2**15)
        return rng.integers(low, high, shape, endpoint=True).astype(TYPES[dtype])
    return cast(rng.normal(0, 2, shape).astype(np.float32), dtype)


def cases(*rows: Any) -> Any:
    """Give rows of a table of calls back; what they hold is no two times of one type."""
    return rows
