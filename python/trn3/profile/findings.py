"""What a run found to complain of, and what each instruction lost of its values' precision."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from trn3._trn3 import profile as _profile
from trn3.profile.results import location


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that is no error on the hardware and yet no kernel means.

    Attributes
    ----------
    kind
        ``"uninitialized_read"``: memory was read that nothing had written.
        ``"out_of_bounds_skipped"``: rows of an indirect transfer were left out.
        ``"nan_origin"``, ``"infinity_origin"``: an instruction wrote the first NaN or infinity;
        `origin` says from what. What later instructions make of it is not reported.
        ``"outside_range"``: a function of ScalarE took elements outside the range for which its
        results are documented; one finding for all elements of a line.
        ``"use_after_reuse"``: a tensor was read whose bytes another one had overwritten.
        ``"unwritten_accumulation"``: a matmul accumulated where no matmul had written.
        ``"race"``: two cores used the same bytes of shared HBM, unordered.
    message
        All of it in words, without the line.
    file, line
        Line of the kernel; 0 if it is not known.
    tensor
        Name of the tensor.
    instruction
        The instruction or function, where the kind is about one.
    element
        First element, along each axis of the operand, where the kind is about elements.
    dtype
        Type of the tensor, where the kind is about values.
    origin
        Of NaN and infinities: ``"computed"`` from numbers, ``"overflow"`` of the written type,
        ``"uninitialized_memory"``, or ``"argument"``: the kernel was given it.
    allocated
        ``file:line`` that made the tensor, where known.
    core
        Core of a logical core with several; None with one.
    rank
        Rank of several; None with one.
    """

    kind: str
    message: str
    file: str = ""
    line: int = 0
    tensor: str = ""
    instruction: str = ""
    element: tuple[int, ...] = ()
    dtype: str = ""
    origin: str = ""
    allocated: str = ""
    core: int | None = None
    rank: int | None = None

    @property
    def location(self) -> str:
        """``file:line``, or ``unknown line``."""
        return location(self.file, self.line)

    def __str__(self) -> str:
        """Return place and message as one text."""
        place = f"{self.location}: " if self.line else ""
        return f"{place}{self.message}"

    @classmethod
    def of(cls, record: Mapping[str, Any], core: int | None = None) -> Self:
        """Return the finding that the machine recorded.

        >>> str(Finding.of({"kind": "race", "message": "two cores", "line": "k.py:3"}))
        'k.py:3: two cores'
        """
        return cls.taken(_profile.finding(record, core))

    @classmethod
    def taken(cls, fields: Mapping[str, Any]) -> Self:
        """Return the finding of fields that are those of this class."""
        return cls(**{**fields, "element": tuple(fields["element"])})


@dataclass(frozen=True, slots=True)
class PrecisionLoss:
    """What the instructions of one line lost of a result's precision, over all their runs.

    Errors are the worst of all runs. A relative error is the largest difference as part of the
    largest exact magnitude of the operand **(choice)**: small elements beside large ones do not
    count as if they stood alone. Elements that are NaN or infinite do not count.

    Attributes
    ----------
    file, line
        Line of the kernel.
    instruction
        The instruction.
    tensor, dtype
        What it wrote in the worst run: name and type.
    count
        How often it ran.
    worst
        Number of the run with the largest relative error, among the instructions of its core.
    error, relative_error
        Of the result, against a run in float64 that never rounds.
    input_error, relative_input_error
        What its inputs had already.
    added_error, relative_added_error
        What this instruction added: its result against what its real inputs give in float64.
    core
        Core of a logical core with several; None with one.
    """

    file: str
    line: int
    instruction: str
    tensor: str
    dtype: str
    count: int
    worst: int
    error: float
    relative_error: float
    input_error: float
    relative_input_error: float
    added_error: float
    relative_added_error: float
    core: int | None = None

    @property
    def location(self) -> str:
        """``file:line``, or ``unknown line``."""
        return location(self.file, self.line)

    @property
    def relative_growth(self) -> float:
        """How much the relative error grew here: by what was added, or by cancellation."""
        return max(self.relative_error - self.relative_input_error, self.relative_added_error)
