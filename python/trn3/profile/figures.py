"""The figures of a run, as the compiled core forms them."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from trn3._trn3 import profile as _profile
from trn3.profile.data import ENGINES, ProfileData
from trn3.profile.findings import Finding, PrecisionLoss
from trn3.profile.results import (
    BasisShare,
    Busy,
    CriticalStep,
    EngineName,
    EngineTotal,
    LatencyBasis,
    LineTotal,
    Roofline,
    Table,
    TableName,
)

if TYPE_CHECKING:
    import pandas as pd

FORMAT = "trn3-profile"
FORMAT_VERSION = 1


class RunFigures(_profile.Figures):
    """What one run of a kernel cost, and why: figures and tables, without files and pictures."""

    _run: _profile.Profile
    _data: ProfileData | None

    def __new__(cls, data: ProfileData) -> Self:
        """Form the figures of what a run recorded."""
        made = cls.of_run(_profile.Profile(data))
        made._data = data
        return made

    @classmethod
    def of_run(cls, run: _profile.Profile) -> Self:
        """Return the profile of a run that the compiled core holds."""
        made = _profile.Figures.__new__(cls, run)
        made._run, made._data = run, None
        return made

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.data,)

    def __repr__(self) -> str:
        count = self._run.instructions
        return f"<Profile of {self._run.kernel}: {self.latency_us:.3f} us, {count} instructions>"

    @property
    def data(self) -> ProfileData:
        """What the machine recorded."""
        if self._data is None:
            self._data = ProfileData.of_run(self._run)
        return self._data

    @property
    def cores(self) -> tuple[Self, ...]:
        """The profile of each core that ran: this one alone, unless the launch had several."""
        return (self,)

    @property
    def findings(self) -> list[Finding]:
        """What the run found to complain of; of several cores, ``core`` says on which."""
        return [Finding.taken(fields) for fields in self._run.findings()]

    @property
    def precision(self) -> tuple[PrecisionLoss, ...]:
        """What each line's instructions lost of their results' precision, worst first.

        Empty unless the run had a shadow: ``trn3.nki.profile(..., shadow=True)``.
        """
        return tuple(PrecisionLoss(**fields) for fields in self._run.precision())

    @property
    def latency_basis(self) -> LatencyBasis | None:
        """What the latency rests on: documented, measured and estimated figures of the machine.

        `latency_low_us` and `latency_high_us` follow from it. None of records that do not say.
        """
        fields = self._run.latency_basis()
        if fields is None:
            return None
        constants = tuple(BasisShare(**share) for share in fields["constants"])
        return LatencyBasis(**{**fields, "constants": constants})

    def roofline(self) -> Roofline:
        """Return where the kernel stands under the ceilings of the machine."""
        fields = self._run.roofline()
        return Roofline(**{**fields, "intensity": self.arithmetic_intensity})

    @cached_property
    def _engines(self) -> dict[str, EngineTotal]:
        return {fields["engine"]: EngineTotal(**fields) for fields in self._run.engines()}

    def engines(self) -> list[EngineTotal]:
        """Return what each engine did, in the order of `ENGINES`."""
        return list(self._engines.values())

    def _engine(self, engine: str) -> EngineTotal:
        if engine not in self._engines:
            message = f"engine is {engine!r}, must be one of {', '.join(ENGINES)}"
            raise ValueError(message)
        return self._engines[engine]

    def busy(self, engine: EngineName) -> Busy:
        """Return how long an engine held its issue slot; of ``dma``, how long any byte moved."""
        total = self._engine(engine)
        return Busy(total.busy_us, total.busy_share)

    def waits(self, engine: EngineName) -> dict[str, float]:
        """Return how long an engine stood waiting, by cause, in microseconds, longest first.

        Causes are those of `CAUSES`. Time before the first and after the last instruction is no
        wait. Of ``dma`` the waits of all queues are summed, and may exceed the latency.
        """
        return dict(self._engine(engine).waits)

    def critical_path(self) -> list[CriticalStep]:
        """Return the instructions that decide the latency, by rising start.

        Where a core waited for the other one, the path goes on there.
        """
        return [CriticalStep(*fields) for fields in self._run.critical_path()]

    def lines(self) -> list[LineTotal]:
        """Return what each line of the kernel cost, on all cores, costliest first.

        **(choice)** The costliest line holds most of the critical path, and among equals most time
        in issue slots: only the critical path, made shorter, makes the kernel faster.
        """
        return [LineTotal(**fields) for fields in self._run.lines()]

    def hbm_bytes_by_bin(self, edges_ps: NDArray[np.number[Any]]) -> NDArray[np.float64]:
        """Return the HBM bytes, read and written, that move between the edges, in picoseconds.

        An instruction's bytes are spread over its transfers by their size, and each transfer's
        evenly over its time; without transfers, over the time from start to end.
        """
        return self._run.hbm_bytes_by_bin(np.asarray(edges_ps, np.float64))

    def to_dict(self) -> dict[str, Any]:
        """Return figures and raw data as dicts, lists, strings and numbers, ready for JSON."""
        return {
            "format": FORMAT,
            "version": FORMAT_VERSION,
            "figures": self.figures(),
            "data": self.data.to_dict(),
        }

    def tables(self) -> dict[TableName, Table]:
        """Return tables with the names and columns of Neuron Explorer.

        ``Instruction``, ``DmaPacket``, ``DmaPacketAggregated`` (the packets of one instruction
        together), ``Summary``, ``Metadata`` (the machine), and what ``stack_frame_ids`` leads to:
        ``StackFrame``, ``StackFrameFileLocation``, ``StackFrameFileName``,
        ``StackFrameFunctionName``.

        Each table is a dict from column to array; of several cores, ``trn3_core`` says which one a
        row is of, and each core counts its instructions and packets from 0. Times are nanoseconds,
        as there, and seconds in ``Summary``. A column of theirs that the machine does not know is
        left out, never filled with a guess; columns of our own begin with ``trn3_``.
        """
        return {name: self.table(name) for name in _profile.TABLES}

    def to_dataframe(self, table: TableName = "Instruction") -> pd.DataFrame:
        """Return one of `tables` as a pandas data frame.

        Raises
        ------
        ImportError
            If pandas is not installed; `tables` needs none.
        """
        try:
            import pandas as pd
        except ImportError as error:
            message = (
                "to_dataframe needs pandas: pip install 'trn3[dataframe]'; tables() needs none"
            )
            raise ImportError(message) from error
        return pd.DataFrame(self.table(table))
