"""What only a run shows: values, memories and types of what a kernel hands to instructions."""

from __future__ import annotations

import inspect
import sys
import types
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from trn3.nki.lint import rules
from trn3.nki.lint.findings import PortabilityError, PortabilityFinding
from trn3.nki.values.callers import is_own, warn_caller
from trn3.nki.values.environment import variable

if TYPE_CHECKING:
    from trn3._trn3.machine import NeuronCore, NkiTensor
    from trn3.nki.values.kernel_function import KernelFunction


def is_strict() -> bool:
    """Return whether ``TRN3_NKI_STRICT`` asks for the lint.

    Raises
    ------
    ValueError
        If the variable is neither 0 nor 1.
    """
    value = variable("TRN3_NKI_STRICT") or ""
    if value not in ("", "0", "1"):
        message = f"TRN3_NKI_STRICT is {value!r}; allowed: 1 (refuse what is not portable), 0"
        raise ValueError(message)
    return value == "1"


class Watch:
    """Collects what a launch does that hardware would not.

    Parameters
    ----------
    kernel : KernelFunction
    """

    __slots__ = ("_findings", "_first", "_kernel")

    def __init__(self, kernel: KernelFunction) -> None:
        self._kernel = kernel.name
        self._first = _first_line(kernel)
        self._findings: set[PortabilityFinding] = set()

    def memset(self, core: NeuronCore, dst: NkiTensor, value: Any) -> None:
        """Note a float for an integer tile, unless trn3's own code gave it."""
        whole = dst.dtype_name.startswith(("int", "uint"))
        if whole and isinstance(value, float) and not is_own(sys._getframe(2).f_code):
            text = f"`nisa.memset` of a tile of {dst.dtype_name} with {value!r}"
            self._note(rules.MEMSET_VALUE, core.line(), text)

    def psum_store(self, core: NeuronCore, value: NkiTensor) -> None:
        """Note a store from PSUM, unless trn3's own code made it."""
        if not is_own(sys._getframe(2).f_code):
            text = f"`nl.store` of `{value.name}`, which is in PSUM"
            self._note(rules.PSUM_STORE, core.line(), text)

    def scalar_power(self, core: NeuronCore) -> None:
        """Note a power of a number and a tile."""
        self._note(rules.SCALAR_POWER, core.line(), "`nl.power` of a tile and a number")

    def private_result(self, place: str, tensor: NkiTensor) -> None:
        """Note a result that only one core reaches."""
        text = f"{place}, `{tensor.name}`, is in private HBM"
        self._note(rules.PRIVATE_RESULT, self._first, text)

    def _note(self, rule: rules.PortabilityRule, line: str, text: str) -> None:
        if rule.applies:
            self._findings.add(_finding(rule, line, self._kernel, text))

    def finish(self) -> None:
        """Raise what was found, if anything was.

        Raises
        ------
        PortabilityError
        """
        if self._findings:
            raise PortabilityError(self._kernel, sorted(self._findings))


def watch(
    kernel: KernelFunction, given: Sequence[tuple[Sequence[Any], dict[str, Any]]]
) -> Watch | None:
    """Search a kernel that is about to run, if ``TRN3_NKI_STRICT`` asks for it.

    Parameters
    ----------
    kernel : KernelFunction
    given : sequence of (args, kwargs)
        The arguments of each rank.

    Returns
    -------
    Watch or None
        For what the run shows; None without the variable.

    Raises
    ------
    PortabilityError
        If its source or its arguments are refused: all places, those that may be refused too.
    """
    if not is_strict():
        return None
    from trn3.nki.lint.walker import Walk

    search = Walk(kernel)
    findings = sorted({*search.findings, *_lists(kernel, given)})
    if any(finding.severity == "error" for finding in findings):
        raise PortabilityError(kernel.name, findings)
    if findings:
        texts = "\n".join(map(str, findings))
        warn_caller(f"kernel {kernel.name} may be refused by compilers:\n{texts}")
    if not search.complete:
        message = (
            f"kernel {kernel.name} has no source to read: TRN3_NKI_STRICT checks only what its "
            "run shows"
        )
        warn_caller(message)
    return None if kernel.is_legacy else Watch(kernel)


def _first_line(kernel: KernelFunction) -> str:
    code = getattr(inspect.unwrap(kernel.__wrapped__), "__code__", None)
    if not isinstance(code, types.CodeType):
        return "unknown:0"
    return f"{code.co_filename}:{code.co_firstlineno}"


def _lists(
    kernel: KernelFunction, given: Sequence[tuple[Sequence[Any], dict[str, Any]]]
) -> Iterator[PortabilityFinding]:
    """Yield arguments that are lists."""
    rule = rules.LIST_ARGUMENT
    if not rule.applies or kernel.is_legacy:
        return
    names = list(inspect.signature(kernel.__wrapped__).parameters)
    for args, kwargs in given:
        named = [(names[i] if i < len(names) else str(i), each) for i, each in enumerate(args)]
        for name, value in [*named, *kwargs.items()]:
            if isinstance(value, list):
                text = f"argument `{name}` is a list"
                yield _finding(rule, _first_line(kernel), kernel.name, text)


def _finding(rule: rules.PortabilityRule, line: str, kernel: str, text: str) -> PortabilityFinding:
    file, _, number = line.rpartition(":")
    return rule.at(file or line, int(number) if number.isdecimal() else 0, 0, kernel, text)
