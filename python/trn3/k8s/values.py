"""The two value types that Kubernetes adds to plain ones: quantities and semantic versions."""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction

from trn3.k8s.errors import K8sError

BINARY = {
    suffix: 1024**power for power, suffix in enumerate(("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"))
}
DECIMAL = {
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 10**3),
    "": Fraction(1),
    "k": Fraction(10**3),
    "M": Fraction(10**6),
    "G": Fraction(10**9),
    "T": Fraction(10**12),
    "P": Fraction(10**15),
    "E": Fraction(10**18),
}
QUANTITY = re.compile(
    r"([+-]?(?:\d+\.?\d*|\.\d+))(?:([eE][+-]?\d{1,3})|(Ki|Mi|Gi|Ti|Pi|Ei|[numkMGTPE])?)"
)
SEMVER = re.compile(
    r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)"
    r"(?:-((?:0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*)(?:\.(?:0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*))*))?"
    r"(?:\+([0-9a-zA-Z-]+(?:\.[0-9a-zA-Z-]+)*))?"
)


@dataclass(frozen=True, slots=True, eq=False)
class ResourceQuantity:
    """A number with a suffix, as in ``144Gi``; equal when the numbers are.

    >>> ResourceQuantity.parse("1Gi") == ResourceQuantity.parse("1024Mi")
    True
    """

    text: str
    number: Fraction

    @classmethod
    def parse(cls, text: object) -> ResourceQuantity:
        """Read ``text``; a K8sError says what a quantity looks like."""
        match = QUANTITY.fullmatch(str(text)) if isinstance(text, str | int) else None
        if match is None or isinstance(text, bool):
            message = (
                f"{text!r} is not a quantity: write a number with a suffix, such as 144Gi or 8"
            )
            raise K8sError(message)
        digits, exponent, suffix = match.groups()
        if exponent:
            scale = Fraction(10) ** int(exponent[1:])
        else:
            scale = Fraction(BINARY[suffix]) if suffix in BINARY else DECIMAL[suffix or ""]
        return cls(str(text), Fraction(digits) * scale)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ResourceQuantity):
            return NotImplemented
        return self.number == other.number

    def compare(self, other: ResourceQuantity) -> int:
        """Return -1, 0 or 1; CEL has no < for quantities, so there is none here."""
        return (self.number > other.number) - (self.number < other.number)

    def __hash__(self) -> int:
        return hash(self.number)

    def __str__(self) -> str:
        return self.text


def _precedence(label: str) -> tuple[tuple[int, int, str], ...]:
    parts = label.split(".") if label else []
    return tuple((0, int(part), "") if part.isdigit() else (1, 0, part) for part in parts)


@dataclass(frozen=True, slots=True, eq=False)
class Semver:
    """A version ordered as semver.org 2.0.0 says; what follows ``+`` does not count.

    >>> Semver.parse("1.2.0-rc.1").compare(Semver.parse("1.2.0"))
    -1
    """

    text: str
    major: int
    minor: int
    patch: int
    label: str

    @classmethod
    def parse(cls, text: object) -> Semver:
        """Read ``text``; a K8sError says what a version looks like."""
        match = SEMVER.fullmatch(text) if isinstance(text, str) else None
        if match is None:
            message = (
                f"{text!r} is not a semantic version: write three numbers, such as 1.2.3 or "
                "1.2.3-rc.1"
            )
            raise K8sError(message)
        major, minor, patch, label, _build = match.groups()
        return cls(str(text), int(major), int(minor), int(patch), label or "")

    def _key(self) -> tuple[int, int, int, bool, tuple[tuple[int, int, str], ...]]:
        return self.major, self.minor, self.patch, not self.label, _precedence(self.label)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Semver):
            return NotImplemented
        return self._key() == other._key()

    def compare(self, other: Semver) -> int:
        """Return -1, 0 or 1; CEL has no < for versions, so there is none here."""
        return (self._key() > other._key()) - (self._key() < other._key())

    def __hash__(self) -> int:
        return hash(self._key())

    def __str__(self) -> str:
        return self.text


Value = bool | int | str | Semver
"""The value of an attribute."""


def typed(value: Value) -> tuple[str, Value]:
    """Return a value with its type, so that 1, true and "1" differ."""
    return type(value).__name__, value
