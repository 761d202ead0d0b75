"""How a graph is run, as users of every front end say it."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from trn3 import compiler
from trn3._trn3.graph import matmul_paths
from trn3.machine import arch as find_arch

__all__ = ["RunOptions", "refuse_other"]

_MODES = ("auto", "instructions", "operations")


def refuse_other(argument: str, came: object, allowed: Collection[object]) -> None:
    """Refuse what is none of what is allowed.

    Examples
    --------
    >>> refuse_other("cores", 3, [1, 2])
    Traceback (most recent call last):
    ValueError: cores is 3; allowed: 1, 2
    """
    if came not in allowed:
        names = ", ".join(map(repr, allowed))
        raise ValueError(f"{argument} is {came!r}; allowed: {names}")


@dataclass(frozen=True)
class RunOptions:
    """How graphs are run; the words are those of `trn3.jax.compile` and `trn3.torch.compile`.

    Raises
    ------
    ValueError
        If one is none of what is allowed.

    Examples
    --------
    >>> options = RunOptions(matmul="bf16")
    >>> options.way, options.path, options.level
    ('operations', 'bf16', 'neuronx-cc')
    """

    arch: Any = None
    cores: int = 1
    mode: str = "auto"
    matmul: str | None = None
    compile: str | None = None

    def __post_init__(self) -> None:
        if self.arch is not None:
            find_arch(self.arch)
        refuse_other("cores", self.cores, [1, 2])
        refuse_other("mode", self.mode, _MODES)
        refuse_other("matmul", self.matmul, [None, *matmul_paths()])
        refuse_other("compile", self.compile, [None, *compiler.levels()])

    @property
    def way(self) -> str:
        """Whether ``operations`` or ``instructions`` run."""
        return "instructions" if self.mode == "instructions" else "operations"

    @property
    def path(self) -> str:
        """Arithmetic of products, of `trn3.graph.matmul_paths`."""
        return self.matmul or "as_typed"

    @property
    def level(self) -> str:
        """Level of the compiler."""
        return self.compile or "neuronx-cc"
