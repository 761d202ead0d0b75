"""Runs whose result is held against a golden, and what looks for the line that went wrong."""

from __future__ import annotations

import copy
import dataclasses
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from trn3.nki.launch.arguments import Arguments, tensors_in
from trn3.nki.launch.golden import ResultCheck, ResultTolerance, hold
from trn3.nki.launch.jit import as_kernel, simulate
from trn3.nki.launch.new_cores import arch_of
from trn3.nki.launch.profiling import check_shadow, filled
from trn3.profile.findings import Finding, PrecisionLoss

if TYPE_CHECKING:
    from trn3._trn3.machine import NeuronCore
    from trn3.machine.archs import ArchLike

__all__ = ["CheckedRun", "golden_of"]

_ORIGINS: Final = ("nan_origin", "infinity_origin")


class CheckedRun:
    """A kernel that runs once, and again in float64 if its result is wrong.

    It is what ``trn3 profile`` and the fixture `trn3_check` of pytest do with a golden. The
    arguments are kept as they came: neither golden nor second run sees what the kernel wrote.

    Parameters
    ----------
    kernel : Kernel or function
    args, kwargs
        Its arguments.
    keeps : bool, optional
        False keeps no copies of the arguments, for a run that no golden follows.
    arch : str, dict or ArchSpec, optional
        Machine instead of the kernel's target.
    **options
        Those of `trn3.machine.NeuronCore`.

    Attributes
    ----------
    cores : list of NeuronCore
        On which it ran; empty before.
    result : object
        What it returned.

    Examples
    --------
    >>> import numpy as np
    >>> from trn3 import nki
    >>> import trn3.nki.language as nl
    >>> @nki.jit
    ... def double(x):
    ...     out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    ...     nl.store(out, nl.multiply(nl.load(x), 2.0))
    ...     return out
    >>> attempt = nki.CheckedRun(double, [np.ones((2, 2), np.float32)])
    >>> _ = attempt.run()
    >>> check = attempt.check(attempt.golden(lambda x: 2 * x))
    >>> check.verdict, check.tolerance, check.reason
    ('right', 0.0001, '0.0001, since float32 is the narrowest type on the way to the result')
    """

    def __init__(
        self,
        kernel: Callable[..., Any],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        *,
        keeps: bool = True,
        arch: ArchLike | None = None,
        **options: Any,
    ) -> None:
        self.kernel = as_kernel(kernel)
        check_shadow(bool(options.get("shadow")), bool(options.get("values", True)))
        named = {name: filled(value) for name, value in (kwargs or {}).items()}
        self._given = tuple(map(filled, args)), named
        self._kept = copy.deepcopy(self._given) if keeps else self._given
        self._arch = None if arch is None else arch_of(arch)
        self._options = options
        self._types: list[list[tuple[str | None, bool]]] = []
        self.cores: list[NeuronCore] = []
        self.result: Any = None

    def run(self) -> Any:
        """Run the kernel on new cores, and return what it returns."""
        self.cores = self.kernel.cores(self._arch, **self._options)
        for core in self.cores:
            core.follow_types()
        (self.result,) = self.kernel.launch_ranks(
            [self.cores], [self._given], observe=self._note_types
        )
        return self.result

    def _note_types(self, _: Arguments, returned: Any) -> None:
        self._types = [
            [core.narrowest(tensor) for core in self.cores] for tensor in tensors_in(returned)
        ]

    def golden(self, golden: Any) -> Any:
        """Return a golden: of a function, what it makes of the arguments as they came."""
        return golden_of(golden, *copy.deepcopy(self._kept))

    def agree(
        self, other: CheckedRun, tolerance: ResultTolerance | None = None, whose: str = "the other"
    ) -> ResultCheck:
        """Hold the result against another run's; the element types of both count.

        Raises
        ------
        GoldenShapeError
            As `hold`.
        """
        if len(self._types) == len(other._types):
            pairs = zip(self._types, other._types, strict=True)
            types = [[*own, *others] for own, others in pairs]
        else:
            types = self._types
        return _hold(self.result, other.result, types, tolerance, whose)

    def hold(self, golden: Any, tolerance: ResultTolerance | None = None) -> ResultCheck:
        """Hold the result against a golden, without looking for the line.

        Parameters
        ----------
        golden
            Arrays.
        tolerance : ResultTolerance, optional
            Instead of what follows from the element types on the way to each result.

        Raises
        ------
        GoldenShapeError
            If there are other numbers of arrays, or other shapes.
        """
        return _hold(self.result, golden, self._types, tolerance)

    def check(self, golden: Any, tolerance: ResultTolerance | None = None) -> ResultCheck:
        """Hold the result against a golden, and of a wrong one find the first line that deviates.

        Unless the run had a shadow in float64, the kernel runs again with one.

        Raises
        ------
        GoldenShapeError
            As `hold`.
        """
        found = self.hold(golden, tolerance)
        if not found.is_wrong:
            return found
        line = next(_origins(self.cores), None)
        if line is not None:
            return dataclasses.replace(found, line=line, note="makes the first NaN or infinity")
        try:
            line = _deviating(self._shadowed(), found.tolerance)
        except Exception as error:
            # The verdict stands without it.
            return dataclasses.replace(found, note=f"its run in float64 failed: {error}")
        if line is None:
            note = "no line deviates from its float64 shadow: rounding is not why"
            return dataclasses.replace(found, note=note)
        return dataclasses.replace(found, line=line, note="deviates first from its float64 shadow")

    def _shadowed(self) -> list[NeuronCore]:
        if self._options.get("shadow"):
            return self.cores
        options = {**self._options, "shadow": True, "timing": False}
        kernel = simulate(self.kernel, verify=False)
        cores = kernel.cores(self._arch, **options)
        kernel.launch(cores, *copy.deepcopy(self._kept))
        return cores


def _hold(
    result: Any,
    golden: Any,
    types: Sequence[Sequence[tuple[str | None, bool]]],
    tolerance: ResultTolerance | None,
    whose: str = "the golden",
) -> ResultCheck:
    tolerances = [tolerance or ResultTolerance.of_types(each) for each in types]
    return hold(result, golden, tolerances, whose)


def golden_of(golden: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Return a golden: of a function, what it returns for those arguments that it has names for.

    Where arguments came by position, it is called as the kernel is.
    """
    if not callable(golden):
        return golden
    if args:
        return golden(*args, **kwargs)
    names = inspect.signature(golden).parameters
    return golden(**{name: kwargs[name] for name in names if name in kwargs})


def _origins(cores: Sequence[NeuronCore]) -> Iterator[str]:
    """Yield the lines that made NaN or infinity of numbers."""
    for core in cores:
        for record in core.findings():
            found = Finding.of(record)
            if found.kind in _ORIGINS and found.line and found.origin != "argument":
                yield found.location


def _deviating(cores: Sequence[NeuronCore], tolerance: float) -> str | None:
    """Return the first line whose result is off by more, best one whose inputs are not."""
    for core in cores:
        # In the order in which lines first ran.
        losses = [PrecisionLoss(**fields) for fields in core.precision()]
        off = [loss for loss in losses if loss.relative_error > tolerance and loss.line]
        own = [loss for loss in off if loss.relative_input_error <= tolerance]
        if off:
            return (own or off)[0].location
    return None
