"""What the machine records of a run, as arrays: the one thing that every figure is made from."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from trn3._trn3 import profile as _profile
from trn3.profile.results import EngineName

Array: TypeAlias = NDArray[np.unsignedinteger[Any]]

#: Engines, by the number that stands for them in `Instructions.engine`.
ENGINES: tuple[EngineName, ...] = _profile.ENGINES
#: The engine number of DMA; all others are in-order streams of their own.
DMA = ENGINES.index("dma")
#: What an instruction waited for, by the number that stands for it in `Instructions.cause`.
CAUSES: tuple[str, ...] = _profile.CAUSES
#: What bound the start of an instruction, by the number that stands for it in `Instructions.bound`.
BOUNDS: tuple[str, ...] = _profile.BOUNDS
#: `Instructions.waited_on` of an instruction that waited for no other.
NO_INSTRUCTION: int = _profile.NO_INSTRUCTION
#: Times stay exact in every JSON reader; this is two and a half hours.
MAX_PICOSECONDS = 2**53 - 1

Columns = TypeVar("Columns", "Instructions", "Transfers")

# The dtype of an array field, for its declaration.
U8 = {"dtype": np.dtype(np.uint8)}
U16 = {"dtype": np.dtype(np.uint16)}
U32 = {"dtype": np.dtype(np.uint32)}
U64 = {"dtype": np.dtype(np.uint64)}


#: A column that older records have not.
_UNSAID: Any = None


def as_column(name: str, value: Any, dtype: np.dtype[Any]) -> Array:
    """Return `value` as a read-only array of one axis, checked: no value may change.

    Raises
    ------
    TypeError
        If it does not hold whole numbers.
    ValueError
        If it has not one axis, or a value that `dtype` does not hold.
    """
    array = np.asarray(value)
    if array.ndim != 1:
        message = f"{name}: shape {array.shape}, must have one axis"
        raise ValueError(message)
    if array.size and array.dtype.kind not in "iu":
        message = f"{name}: dtype {array.dtype}, must be {dtype} or other whole numbers"
        raise TypeError(message)
    if array.size and array.dtype != dtype:
        lowest, highest = int(array.min()), int(array.max())
        if lowest < 0 or highest > np.iinfo(dtype).max:
            message = f"{name}: values from {lowest} to {highest}, must fit {dtype}"
            raise ValueError(message)
    # A view, so that the owner of the memory keeps the right to write to it.
    array = array.astype(dtype, copy=False).view()
    array.flags.writeable = False
    return array


def _take_columns(owner: Any, what: str) -> None:
    """Make every array field of a frozen dataclass a column of its dtype."""
    for declared in dataclasses.fields(owner):
        if "dtype" in declared.metadata:
            name = f"{what}.{declared.name}"
            array = as_column(name, getattr(owner, declared.name), declared.metadata["dtype"])
            object.__setattr__(owner, declared.name, array)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Instructions:
    """Every instruction, in program order: arrays of one length.

    Attributes
    ----------
    opcode, label, site
        Places in `ProfileData.opcodes`, `labels` and `sites`.
    engine
        Place in `ENGINES`.
    queue
        DMA queue; 0 on other engines.
    start_ps, slot_end_ps, end_ps
        When it started, until when it held its issue slot, and when its result was visible, in
        picoseconds from the start of the busy window.
    wait_ps
        How long its in-order stream stood idle before it, waiting, in picoseconds.
    cause
        Place in `CAUSES`: what the wait was for.
    waited_on
        The instruction waited for, or `NO_INSTRUCTION`.
    ready_ps
        When its operands, and room for its results, were there, in picoseconds; where nobody says,
        `start_ps`.
    bound
        Place in `BOUNDS`: what bound its start; where nobody says, nothing.
    dma_bytes, hbm_read, hbm_write
        Bytes moved, read from HBM and written to HBM.
    macs
        Multiply-accumulate operations of a matmul.
    peak_macs_per_cycle
        How many the whole array does in a cycle in this matmul's element type.
    """

    opcode: NDArray[np.uint16] = field(metadata=U16)
    engine: NDArray[np.uint8] = field(metadata=U8)
    queue: NDArray[np.uint16] = field(metadata=U16)
    site: NDArray[np.uint32] = field(metadata=U32)
    label: NDArray[np.uint32] = field(metadata=U32)
    start_ps: NDArray[np.uint64] = field(metadata=U64)
    slot_end_ps: NDArray[np.uint64] = field(metadata=U64)
    end_ps: NDArray[np.uint64] = field(metadata=U64)
    wait_ps: NDArray[np.uint64] = field(metadata=U64)
    cause: NDArray[np.uint8] = field(metadata=U8)
    waited_on: NDArray[np.uint32] = field(metadata=U32)
    dma_bytes: NDArray[np.uint64] = field(metadata=U64)
    hbm_read: NDArray[np.uint64] = field(metadata=U64)
    hbm_write: NDArray[np.uint64] = field(metadata=U64)
    macs: NDArray[np.uint64] = field(metadata=U64)
    peak_macs_per_cycle: NDArray[np.uint64] = field(metadata=U64)
    ready_ps: NDArray[np.uint64] = field(default=_UNSAID, metadata=U64)
    bound: NDArray[np.uint8] = field(default=_UNSAID, metadata=U8)

    def __post_init__(self) -> None:
        if self.ready_ps is _UNSAID:
            object.__setattr__(self, "ready_ps", self.start_ps)
        if self.bound is _UNSAID:
            object.__setattr__(self, "bound", np.zeros(len(self.start_ps), np.uint8))
        _take_columns(self, "instructions")
        _profile.check_instructions(self)

    def check_waits(self) -> None:
        """Refuse waits longer than the gap they fill; waits of DMA queues may overlap."""
        _profile.check_waits(self)

    def __len__(self) -> int:
        return len(self.start_ps)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Transfers:
    """What the DMA engines did for each DMA instruction: arrays of one length.

    Attributes
    ----------
    instruction
        Place in `Instructions`.
    dma_engine
        Which DMA engine moved the bytes.
    start_ps, end_ps
        When, in picoseconds from the start of the busy window.
    bytes
        How many.
    """

    instruction: NDArray[np.uint32] = field(metadata=U32)
    dma_engine: NDArray[np.uint16] = field(metadata=U16)
    start_ps: NDArray[np.uint64] = field(metadata=U64)
    end_ps: NDArray[np.uint64] = field(metadata=U64)
    bytes: NDArray[np.uint64] = field(metadata=U64)

    def __post_init__(self) -> None:
        _take_columns(self, "transfers")
        _profile.check_transfers(self)

    def __len__(self) -> int:
        return len(self.start_ps)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Occupancy:
    """Bytes in use of each partition of SBUF and PSUM, from each time to the next.

    Attributes
    ----------
    time_ps
        Times, never falling, in picoseconds from the start of the busy window.
    sbuf_bytes, psum_bytes
        Bytes of one partition in use from then on.
    sbuf_peak_bytes, psum_peak_bytes
        The most that ever was in use.
    """

    time_ps: NDArray[np.uint64] = field(metadata=U64)
    sbuf_bytes: NDArray[np.uint64] = field(metadata=U64)
    psum_bytes: NDArray[np.uint64] = field(metadata=U64)
    sbuf_peak_bytes: int
    psum_peak_bytes: int

    def __post_init__(self) -> None:
        _take_columns(self, "occupancy")
        for name in ("sbuf_peak_bytes", "psum_peak_bytes"):
            peak = _whole(f"occupancy.{name}", getattr(self, name))
            object.__setattr__(self, name, peak)
        _profile.check_occupancy(self)


def _whole(name: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
        message = f"{name} is {value!r}, must be a whole number"
        raise TypeError(message)
    if not 0 <= value <= MAX_PICOSECONDS:
        message = f"{name} is {value}, must be from 0 to {MAX_PICOSECONDS}"
        raise ValueError(message)
    return int(value)


class _OfRun:
    """Room for the run that data are of, beside their fields."""

    __slots__ = ("_run",)


#: Fields that are made when they are first asked for, of the run: how long that takes may be more
#: than the run itself took, and few ask.
_MADE_LATE = ("recorded", "advice")


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class ProfileData(_OfRun):
    """One run of a kernel on one core, as the machine records it.

    Attributes
    ----------
    arch
        The machine: ``name`` and the numbers that figures are measured against, as in the machine's
        description; more entries are kept as they are.
        ``hbm_gbps`` is the HBM bandwidth that the core may draw on, in 10^9 bytes a second.
    kernel
        Name of the kernel.
    latency_ps
        The busy window: from the first instruction's start to the last result, in picoseconds.
    overhead_ps
        What starting and ending a kernel costs beside it.
    opcodes, labels
        Names; the empty label is none.
    sites
        Lines of the kernel: file, line from 1, function. A line of 0 is unknown.
    findings
        What the run found to complain of, each with at least a ``message``.
    instructions, transfers, occupancy
        Arrays.
    critical
        The instructions of the critical path, by rising start.
    precision
        What instructions lost, by line: the fields of `PrecisionLoss`; empty without a shadow run.
    basis
        How much of the critical path each figure of the machine decides: ``constant``,
        ``evidence`` (``documented``, ``measured`` or ``estimated``) and ``time_ps``; empty where
        nobody said.
    compile
        What the compiler made of it: the fields of `Profile.compile`; None of a run as written.
    recorded
        What reports show beside: tensors and their uses, the run as written where a compiler
        changed it, both as compressed columns, and texts of files; None where nobody kept it.
    advice
        What would make it faster: ``advice`` as `Profile.advice`, and ``note``; None where nobody
        looked.

    Raises
    ------
    TypeError, ValueError
        If parts contradict each other; the message names the entry, what came and what is allowed.
    """

    arch: Mapping[str, Any]
    kernel: str
    latency_ps: int
    overhead_ps: int
    opcodes: Sequence[str]
    labels: Sequence[str]
    sites: Sequence[tuple[str, int, str]]
    findings: Sequence[Mapping[str, Any]]
    instructions: Instructions
    transfers: Transfers
    occupancy: Occupancy
    critical: NDArray[np.uint32]
    precision: Sequence[Mapping[str, Any]] = ()
    basis: Sequence[Mapping[str, Any]] = ()
    compile: Mapping[str, Any] | None = None
    recorded: Mapping[str, Any] | None = None
    advice: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        self._take()
        _profile.check_run(self)

    def _take(self) -> None:
        sites = tuple((str(file), int(line), str(function)) for file, line, function in self.sites)
        for name, value in (
            ("arch", dict(self.arch)),
            ("latency_ps", _whole("latency_ps", self.latency_ps)),
            ("overhead_ps", _whole("overhead_ps", self.overhead_ps)),
            ("opcodes", tuple(self.opcodes)),
            ("labels", tuple(self.labels)),
            ("sites", sites),
            ("findings", tuple(dict(finding) for finding in self.findings)),
            ("precision", tuple(dict(loss) for loss in self.precision)),
            ("basis", tuple(dict(time) for time in self.basis)),
            ("compile", None if self.compile is None else dict(self.compile)),
            ("recorded", None if self.recorded is None else dict(self.recorded)),
            ("advice", None if self.advice is None else dict(self.advice)),
            ("critical", as_column("critical", self.critical, np.dtype(np.uint32))),
        ):
            object.__setattr__(self, name, value)

    def __getattr__(self, name: str) -> Any:
        if name not in _MADE_LATE:
            message = f"{type(self).__name__!r} object has no attribute {name!r}"
            raise AttributeError(message)
        value = getattr(self._run, name)()
        object.__setattr__(self, name, value)
        return value

    @classmethod
    def of_run(cls, run: _profile.Profile) -> Self:
        """Return the data of a run that the compiled core holds.

        They are not checked: the core made them. What is made late is made when it is asked for.
        """
        parts = run.columns()
        for name, owner in (
            ("instructions", Instructions), ("transfers", Transfers), ("occupancy", Occupancy)
        ):  # fmt: skip
            parts[name] = _unchecked(owner, parts[name])
            _take_columns(parts[name], name)
        made: Self = _unchecked(cls, parts | dict.fromkeys(_MADE_LATE))
        made._take()
        object.__setattr__(made, "_run", run)
        for name in _MADE_LATE:
            object.__delattr__(made, name)
        return made

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Self:
        """Return the data from plain dicts whose keys are the fields' names.

        Parameters
        ----------
        document
            ``instructions``, ``transfers`` and ``occupancy`` are dicts of arrays or lists; what
            `to_dict` returns, and what the machine hands over.

        Raises
        ------
        TypeError, ValueError
            If an entry is missing, unknown, or contradicts another.
        """
        parts = _fields(cls, "profile", document)
        parts["instructions"] = _columns(Instructions, "instructions", parts["instructions"])
        parts["transfers"] = _columns(Transfers, "transfers", parts["transfers"])
        parts["occupancy"] = Occupancy(**_fields(Occupancy, "occupancy", parts["occupancy"]))
        return cls(**parts)

    def to_dict(self) -> dict[str, Any]:
        """Return the data as dicts, lists, strings and numbers that `from_dict` understands."""
        document: dict[str, Any] = _plain(self)
        return document


def _unchecked(owner: type[Any], fields: Mapping[str, Any]) -> Any:
    made = object.__new__(owner)
    for name, value in fields.items():
        object.__setattr__(made, name, value)
    return made


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value):
        return {each.name: _plain(getattr(value, each.name)) for each in dataclasses.fields(value)}
    if isinstance(value, tuple):
        return [_plain(each) for each in value]
    return value.tolist() if isinstance(value, np.ndarray) else value


def _fields(owner: type[Any], what: str, document: Any) -> dict[str, Any]:
    if not isinstance(document, Mapping):
        message = f"{what} is a {type(document).__name__}, must be a dict"
        raise TypeError(message)
    names = {declared.name for declared in dataclasses.fields(owner)}
    needed = {
        declared.name
        for declared in dataclasses.fields(owner)
        if declared.default is dataclasses.MISSING
    }
    for problem, wrong in (
        ("lacks", needed - set(document)),
        ("has unknown", set(document) - names),
    ):
        if wrong:
            message = f"{what} {problem} {', '.join(sorted(map(str, wrong)))}"
            raise ValueError(message)
    return dict(document)


def _columns(owner: type[Columns], what: str, document: Any) -> Columns:
    return owner(**_fields(owner, what, document))
