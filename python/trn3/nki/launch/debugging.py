"""What the last run on this thread found to complain of."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trn3._trn3.machine import NeuronCore
    from trn3.profile.findings import Finding

__all__ = ["last_findings"]


class _Last(threading.local):
    found: list[Finding] | None = None


_last = _Last()


def note(cores: Sequence[Sequence[NeuronCore]]) -> None:
    """Remember what the cores of each rank found, in a run that is over."""
    records = [
        (rank, number, record)
        for rank, own in enumerate(cores)
        for number, core in enumerate(own)
        for record in core.findings()
    ]
    _last.found = []
    if not records:
        return
    # Reports need more imports than running kernels does.
    from trn3.profile.findings import Finding

    _last.found = [
        dataclasses.replace(
            Finding.of(record, number if len(cores[rank]) > 1 else None),
            rank=rank if len(cores) > 1 else None,
        )
        for rank, number, record in records
    ]


def last_findings() -> list[Finding]:
    """Return what the last kernel that ran on this thread found to complain of.

    Kernels that failed count too: what they found until then. `profile` gives the same list as
    ``profile.findings``. Where NaN and infinities come from is among them under `profile`, in
    strict runs, and with ``nki.simulate(kernel, nan_origin=True)``.

    Returns
    -------
    list of trn3.profile.Finding
        In the order in which they were found, core by core; empty before the first run.

    Examples
    --------
    >>> import numpy as np
    >>> from trn3 import nki
    >>> import trn3.nki.isa as nisa
    >>> import trn3.nki.language as nl
    >>> @nki.jit
    ... def inverse(x):
    ...     tile = nl.load(x)
    ...     nisa.reciprocal(tile, tile)
    ...     out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    ...     nl.store(out, tile)
    ...     return out
    >>> _ = nki.simulate(inverse, nan_origin=True)(np.array([[1.0, 0.0]], np.float32))
    >>> [(found.kind, found.instruction, found.element) for found in nki.last_findings()]
    [('infinity_origin', 'reciprocal', (0, 1))]
    """
    return list(_last.found or ())
