"""StableHLO as plain values: what the reading gives and the conversion takes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from trn3.graph.writing import Frame, TensorType

__all__ = ["HloBody", "HloFunction", "HloModule", "HloOperation"]


@dataclass(slots=True)
class HloOperation:
    """One operation; values are numbers that are used once in a module."""

    name: str
    operands: list[int]
    results: list[int]
    types: list[TensorType]
    attributes: dict[str, Any]
    bodies: list[HloBody]
    frames: tuple[Frame, ...]


@dataclass(slots=True)
class HloBody:
    """Operations in order, with the values that they are given and give."""

    inputs: list[int]
    types: list[TensorType]
    operations: list[HloOperation] = field(default_factory=list)
    outputs: list[int] = field(default_factory=list)


@dataclass(slots=True)
class HloFunction:
    """A function of a module."""

    name: str
    body: HloBody
    input_names: list[str]


@dataclass(slots=True)
class HloModule:
    """Functions by name; the one called ``main`` is the module's own; meshes as it writes them.

    Kernels stay what they are: objects, by the numbers that calls of ``trn3.kernel`` have.
    """

    name: str
    functions: dict[str, HloFunction]
    meshes: tuple[str, ...] = ()
    kernels: dict[int, Any] = field(default_factory=dict)
