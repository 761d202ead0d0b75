"""What small kernels in the style of tutorials are run on, and compared with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import ml_dtypes
import numpy as np

from trn3.nki import language as modern
from trn3.nki.dialects.legacy import language as legacy
from trn3.nki.tensor import NkiTensor

_RNG: Final = np.random.default_rng(1)


def _normal(*shape: int) -> Any:
    return _RNG.standard_normal(shape).astype(np.float32)


X: Final = _normal(128, 64)
Y: Final = _normal(128, 64)
X3: Final = _normal(128, 4, 16)
X4: Final = _normal(128, 2, 4, 8)
X5: Final = _normal(64, 2, 3, 4, 5)
H6: Final = _normal(2, 3, 2, 4, 3, 5)
B: Final = _normal(4, 128, 64)
B16: Final = X.astype(ml_dtypes.bfloat16)
I: Final = _RNG.integers(-100, 100, (128, 64)).astype(np.int32)  # noqa: E741 as kernels call it


@dataclass(frozen=True)
class TutorialCase:
    """A kernel, its arguments and what NumPy makes of them; None: that it runs is enough."""

    kernel: Callable[..., Any]
    expected: Any
    arguments: tuple[Any, ...]
    tolerance: float
    launch: Callable[[Any], Any] | None

    def check(self, jit: Callable[[Any], Any]) -> None:
        """Run the kernel and compare."""
        copies = [each.copy() if isinstance(each, np.ndarray) else each for each in self.arguments]
        result = (self.launch or jit)(self.kernel)(*copies)
        if self.expected is None:
            return
        found, wanted = (np.asarray(each).astype(np.float64) for each in (result, self.expected))
        reach = self.tolerance
        np.testing.assert_allclose(found.ravel(), wanted.ravel(), rtol=reach, atol=reach)


#: The cases of each file of kernels, by its module's name.
CASES: Final[dict[str, list[TutorialCase]]] = {}


def case(
    expected: Any = None,
    args: tuple[Any, ...] = (X, Y),
    tol: float = 1e-5,
    launch: Callable[[Any], Any] | None = None,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Make a function a kernel to run."""

    def register(kernel: Callable[..., Any]) -> Callable[..., Any]:
        cases = CASES.setdefault(kernel.__module__, [])
        cases.append(TutorialCase(kernel, expected, args, tol, launch))
        return kernel

    return register


def stored(tile: Any, shape: Any = None, dtype: Any = None) -> Any:
    """Return a result that holds a tile, made in the tile's dialect."""
    nl: Any = modern if isinstance(tile, NkiTensor) else legacy
    out = nl.ndarray(shape or tile.shape, dtype=dtype or tile.dtype, buffer=nl.shared_hbm)
    nl.store(out, tile)
    return out
