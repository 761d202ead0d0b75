import os
from typing import Any, ClassVar, final

import numpy as np
from numpy.typing import NDArray

from trn3._trn3 import MXArray

__all__ = [
    "HISTOGRAM_BINS",
    "HISTOGRAM_LIMIT",
    "CheckpointError",
    "ErrorStatistics",
    "SafetensorsFile",
]

HISTOGRAM_BINS: int
HISTOGRAM_LIMIT: float

class CheckpointError(ValueError): ...

@final
class SafetensorsFile:
    def __new__(cls, path: str | os.PathLike[str]) -> SafetensorsFile: ...
    @property
    def num_bytes(self) -> int: ...
    def metadata(self) -> list[tuple[str, str]]: ...
    def tensors(self) -> list[tuple[str, str, list[int], int, int]]: ...
    def read(self, start: int, into: NDArray[np.uint8], place: str) -> None: ...

@final
class ErrorStatistics:
    __hash__: ClassVar[None]  # type: ignore[assignment]
    def __new__(
        cls,
        num_values: int = 0,
        num_saturated: int = 0,
        num_flushed: int = 0,
        num_nonfinite: int = 0,
        signal: float = 0.0,
        noise: float = 0.0,
        max_relative_error: float = 0.0,
        histogram: NDArray[np.int64] | None = None,
    ) -> ErrorStatistics: ...
    @property
    def num_values(self) -> int: ...
    @property
    def num_saturated(self) -> int: ...
    @property
    def num_flushed(self) -> int: ...
    @property
    def num_nonfinite(self) -> int: ...
    @property
    def signal(self) -> float: ...
    @property
    def noise(self) -> float: ...
    @property
    def max_relative_error(self) -> float: ...
    @property
    def histogram(self) -> NDArray[np.int64] | None: ...
    @property
    def sqnr_db(self) -> float: ...
    def update(
        self, x: NDArray[Any], quantized: MXArray, *, largest: float, with_histogram: bool = False
    ) -> None: ...
    def merge(self, other: ErrorStatistics) -> None: ...
    def __eq__(self, other: object, /) -> bool: ...
    def __reduce__(self) -> tuple[Any, ...]: ...
