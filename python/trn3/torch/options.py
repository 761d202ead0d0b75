"""What models of torch are run with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from trn3 import compiler, systems
from trn3.graph import matmul_paths
from trn3.machine import arch as find_arch

__all__ = ["TorchOptions", "refuse_other"]

_MODES = ("auto", "instructions", "operations")


@dataclass(frozen=True)
class TorchOptions:
    """How graphs of torch are run; the words are those of `trn3.torch.compile`."""

    arch: Any = None
    cores: int = 1
    mode: str = "auto"
    matmul: str | None = None
    compile: str | None = None
    system: Any = None
    ranks_per_chip: int | None = None

    def __post_init__(self) -> None:
        if self.arch is not None:
            find_arch(self.arch)
        if self.system is not None:
            systems.as_system(self.system)
        refuse_other("cores", self.cores, [1, 2])
        refuse_other("mode", self.mode, list(_MODES))
        refuse_other("matmul", self.matmul, [None, *matmul_paths()])
        refuse_other("compile", self.compile, [None, *compiler.levels()])
        if self.mode == "instructions" and self.cores != 1:
            message = f"cores is {self.cores} with mode='instructions'; allowed: 1"
            raise NotImplementedError(message)

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> TorchOptions:
        """Check options that came by name."""
        allowed = [field.name for field in fields(cls)]
        for name in options:
            refuse_other("an option", name, allowed)
        return cls(**options)


def refuse_other(argument: str, came: object, allowed: list[Any]) -> None:
    """Refuse what is none of what is allowed."""
    if came not in allowed:
        names = ", ".join(map(repr, allowed))
        raise ValueError(f"{argument} is {came!r}; allowed: {names}")
