# The compiled core, documented by `trn3` and `trn3.numerics`. Its functions take arguments by position.

from typing import Any, final

import numpy as np
from numpy.typing import NDArray

__version__: str

@final
class TFloat32:
    @property
    def dtype(self) -> np.dtype[np.float32]: ...
    def __reduce__(self) -> str: ...

tfloat32: TFloat32

def set_num_threads(n: int, /) -> None: ...
def get_num_threads() -> int: ...
def simd_level() -> str: ...
def cast(
    x: NDArray[Any],
    dtype: Any,
    rounding: str,
    overflow: str,
    rng: NDArray[np.uint32] | None,
    out: NDArray[Any] | None,
    /,
) -> NDArray[Any]: ...
