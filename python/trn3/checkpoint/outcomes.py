"""What `trn3.quantize_checkpoint` was asked for and what it did, as data."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

from trn3.checkpoint.formats import MXFormat
from trn3.checkpoint.statistics import ErrorStatistics
from trn3.offers import Reported

ScaleRule: TypeAlias = Literal["trn3", "ocp", "rceil"]
Rounding: TypeAlias = Literal["nearest", "zero", "stochastic"]


@dataclass(frozen=True, slots=True)
class QuantizationOptions:
    """How to quantize; `trn3.quantize_checkpoint` says what each means.

    Raises
    ------
    TypeError, ValueError
        If one is none of the values it takes.
    """

    scale_rule: ScaleRule | None = None
    rounding: Rounding = "nearest"
    seed: int = 0
    axis: int = -1
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    with_histogram: bool = False

    def __post_init__(self) -> None:
        for name, value, allowed in (
            ("scale_rule", self.scale_rule, (None, *get_args(ScaleRule))),
            ("rounding", self.rounding, get_args(Rounding)),
        ):
            if value not in allowed:
                message = f"{name} is {value!r}, must be one of {', '.join(map(repr, allowed))}"
                raise ValueError(message)
        for name in ("seed", "axis"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int):
                message = f"{name} is {value!r}, must be a whole number"
                raise TypeError(message)
        if not 0 <= self.seed < 2**64:
            message = f"seed is {self.seed}, must be from 0 to 2**64 - 1"
            raise ValueError(message)


@dataclass(slots=True)
class TensorReport:
    """What became of one tensor in one format. Seconds are those spent in `quantize_mx` alone."""

    name: str
    shape: tuple[int, ...]
    source_dtype: str
    source_bytes: int
    stored_bytes: int
    seconds: float = 0.0
    statistics: ErrorStatistics = field(default_factory=ErrorStatistics)


@dataclass(slots=True)
class FormatReport:
    """What became of the checkpoint in one format."""

    mx_format: MXFormat
    path: Path
    scale_rule: ScaleRule
    num_bytes: int = 0
    tensors: list[TensorReport] = field(default_factory=list)

    def total(self) -> TensorReport:
        """Return the sum over the quantized tensors."""
        total = TensorReport("total", (), "", 0, 0)
        for tensor in self.tensors:
            total.source_bytes += tensor.source_bytes
            total.stored_bytes += tensor.stored_bytes
            total.seconds += tensor.seconds
            total.statistics.merge(tensor.statistics)
        return total


@dataclass(slots=True)
class QuantizationReport(Reported):
    """What one run did."""

    source: Path
    source_bytes: int
    options: QuantizationOptions
    formats: list[FormatReport]
    passed_through: dict[str, str]
    seconds: float = 0.0

    def to_plain(self) -> dict[str, Any]:
        """Return plain data for JSON: sizes in bytes, times in seconds, no NaN or infinity."""
        options = self.options
        return {
            "source": str(self.source),
            "source_bytes": self.source_bytes,
            "seconds": self.seconds,
            "axis": options.axis,
            "rounding": options.rounding,
            "seed": options.seed if options.rounding == "stochastic" else None,
            "passed_through": [
                {"name": name, "reason": reason} for name, reason in self.passed_through.items()
            ],
            "outputs": [
                {
                    "path": str(written.path),
                    "format": written.mx_format.name,
                    "scale_rule": written.scale_rule,
                    "bytes": written.num_bytes,
                    "tensors": [_tensor_as_json(tensor) for tensor in written.tensors],
                    "total": _tensor_as_json(written.total()),
                }
                for written in self.formats
            ],
        }


def _tensor_as_json(tensor: TensorReport) -> dict[str, Any]:
    statistics = tensor.statistics
    sqnr = statistics.sqnr_db
    return {
        "name": tensor.name,
        "shape": list(tensor.shape),
        "source_dtype": tensor.source_dtype,
        "source_bytes": tensor.source_bytes,
        "stored_bytes": tensor.stored_bytes,
        "num_values": statistics.num_values,
        "bits_per_value": 8 * tensor.stored_bytes / statistics.num_values,
        "sqnr_db": sqnr if math.isfinite(sqnr) else None,
        "max_relative_error": statistics.max_relative_error,
        "saturated": statistics.num_saturated,
        "flushed": statistics.num_flushed,
        "nonfinite": statistics.num_nonfinite,
        "seconds": tensor.seconds,
    }
