# The compiler, as the front ends use it.

from collections.abc import Mapping, Sequence
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from trn3._trn3.machine import NeuronCore, NkiTensor

__all__ = [
    "RunAdvice", "advise", "compile_cores", "compile_program", "levels", "passes", "verify_cores",
    "words",
]  # fmt: skip

@final
class RunAdvice:
    def report(self) -> dict[str, Any]: ...
    def combined(self, chosen: Sequence[int]) -> list[float | None]: ...

def advise(
    cores: Sequence[NeuronCore],
    file: str,
    loops: Sequence[Sequence[tuple[int, int]]],
    named: Mapping[int, bool] | None = None,
) -> RunAdvice: ...
def compile_cores(
    cores: Sequence[NeuronCore],
    level: str,
    passes: Sequence[str] | None = None,
    verify: bool = False,
    live: bool = False,
    constants: Mapping[str, float] | None = None,
) -> list[dict[str, Any]]: ...
def compile_program(
    program: str,
    arch: str,
    level: str,
    passes: Sequence[str] | None = None,
    inputs: Sequence[tuple[str, NDArray[np.uint8]]] | None = None,
    verify: bool = False,
) -> tuple[str, dict[str, Any]]: ...
def levels() -> list[str]: ...
def passes(level: str | None = None) -> list[str]: ...
def verify_cores(
    cores: Sequence[NeuronCore], level: str, results: Sequence[tuple[str, NkiTensor]]
) -> dict[str, int]: ...
def words(
    kind: str,
    lines: Sequence[int],
    engines: Sequence[Sequence[str]],
    tensors: Sequence[str],
    before: int | None,
) -> tuple[str, str]: ...
