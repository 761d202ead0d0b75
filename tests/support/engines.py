"""Types and casts of the engines by NumPy alone, and values to try them on."""

from __future__ import annotations

from typing import Any, Final

import ml_dtypes
import numpy as np

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
