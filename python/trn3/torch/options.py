"""What models of torch are run with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from trn3 import systems
from trn3.graph.run_options import RunOptions, refuse_other

__all__ = ["TorchOptions"]


@dataclass(frozen=True)
class TorchOptions(RunOptions):
    """How graphs of torch are run, and what their ranks stand on."""

    system: Any = None
    ranks_per_chip: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.system is not None:
            systems.as_system(self.system)

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> TorchOptions:
        """Check options that came by name."""
        allowed = [field.name for field in fields(cls)]
        for name in options:
            refuse_other("an option", name, allowed)
        return cls(**options)
