# The compiler, as the front ends use it.

from collections.abc import Sequence
from typing import Any

from trn3._trn3.machine import NeuronCore

__all__ = ["compile_cores", "levels", "passes"]

def compile_cores(
    cores: Sequence[NeuronCore],
    level: str,
    passes: Sequence[str] | None = None,
    verify: bool = False,
    live: bool = False,
) -> list[dict[str, Any]]: ...
def levels() -> list[str]: ...
def passes(level: str | None = None) -> list[str]: ...
