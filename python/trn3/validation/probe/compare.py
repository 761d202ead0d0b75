"""What a machine's probes gave beside what trn3 computes, and entries of the register from it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from types import ModuleType
from typing import Any, Final, Literal

import numpy as np
import numpy.typing as npt

from trn3 import nki
from trn3.validation.imported import import_text, vendor_names
from trn3.validation.probe.kernels import Probe, probes, runner
from trn3.validation.probe.received import ProbeError, ProbeRecord, ProbeResult
from trn3.validation.rows import table

ProbeVerdict = Literal["equal", "differs", "not run"]
#: The test that shows entries made of probes.
TEST: Final = "tests/validation/test_silicon.py::test_verdicts_are_what_trn3_computes"


@dataclass(frozen=True, slots=True)
class ProbeOutcome:
    """A probe beside trn3.

    Attributes
    ----------
    probe
        The probe.
    verdict
        ``equal``: the same bits, or times within the tolerance of held-back measurements.
    detail
        Where it differs first, and in how much; or why it did not run.
    bits
        SHA-256 of the machine's outputs; None for times and what did not run.
    """

    probe: Probe
    verdict: ProbeVerdict
    detail: str
    bits: str | None = None


def _module(probe: Probe, chip: str) -> ModuleType:
    module = import_text(f"{probe.id}.py", probe.source)
    vars(module)["kernel"] = nki.jit(module.kernel.__wrapped__, platform_target=chip)
    return module


@cache
def expected(probe: Probe, chip: str) -> ProbeRecord:
    """Return what trn3 gives of a probe on a chip."""
    run, module = runner(), _module(probe, chip)
    try:
        with vendor_names():
            if hasattr(module, "CASES"):
                times, clock = run.times(module)
                return ProbeRecord(probe.digest, nanoseconds=times, clock=clock)
            return ProbeRecord(probe.digest, tuple(run.outputs(module)))
    except Exception as error:  # As on the machine, a refusal is a result.
        return ProbeRecord(probe.digest, error=f"{type(error).__name__}: {error}"[:200])


def _digest(outputs: Iterable[npt.NDArray[Any]]) -> str:
    found = hashlib.sha256()
    for array in outputs:
        found.update(f"{array.dtype} {array.shape}\n".encode() + array.tobytes())
    return found.hexdigest()


def bits_of(probe: Probe, chip: str) -> str:
    """Return the SHA-256 of the outputs that trn3 gives of a probe on a chip.

    Raises
    ------
    ProbeError
        If trn3 refuses it there.
    """
    record = expected(probe, chip)
    if record.error is not None:
        message = f"{probe.id} does not run on {chip}: {record.error}"
        raise ProbeError(message)
    return _digest(record.outputs)


def check(result: ProbeResult) -> Iterator[ProbeOutcome]:
    """Give each probe of a result beside trn3, in the order of the table.

    Raises
    ------
    ProbeError
        If the result has a probe that there is not, or of another text.
    """
    known = {probe.id: probe for probe in probes()}
    for name, record in result.records.items():
        if name not in known:
            message = f"probes.{name[:60]!r}: there is no such probe"
            raise ProbeError(message)
        if record.error is None and record.source != known[name].digest:
            message = f"probes.{name}: ran another text; write the folder anew with this trn3"
            raise ProbeError(message)
    for probe in known.values():
        if probe.id in result.records:
            yield _outcome(probe, result.records[probe.id], result.chip)


def _outcome(probe: Probe, found: ProbeRecord, chip: str) -> ProbeOutcome:
    wanted = expected(probe, chip)
    for record, whose in ((found, "there"), (wanted, "in trn3")):
        if record.error is not None:
            return ProbeOutcome(probe, "not run", f"{whose}: {record.error}")
    if wanted.nanoseconds:
        return _times(probe, found, wanted)
    forms = [[(a.dtype, a.shape) for a in record.outputs] for record in (found, wanted)]
    if forms[0] != forms[1]:
        message = f"probes.{probe.id}.outputs are not {', '.join(map(str, forms[1]))}"
        raise ProbeError(message)
    bits = _digest(found.outputs)
    for number, (here, there) in enumerate(zip(wanted.outputs, found.outputs, strict=True)):
        different = np.argwhere(_bits(here) != _bits(there))
        if len(different):
            place = tuple(map(int, different[0]))
            detail = (
                f"{len(different)} of {here.size}; first at output{number or ''}{list(place)}: "
                f"{_hex(there, place)}, in trn3 {_hex(here, place)}{_inputs(probe, here, place)}"
            )
            return ProbeOutcome(probe, "differs", detail, bits)
    return ProbeOutcome(probe, "equal", "", bits)


def _times(probe: Probe, found: ProbeRecord, wanted: ProbeRecord) -> ProbeOutcome:
    if found.nanoseconds.keys() != wanted.nanoseconds.keys():
        message = f"probes.{probe.id}.nanoseconds must have {', '.join(wanted.nanoseconds)}"
        raise ProbeError(message)
    tolerance = next(row.tolerance for row in table().rows if row.class_ == "hold")
    rates = {case: wanted.nanoseconds[case] / each for case, each in found.nanoseconds.items()}
    parts = [
        f"{case}: {found.nanoseconds[case]:.0f} ns, in trn3 {wanted.nanoseconds[case]:.0f}"
        for case in rates
    ]
    parts += ["by the host's clock"] if found.clock == "host" else []
    far = any(abs(rate - 1) > tolerance for rate in rates.values())
    return ProbeOutcome(probe, "differs" if far else "equal", "; ".join(parts))


def _bits(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    return np.ascontiguousarray(array).view(f"u{array.itemsize}")


def _hex(array: npt.NDArray[Any], place: Sequence[int]) -> str:
    return f"0x{int(_bits(array)[tuple(place)]):0{2 * array.itemsize}x}"


def _inputs(probe: Probe, output: npt.NDArray[Any], place: Sequence[int]) -> str:
    """Return what an element was made of: the inputs' elements, or else their rows."""
    arrays = import_text(f"{probe.id}.py", probe.source).inputs()
    said = [
        f"{name}{list(place)} = {_hex(array, place)}"
        if array.shape == output.shape
        else f"{name} of shape {list(array.shape)}"
        for name, array in zip("xy", arrays, strict=False)
    ]
    return f", of {', '.join(said)}"


def contribution(result: ProbeResult, outcomes: Iterable[ProbeOutcome]) -> str:
    """Return entries of ``silicon.toml`` for what ran; times stand in comments."""
    parts = []
    for outcome in outcomes:
        probe = outcome.probe
        if outcome.bits is None:
            parts.append(f"# {probe.id}, {result.chip}: {_ascii(outcome.detail or 'equal')}")
            continue
        fields = {
            "id": f"probe-{probe.id}-{result.chip}",
            "claim": probe.title,
            "chips": [result.chip],
            "source": f"trn3 probe on {result.description}",
            "verdict": outcome.verdict,
            "probe": probe.id,
            "bits": outcome.bits,
            "test": TEST,
        }
        lines = [f"{key} = {json.dumps(_ascii(value))}" for key, value in fields.items()]
        parts.append("\n".join(["[[claim]]", *lines]))
    return "\n\n".join(parts) + "\n"


def _ascii(value: Any) -> Any:
    return value.encode("ascii", "replace").decode() if isinstance(value, str) else value
