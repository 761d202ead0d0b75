"""NKIObject: construction, equality, hashes."""

from __future__ import annotations

import abc
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import pytest

import trn3.nki.language as nl
from support.core import run

#: The table of behaviours names tests of this file: they hold under every release.
pytestmark = pytest.mark.usefixtures("every_release")


class Plain(nl.NKIObject):
    rows: int
    columns: int = 4
    limit: ClassVar[int] = 7
    scale: float


class Derived(Plain):
    name: str = "none"


class Counted(nl.NKIObject):
    count: int
    double: int

    def __post_init__(self) -> None:
        self.double = 2 * self.count


@dataclass
class Data(nl.NKIObject):
    a: int
    b: list[int] = field(default_factory=list)


@dataclass(frozen=True)
class Frozen(nl.NKIObject):
    a: int
    b: str = "b"


@dataclass(slots=True)
class Slotted(nl.NKIObject):
    a: int


class Own(nl.NKIObject):
    def __init__(self, a: int) -> None:
        self.a = a
        self.late = a + 1


def test_annotated_fields_by_keyword_and_position() -> None:
    item = Plain(2, scale=0.5)
    assert (item.rows, item.columns, item.scale) == (2, 4, 0.5)
    empty: Any = Plain()
    assert (empty.rows, empty.columns, empty.scale) == (None, 4, None)
    derived = Derived(1, 2, 3.0, "x")
    assert (derived.rows, derived.columns, derived.scale, derived.name) == (1, 2, 3.0, "x")
    assert item.limit == 7


def test_fields_of_dataclasses_give_their_defaults_without_the_decorator() -> None:
    class Config(nl.NKIObject):
        tiles: list[int] = field(default_factory=list)
        rows: int = field(default=3)
        name: str = field(metadata={})

    one, other = Config(), Config(rows=4)
    assert (one.tiles, one.rows, one.name) == ([], 3, None)
    assert one.tiles is not other.tiles
    assert other.rows == 4


def test_post_init_is_called() -> None:
    assert Counted(count=3).double == 6


@pytest.mark.parametrize(
    ("args", "kwargs", "text"),
    [
        ((1, 2, 3, 4), {}, r"takes 3 fields \(rows, columns, scale\), got 4"),
        ((1,), {"rows": 2}, "field rows twice"),
        ((), {"colums": 2}, "'colums', which is no field; allowed: rows, columns, scale"),
    ],
)
def test_wrong_arguments_are_refused(args: Any, kwargs: Any, text: str) -> None:
    with pytest.raises(TypeError, match=text):
        Plain(*args, **kwargs)


@pytest.mark.parametrize(
    ("make", "other"),
    [
        (lambda: Plain(1, 2, 3.0), Plain(1, 2, 4.0)),
        (lambda: Data(1, [2]), Data(1, [3])),
        (lambda: Frozen(1), Frozen(2)),
        (lambda: Own(1), Own(2)),
        (lambda: Slotted(1), Slotted(2)),
    ],
)
def test_equality_is_structural_and_hash_agrees(make: Any, other: Any) -> None:
    assert make() == make()
    assert hash(make()) == hash(make())
    assert make() != other
    assert {make(): 5}[make()] == 5
    assert make() != 1


def test_tensor_fields_compare_by_identity() -> None:
    class Holder(nl.NKIObject):
        tile: Any

    def kernel() -> None:
        one, other = (nl.ndarray((2, 2), nl.float32) for _ in range(2))
        assert Holder(one) == Holder(one)
        assert Holder(one) != Holder(other)
        assert hash(Holder(one)) == hash(Holder(one))

    run(kernel)


def test_array_fields_compare_by_value() -> None:
    class Holder(nl.NKIObject):
        values: Any

    assert Holder(np.arange(3)) == Holder(np.arange(3))
    assert Holder(np.arange(3)) != Holder(np.arange(4))


def test_mixes_with_abstract_classes() -> None:
    class Base(nl.NKIObject, abc.ABC):
        a: int

        @abc.abstractmethod
        def size(self) -> int: ...

    class Concrete(Base):
        def size(self) -> int:
            return self.a

    assert Concrete(3).size() == 3
    assert repr(Frozen(1)) == "Frozen(a=1, b='b')"


@dataclass
class Layer(nl.NKIObject):
    """Fields with and without default, and what the body names without annotation."""

    rows: int
    columns: int = 4
    bias: Any = None
    fused = False
    tiles = 2

    def __post_init__(self) -> None:
        self.elements = None if self.rows is None else self.rows * self.columns * self.tiles


@dataclass
class Wider(Layer):
    depth: int = 1
    fused = True


@dataclass(frozen=True)
class Fixed(nl.NKIObject):
    rows: int
    fused = False


def test_dataclasses_take_what_their_body_names() -> None:
    layer = Layer(3, fused=True, tiles=5)  # type: ignore[call-arg]
    assert (layer.rows, layer.columns, layer.fused, layer.tiles, layer.elements) == (
        3,
        4,
        True,
        5,
        60,
    )
    # The class's own stay as they are.
    assert (Layer.fused, Layer(1).tiles) == (False, 2)
    wider = Wider(rows=2, depth=3, tiles=1)  # type: ignore[call-arg]
    assert (wider.depth, wider.fused, wider.elements) == (3, True, 8)
    fixed = Fixed(1, fused=True)  # type: ignore[call-arg]
    assert (fixed.rows, fixed.fused) == (1, True)


def test_fields_of_dataclasses_that_are_not_given_are_unset() -> None:
    layer: Any = Layer()  # type: ignore[call-arg]
    assert (layer.rows, layer.columns, layer.elements) == (None, 4, None)
    assert Fixed().rows is None  # type: ignore[call-arg]
    assert Data().b == []  # type: ignore[call-arg]


def test_dataclasses_refuse_what_nobody_named() -> None:
    with pytest.raises(TypeError, match=r"Layer\(\) got 'row', which is no field; allowed: rows, "):
        Layer(row=3)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="too many positional arguments"):
        Layer(1, 2, 3, 4)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="multiple values"):
        Layer(1, rows=2)  # type: ignore[misc]


class Loose(nl.NKIObject):
    rows: int
    fused = False


def test_plain_subclasses_take_what_their_body_names() -> None:
    loose: Any = Loose(rows=1, fused=True)
    assert (loose.rows, loose.fused, Loose.fused) == (1, True, False)
    with pytest.raises(TypeError, match=r"allowed: rows, fused"):
        Loose(fuse=True)


class Undecorated(Layer):
    name: str
    depth: int = 7


def test_subclasses_of_dataclasses_without_the_decorator() -> None:
    item: Any = Undecorated(2, name="x", fused=True)  # type: ignore[call-arg]
    assert (item.rows, item.columns, item.name, item.depth, item.fused) == (2, 4, "x", 7, True)
    assert item.elements == 16
    assert Undecorated(1).name is None
