"""What tests of legacy kernels import from ``neuronxcc.starfish.support``."""

from __future__ import annotations

from typing import Any

import numpy as np

from trn3.nki.values.neuron_dtypes import bfloat16, static_cast

__all__ = ["allclose", "bfloat16", "static_cast"]


def allclose(
    a: Any, b: Any, rtol: float = 1e-5, atol: float = 1e-8, *, verbose: int = 0, **_: Any
) -> bool:
    """Return whether arrays agree within a tolerance, whatever their element types.

    Parameters
    ----------
    a, b : array
    rtol, atol : float, optional
        As of `numpy.allclose`.
    verbose : int, optional
        From 1 on, the largest difference is printed where they do not agree.
    """
    one, other = (np.asarray(static_cast(_array(x), np.float32)) for x in (a, b))
    agree = bool(np.allclose(one, other, rtol=rtol, atol=atol))
    if verbose and not agree and one.shape == other.shape:
        print(f"largest difference: {np.abs(one - other).max()}")  # noqa: T201
    return agree


def _array(value: Any) -> Any:
    """Return an array of NumPy; torch's narrow types are widened, which NumPy does not know."""
    if hasattr(value, "detach"):
        value = value.detach().cpu()
        value = value.float() if value.is_floating_point() else value
    return np.asarray(value)
