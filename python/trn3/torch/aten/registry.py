"""Which function writes which ATen operator, and what it is given."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from trn3.torch.aten.refusal import AtenError
from trn3.torch.held_tensors import held_type

if TYPE_CHECKING:
    from collections.abc import Callable

    from trn3.graph.writing import TensorType
    from trn3.torch.aten.writer import AtenWriter

__all__ = ["AtenCall", "AtenError", "Held", "aten", "converter_of", "converters"]


@dataclass(frozen=True, slots=True)
class Held:
    """A tensor among an operator's arguments.

    Attributes
    ----------
    number : int
        Of the value in the graph.
    like : FakeTensor
        What torch knows of it.
    """

    number: int
    like: Any


@dataclass(frozen=True)
class AtenCall:
    """One call of an operator.

    Attributes
    ----------
    writer : AtenWriter
        What takes operations.
    name : str
        Of the operator, with its overload.
    given : dict
        Arguments by the names of its schema: `Held` for tensors, else as they are.
    result : FakeTensor, tuple or None
        What torch says that it gives.
    """

    writer: AtenWriter
    name: str
    given: dict[str, Any]
    result: Any

    def __getitem__(self, name: str) -> Any:
        return self.given.get(name)

    def number(self, name: str) -> int:
        """Return the number of a tensor argument."""
        held = self.given[name]
        if not isinstance(held, Held):
            raise AtenError(f"{name} is {held!r}; allowed: a tensor")
        return held.number

    def type(self, place: int | None = None) -> TensorType:
        """Return how the result is held; of several, the one at a place."""
        result = self.result if place is None else self.result[place]
        kind = held_type(result)
        if kind is None:
            raise AtenError(f"the result is {result.dtype}")
        return kind


# Prefixes of operators that are not ATen's.
_OTHERS = ("prims.", "trn3.", "_c10d_functional", "_dtensor.", "transformers.")

Converter: TypeAlias = "Callable[[AtenCall], Any]"
_CONVERTERS: dict[str, Converter] = {}


def aten(*names: str) -> Callable[[Converter], Converter]:
    """Register what writes operators of these names, of ATen but for those that say theirs."""

    def register(converter: Converter) -> Converter:
        full = (name if name.startswith(_OTHERS) else f"aten.{name}" for name in names)
        _CONVERTERS.update((name, converter) for name in full)
        return converter

    return register


def converter_of(operator: Any) -> Converter | None:
    """Return what writes an operator; None if nothing does."""
    name = str(operator)
    return _CONVERTERS.get(name) or _CONVERTERS.get(name.rpartition(".")[0])


def converters() -> tuple[str, ...]:
    """Names of all operators that are written, in order."""
    return tuple(sorted(_CONVERTERS))
