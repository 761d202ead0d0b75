"""What a kernel of this corpus is run on, and compared with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import ml_dtypes
import numpy as np

BF16: Final = ml_dtypes.bfloat16
F32: Final = np.float32
Shapes = dict[str, tuple[tuple[int, ...], Any]]


@dataclass(frozen=True)
class PlainCase:
    """A kernel, its arguments at three sizes and what NumPy makes of them."""

    kernel: Any
    #: Sizes at which it fits as written and values take no time.
    small: dict[str, int]
    #: Sizes at which it was meant to run.
    real: dict[str, int]
    #: The smallest sizes of interest at which it does not fit as written; `real` if None.
    tight: dict[str, int] | None
    #: From sizes: of each argument, shape and element type.
    shapes: Callable[..., Shapes]
    golden: Callable[..., Any]
    tolerance: float
    #: Replaces some of the normal numbers that arguments are made of.
    fill: Callable[..., dict[str, Any]] | None
    #: What is too small as written at the real sizes, of trn1 and trn2: "sbuf", "psum" or None.
    lacks: tuple[str | None, str | None]

    @property
    def name(self) -> str:
        """The kernel's own."""
        return str(self.kernel.__name__)

    def arguments(self, sizes: dict[str, int], *, values: bool = True) -> dict[str, Any]:
        """Return arguments of these sizes; without `values` zeros, which take no memory."""
        shapes = self.shapes(**sizes)
        if not values:
            return {name: np.zeros(shape, dtype) for name, (shape, dtype) in shapes.items()}
        rng = np.random.default_rng(0)
        made = {
            name: rng.standard_normal(shape, dtype=np.float32).astype(dtype)
            for name, (shape, dtype) in shapes.items()
        }
        if self.fill is not None:
            for name, array in self.fill(rng, **sizes).items():
                made[name] = np.asarray(array).astype(shapes[name][1])
        return made

    def check(self, results: Any, arguments: dict[str, Any]) -> None:
        """Compare with NumPy in float64."""
        wide = {
            name: array if np.issubdtype(array.dtype, np.integer) else array.astype(np.float64)
            for name, array in arguments.items()
        }
        wanted = self.golden(**wide)
        if not isinstance(wanted, tuple):
            wanted, results = (wanted,), (results,)
        assert len(results) == len(wanted)
        for found, want in zip(results, wanted, strict=True):
            assert found.shape == want.shape
            scale = np.abs(want).max()
            off = np.abs(found.astype(np.float64) - want).max()
            assert off <= self.tolerance * scale, f"{off / scale:.2e} of the largest"


#: All cases, in the order of the files.
CASES: Final[list[PlainCase]] = []


def case(
    *,
    small: dict[str, int],
    real: dict[str, int],
    shapes: Callable[..., Shapes],
    golden: Callable[..., Any],
    tolerance: float = 1e-5,
    tight: dict[str, int] | None = None,
    fill: Callable[..., dict[str, Any]] | None = None,
    lacks: tuple[str | None, str | None] = (None, None),
) -> Callable[[Any], Any]:
    """Add a kernel to the corpus."""

    def add(kernel: Any) -> Any:
        CASES.append(PlainCase(kernel, small, real, tight, shapes, golden, tolerance, fill, lacks))
        return kernel

    return add
