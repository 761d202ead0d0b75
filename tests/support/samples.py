"""Every way to run a sample kernel, and how near its result has to be."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from trn3 import nki

FLOATS = [np.float32, np.float16, ml_dtypes.bfloat16]


def normal(*shape: int, dtype: Any = np.float32, seed: int = 0) -> NDArray[Any]:
    """Return values of the normal distribution."""
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def wide(array: Any) -> NDArray[np.float64]:
    """Return an array in float64."""
    return np.asarray(array).astype(np.float64)


def near(got: Any, wanted: Any, dtype: Any = np.float32, factor: float = 1.0) -> None:
    """Compare with a reference, as closely as the element type allows."""
    assert got.dtype == dtype
    assert got.shape == wanted.shape
    tolerance = factor * (2e-2 if np.dtype(dtype).itemsize == 2 else 2e-5)
    np.testing.assert_allclose(wide(got), wide(wanted), rtol=tolerance, atol=tolerance)


def every_way(kernel: Any, *args: Any, **kwargs: Any) -> Any:
    """Return a kernel's result after seeing that all ways to run it agree.

    A call, `nki.simulate` and `nki.profile` give equal bits; a profile without values gives equal
    time, which is longer than none.
    """
    result = kernel(*args, **kwargs)
    profiled, profile = nki.profile(kernel, *args, **kwargs)
    for other in (nki.simulate(kernel)(*args, **kwargs), profiled):
        same_bits(other, result)
    skipped, timing = nki.profile(kernel, *args, values=False, **kwargs)
    assert skipped is None
    assert timing.latency_us == profile.latency_us > 0
    return result


def same_bits(one: Any, other: Any) -> None:
    """See that two results are the same arrays, bit for bit."""
    ours, theirs = (item if isinstance(item, tuple) else (item,) for item in (one, other))
    assert len(ours) == len(theirs)
    for a, b in zip(ours, theirs, strict=True):
        assert a.dtype == b.dtype
        assert a.shape == b.shape
        assert a.tobytes() == b.tobytes()
