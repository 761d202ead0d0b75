"""A ``result.json`` from elsewhere: read, and refused where it is not what the runner writes."""

from __future__ import annotations

import base64
import binascii
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import ml_dtypes
import numpy as np
import numpy.typing as npt

from trn3.text import printable

#: All outputs together are 20 MB of base64; a larger file is no result.
MAX_BYTES: Final = 1 << 27
#: No item of a probe takes an hour.
MAX_NANOSECONDS: Final = 1 << 42
CHIPS: Final = ("trn1", "trn2", "trn3")
TYPES: Final = {
    str(np.dtype(kind)): np.dtype(kind)
    for kind in (np.float32, np.float16, np.int32, np.uint8, ml_dtypes.bfloat16,
                 ml_dtypes.float8_e4m3, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2)
}  # fmt: skip


class ProbeError(ValueError):
    """A folder cannot be made or a result cannot be read; the text says where and why."""


@dataclass(frozen=True, slots=True)
class ProbeRecord:
    """What one probe gave: outputs, times, or why neither."""

    source: str
    outputs: tuple[npt.NDArray[Any], ...] = ()
    nanoseconds: Mapping[str, float] = field(default_factory=dict)
    clock: str = "device"
    error: str | None = None


@dataclass(frozen=True, slots=True)
class ProbeResult:
    """What a machine gave: its chip, its description and its records by probe."""

    chip: str
    description: str
    records: Mapping[str, ProbeRecord]


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        message = "a key comes twice"
        raise ProbeError(message)
    return found


def _constant(name: str) -> Any:
    message = f"{name} is no number"
    raise ProbeError(message)


def _typed(value: Any, kind: type, what: str) -> Any:
    if not isinstance(value, kind) or isinstance(value, bool):
        message = f"{what} is {type(value).__name__}, must be {kind.__name__}"
        raise ProbeError(message)
    return value


def _member(of: Mapping[str, Any], key: str, kind: type, what: str) -> Any:
    if key not in of:
        message = f"{what} has no {key}"
        raise ProbeError(message)
    return _typed(of[key], kind, f"{what}.{key}")


def read(path: Path) -> ProbeResult:
    """Return what a ``result.json`` holds.

    Raises
    ------
    ProbeError
        If it is not what the runner writes; the text says where.
    OSError
        If it cannot be read.
    """
    with path.open("rb") as file:
        content = file.read(MAX_BYTES + 1)
    try:
        if len(content) > MAX_BYTES:
            message = f"more than {MAX_BYTES} bytes"
            raise ProbeError(message)
        document = json.loads(content, object_pairs_hook=_unique, parse_constant=_constant)
        return _result(_typed(document, dict, "the document"))
    except (ValueError, RecursionError) as error:
        message = f"{path}: no result of probes: {printable(str(error))[:200]}"
        raise ProbeError(message) from error


def _result(document: Mapping[str, Any]) -> ProbeResult:
    for key, wanted in (("format", "trn3-probe-result"), ("version", 1)):
        if document.get(key) != wanted:
            message = f"{key} must be {wanted}"
            raise ProbeError(message)
    machine = _member(document, "machine", dict, "document")
    chip = _member(machine, "chip", str, "machine")
    if chip not in CHIPS:
        message = f"machine.chip is {chip[:40]!r}; allowed: {', '.join(CHIPS)}"
        raise ProbeError(message)
    versions = _member(document, "versions", dict, "document")
    words = [_typed(machine.get("product") or "unnamed machine", str, "machine.product")]
    words += [
        f"{name} {_typed(version, str, 'a version')}"
        for name, version in versions.items()
        if name != "python"
    ]
    probes = _member(document, "probes", dict, "document")
    records = {name: _record(entry, f"probes.{name[:60]}") for name, entry in probes.items()}
    return ProbeResult(chip, printable(", ".join(words))[:300], records)


def _record(entry: Any, what: str) -> ProbeRecord:
    _typed(entry, dict, what)
    source = _member(entry, "source", str, what)
    if "error" in entry:
        error = " ".join(_member(entry, "error", str, what).split())
        return ProbeRecord(source, error=printable(error)[:200])
    if "nanoseconds" in entry:
        times = _member(entry, "nanoseconds", dict, what)
        for case, value in times.items():
            if type(value) not in {int, float} or not 0 < value < MAX_NANOSECONDS:
                message = f"{what}.nanoseconds.{case[:40]} must be a positive number"
                raise ProbeError(message)
        clock = _member(entry, "clock", str, what)
        if clock not in {"device", "host"}:
            message = f"{what}.clock is {clock[:40]!r}; allowed: device, host"
            raise ProbeError(message)
        return ProbeRecord(source, nanoseconds=dict(times), clock=clock)
    outputs = _member(entry, "outputs", list, what)
    return ProbeRecord(source, tuple(_array(each, f"{what}.outputs") for each in outputs))


def _array(entry: Any, what: str) -> npt.NDArray[Any]:
    _typed(entry, dict, what)
    name = _member(entry, "dtype", str, what)
    if name not in TYPES:
        message = f"{what}.dtype is {name[:40]!r}; allowed: {', '.join(TYPES)}"
        raise ProbeError(message)
    shape = _member(entry, "shape", list, what)
    if len(shape) > 8 or any(type(size) is not int or not 0 <= size <= 1 << 20 for size in shape):
        message = f"{what}.shape must be up to eight lengths"
        raise ProbeError(message)
    try:
        bits = base64.b64decode(_member(entry, "bits", str, what), validate=True)
    except binascii.Error as error:
        message = f"{what}.bits is no base64"
        raise ProbeError(message) from error
    if len(bits) != math.prod(shape) * TYPES[name].itemsize:
        message = f"{what}.bits has {len(bits)} bytes, not those of {name} {shape}"
        raise ProbeError(message)
    return np.frombuffer(bits, np.uint8).view(TYPES[name]).reshape(shape)
