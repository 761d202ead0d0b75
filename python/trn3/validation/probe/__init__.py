"""Probes: small plain kernels that show what a chip computes, and what a result says beside trn3.

`write` makes a folder that runs where the vendor's software is, without trn3; `check` compares the
``result.json`` that comes back with what trn3 computes, and `contribution` prepares entries of the
register of real chips' bits (`trn3.validation.silicon`). ``trn3 probe`` is all of it on the command
line.

Examples
--------
>>> from trn3.validation import probe
>>> len(probe.probes())
40
>>> found = next(each for each in probe.probes() if each.id == "psum-width")
>>> found.title
'Whether ones survive beside 2^24 in PSUM'
>>> probe.bits_of(found, "trn3")[:8]
'45b022e6'
"""

from trn3.validation.probe.compare import (
    ProbeOutcome,
    bits_of,
    check,
    contribution,
    expected,
)
from trn3.validation.probe.kernels import Probe, probes, write
from trn3.validation.probe.received import ProbeError, ProbeResult, read

__all__ = [
    "Probe",
    "ProbeError",
    "ProbeOutcome",
    "ProbeResult",
    "bits_of",
    "check",
    "contribution",
    "expected",
    "probes",
    "read",
    "write",
]
