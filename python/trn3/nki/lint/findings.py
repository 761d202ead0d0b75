"""What the lint reports, and the error that carries it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, TypeAlias

from trn3._trn3.machine import NkiValidationError

Severity: TypeAlias = Literal["error", "warning"]


@dataclass(frozen=True, order=True, slots=True)
class PortabilityFinding:
    """One place that the hardware compiler refuses, or may refuse.

    Attributes
    ----------
    file : str
    line, column : int
        From 1; column 0 is one that only the run knows the line of.
    rule : str
        Identity of the rule, such as ``TRN3-P001``.
    severity : str
        ``"error"`` for what is documented as refused, ``"warning"`` for what no published kernel
        uses and nothing documents.
    function : str
        In which it stands.
    message : str
        What stands there, and why that is a problem.
    instead : str
        What to write.
    """

    file: str
    line: int
    column: int
    rule: str
    severity: Severity
    function: str
    message: str
    instead: str

    @property
    def location(self) -> str:
        """``file:line:column``, as editors read it; without a column where none is known."""
        return f"{self.file}:{self.line}" + (f":{self.column}" if self.column else "")

    def __str__(self) -> str:
        return f"{self.location}: {self.rule} {self.message}; write {self.instead}"


#: Its older name.
Finding = PortabilityFinding


class PortabilityError(NkiValidationError):
    """A kernel holds what the hardware compiler refuses; raised under ``TRN3_NKI_STRICT=1``.

    Attributes
    ----------
    findings : tuple of PortabilityFinding
        All of them, in order of their lines.
    """

    def __init__(self, kernel: str, findings: Iterable[PortabilityFinding]) -> None:
        self.kernel = kernel
        self.findings = tuple(findings)
        count = len(self.findings)
        places = f"{count} place{'' if count == 1 else 's'}"
        first = f"kernel {kernel}: compilers refuse {places} of it (TRN3_NKI_STRICT=1)"
        super().__init__("\n".join([first, *map(str, self.findings)]))

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.kernel, self.findings)
