"""Results held against what they should be: how far off they may be, and where they are most."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, Self

import numpy as np
from numpy.typing import NDArray

from trn3.nki.values import arrays

__all__ = ["NARROWEST", "GoldenShapeError", "ResultCheck", "ResultTolerance", "hold", "leaves"]

#: What the largest difference over the golden's largest magnitude is held to, by the narrowest
#: floating-point type on the way to the result; nothing rounds integers.
NARROWEST: Final = {
    None: 0.0,
    "float32": 1e-4,
    "tfloat32": 2e-2, "bfloat16": 2e-2, "float16": 2e-2,
    "float8_e4m3": 1e-1, "float8_e4m3fn": 1e-1, "float8_e5m2": 1e-1,
    "float8_e4m3fn_x4": 1e-1, "float8_e5m2_x4": 1e-1, "float4_e2m1fn_x4": 1e-1,
}  # fmt: skip


class GoldenShapeError(ValueError):
    """A golden of other shapes than the result, or of another number of arrays."""


@dataclass(frozen=True, slots=True)
class ResultTolerance:
    """How far a result may be off.

    Attributes
    ----------
    rtol, atol : float
        Of an element, as `numpy.isclose` takes them: ``atol + rtol * abs(golden)``.
    scaled : float
        Of every element, as part of the golden's largest magnitude.
    reason : str
        Why so far.

    Raises
    ------
    ValueError
        If a figure is none, or below 0.

    Examples
    --------
    >>> ResultTolerance.given(rtol=0.01).reason
    'rtol 0.01, atol 0 as given'
    >>> ResultTolerance.of_types([("bfloat16", True), ("float32", True)]).scaled
    0.02
    """

    rtol: float = 0.0
    atol: float = 0.0
    scaled: float = 0.0
    reason: str = ""

    def __post_init__(self) -> None:
        for name in ("rtol", "atol", "scaled"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, (int, float)) or not value >= 0:
                message = f"{name} is {value!r}; allowed: a number of at least 0"
                raise ValueError(message)

    @classmethod
    def given(cls, rtol: float | None = None, atol: float | None = None) -> Self:
        """Return what somebody asked for; what was not asked for is 0."""
        made = cls(0.0 if rtol is None else rtol, 0.0 if atol is None else atol)
        reason = f"rtol {made.rtol:g}, atol {made.atol:g} as given"
        return dataclasses.replace(made, reason=reason)

    @classmethod
    def of_types(cls, found: Sequence[tuple[str | None, bool]]) -> Self:
        """Return what follows from element types.

        Parameters
        ----------
        found
            By core: the narrowest type on the way to the result, None of integers alone; and
            whether it is that, or only the narrowest of all the core's instructions.
        """
        name = max((name for name, _ in found), key=NARROWEST.__getitem__, default=None)
        if not all(is_own for _, is_own in found):
            why = f"{name} is the narrowest type of the run, whose cores met"
        elif name is None:
            why = "integers are exact"
        else:
            why = f"{name} is the narrowest type on the way to the result"
        return cls(scaled=NARROWEST[name], reason=f"{NARROWEST[name]:g}, since {why}")


@dataclass(frozen=True, slots=True)
class ResultCheck:
    """A result beside its golden.

    Attributes
    ----------
    verdict : str
        ``"right"`` or ``"wrong"``.
    error : float
        The difference in the worst place, over the golden's largest magnitude; infinite where one
        is NaN or infinite and the other is not. Worst is what exceeds the tolerance most.
    tolerance : float
        What is allowed there, over the same magnitude.
    reason : str
        Why so much is allowed.
    worst_index : tuple of int
        The worst place.
    result : int or None
        Which of several results it is in.
    got, wanted : float
        The elements there.
    largest_error : float
        The largest difference of any element, over the largest magnitude of its golden.
    line : str or None
        ``file:line`` of the first line that deviates from its shadow run in float64 by more than
        the tolerance, or that makes the first NaN or infinity; None where there is none.
    note : str
        What is to say of the line, or of why there is none.
    whose : str
        What texts call the golden.
    """

    verdict: Literal["right", "wrong"]
    error: float
    tolerance: float
    reason: str
    worst_index: tuple[int, ...]
    result: int | None
    got: float
    wanted: float
    largest_error: float
    line: str | None = None
    note: str = ""
    whose: str = "the golden"

    @property
    def is_wrong(self) -> bool:
        """Whether the result is further off than allowed."""
        return self.verdict == "wrong"

    @property
    def place(self) -> str:
        """The worst place, as the kernel's caller would write it."""
        which = "result" if self.result is None else f"result[{self.result}]"
        return f"{which}[{', '.join(map(str, self.worst_index))}]" if self.worst_index else which

    def headline(self) -> str:
        """Return the verdict in a sentence: of a wrong result with the worst place and the line."""
        if not self.is_wrong:
            return (
                f"Largest difference from {self.whose}: {self.largest_error:.2e} of its largest "
                f"magnitude; allowed {self.reason}"
            )
        where = f"{self.line} {self.note}" if self.line is not None else self.note
        shown = f"WRONG: {self.place} is {self.got:.6g}, {self.whose} {self.wanted:.6g}"
        return f"{shown}; {where}" if where else shown

    def details(self) -> str:
        """Return what a wrong result is measured with."""
        if math.isinf(self.error):
            return f"The result is NaN or infinite where {self.whose} is not, or the other way."
        return (
            f"Off by {self.error:.2e} of the largest magnitude of {self.whose}; allowed "
            f"{self.reason}"
        )

    def figures(self) -> dict[str, Any]:
        """Return all of it as plain data for JSON; an infinite error is None."""
        plain = dataclasses.asdict(self)
        for name in ("error", "largest_error", "got", "wanted", "tolerance"):
            plain[name] = plain[name] if math.isfinite(plain[name]) else None
        return {**plain, "worst_index": list(self.worst_index)}

    def __str__(self) -> str:
        """Return all of it as text."""
        return f"{self.headline()}\n{self.details()}" if self.is_wrong else self.headline()


def leaves(value: Any, *, numbers: bool = False) -> Iterator[NDArray[Any]]:
    """Yield the arrays of a result; of a golden, what NumPy makes of `numbers` too."""
    kind = arrays.kind_of(value)
    if kind is not None:
        yield arrays.as_numpy(value, kind, "result")
    elif isinstance(value, (tuple, list)):
        for item in value:
            yield from leaves(item, numbers=numbers)
    elif isinstance(value, dict):
        for item in value.values():
            yield from leaves(item, numbers=numbers)
    elif numbers:
        yield np.asarray(value)


def hold(
    result: Any, golden: Any, tolerances: Sequence[ResultTolerance], whose: str = "the golden"
) -> ResultCheck:
    """Hold a result against a golden.

    Parameters
    ----------
    result, golden
        An array, or several of them in tuples, lists and dicts.
    tolerances
        One for each array, or one for all.
    whose
        What errors call the golden.

    Raises
    ------
    GoldenShapeError
        If there are other numbers of arrays, or other shapes.

    Examples
    --------
    >>> found = hold(np.array([1.0, 2.5]), np.array([1.0, 2.0]), [ResultTolerance(scaled=0.1)])
    >>> found.verdict, found.error, found.worst_index
    ('wrong', 0.25, (1,))
    """
    got, wanted = list(leaves(result)), list(leaves(golden, numbers=True))
    if len(got) != len(wanted):
        message = f"the kernel returns {len(got)} tensors, {whose} {len(wanted)}"
        raise GoldenShapeError(message)
    if not got:
        message = f"the kernel returns no tensor to hold against {whose}"
        raise GoldenShapeError(message)
    if len(tolerances) == 1:
        tolerances = [*tolerances] * len(got)
    worst: tuple[float, ResultCheck] | None = None
    largest = 0.0
    for number, (values, exact, tolerance) in enumerate(zip(got, wanted, tolerances, strict=True)):
        if values.shape != exact.shape:
            message = f"the kernel returns shape {values.shape}, {whose} {exact.shape}"
            raise GoldenShapeError(message)
        excess, check = _held(values, exact, tolerance, number if len(got) > 1 else None)
        if worst is None or excess > worst[0]:
            worst = excess, check
        largest = max(largest, check.largest_error)
    assert worst is not None
    return dataclasses.replace(worst[1], largest_error=largest, whose=whose)


def _held(
    got: NDArray[Any], golden: NDArray[Any], tolerance: ResultTolerance, number: int | None
) -> tuple[float, ResultCheck]:
    """Return how far one array exceeds its tolerance in its worst place, and its check."""
    if got.dtype.names or golden.dtype.names:
        # Packed types have no arithmetic: their bits are the same, or they are not.
        bits = (each.view(f"u{each.dtype.itemsize}") for each in (got, golden))
        values, exact = (each.astype(np.float64) for each in bits)
        tolerance = ResultTolerance(reason="packed elements are compared by their bits")
    else:
        values, exact = got.astype(np.float64), golden.astype(np.float64)
    finite = np.isfinite(exact)
    scale = float(np.abs(exact[finite]).max(initial=0.0)) or 1.0
    with np.errstate(invalid="ignore", over="ignore"):
        allowed = (tolerance.atol + tolerance.rtol * np.abs(exact)) / scale + tolerance.scaled
        off = np.abs(values - exact) / scale
    # Infinities, and what is no number, differ from all but themselves.
    same = (values == exact) | (np.isnan(values) & np.isnan(exact))
    both = finite & np.isfinite(values)
    off = np.where(same, 0.0, np.where(both, off, np.inf))
    allowed = np.where(finite, allowed, tolerance.scaled)
    excess = off - allowed
    if not excess.size:
        return 0.0, ResultCheck("right", 0.0, 0.0, tolerance.reason, (), number, 0.0, 0.0, 0.0)
    place = np.unravel_index(int(np.argmax(excess)), excess.shape)
    check = ResultCheck(
        "wrong" if excess[place] > 0 else "right",
        float(off[place]),
        float(allowed[place]),
        tolerance.reason,
        tuple(int(each) for each in place),
        number,
        float(values[place]),
        float(exact[place]),
        float(off.max()),
    )
    return float(excess[place]), check
