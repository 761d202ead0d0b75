"""What ``trn3 quantize`` was asked for and what it did, as data."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias

from trn3.checkpoint import MXFormat
from trn3.cli.statistics import ErrorStatistics

ScaleRule: TypeAlias = Literal["trn3", "ocp", "rceil"]
Rounding: TypeAlias = Literal["nearest", "zero", "stochastic"]


@dataclass(frozen=True, slots=True)
class Options:
    """How to quantize; names and defaults are those of the command line."""

    scale_rule: ScaleRule | None = None
    rounding: Rounding = "nearest"
    seed: int = 0
    axis: int = -1
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    with_histogram: bool = False


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
class Report:
    """What one run did."""

    source: Path
    source_bytes: int
    options: Options
    formats: list[FormatReport]
    passed_through: dict[str, str]
    seconds: float = 0.0


def as_json(report: Report) -> dict[str, Any]:
    """Return a report as plain data; sizes in bytes, times in seconds, no NaN or infinity."""
    options = report.options
    return {
        "source": str(report.source),
        "source_bytes": report.source_bytes,
        "seconds": report.seconds,
        "axis": options.axis,
        "rounding": options.rounding,
        "seed": options.seed if options.rounding == "stochastic" else None,
        "passed_through": [
            {"name": name, "reason": reason} for name, reason in report.passed_through.items()
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
            for written in report.formats
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
