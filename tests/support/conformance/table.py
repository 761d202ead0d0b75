"""A call of an instruction on tiles, what it leaves in them, and the calls that are refused."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import ml_dtypes
import numpy as np
import pytest
from numpy.typing import NDArray

from support.core import Machine
from support.engines import TYPES, cast
from trn3.machine import NkiTensor
from trn3.nki import isa

#: NumPy types by NKI's names, packed ones as the unsigned integers that hold their bits.
KINDS: Final[dict[str, Any]] = {
    **TYPES,
    "tfloat32": np.float32,
    "float8_e8m0fnu": ml_dtypes.float8_e8m0fnu,
    "float8_e4m3fn_x4": np.uint32,
    "float8_e5m2_x4": np.uint32,
    "float4_e2m1fn_x4": np.uint16,
}

Array = NDArray[Any]


@dataclass(frozen=True)
class Tile:
    """A tensor to make for a call.

    Attributes
    ----------
    values
        What it holds before; a shape means that nothing was written.
    view
        What the call gets of it; expected values are those of the whole.
    """

    values: Array | tuple[int, ...]
    dtype: str = "float32"
    buffer: str = "sbuf"
    view: Callable[[NkiTensor], NkiTensor] | None = None


@dataclass(frozen=True)
class Close:
    """An exact result in float64, and how far float32 may be from it before the last cast."""

    values: Array
    ulps: float = 2.0


@dataclass(frozen=True)
class Call:
    """Arguments of one call, and the values of tiles after it.

    Attributes
    ----------
    arguments
        Keyword arguments; `Tile` and lists of them become tensors.
    expected
        By argument: the elements of the whole tile, exactly, or `Close` to them.
    before
        Calls on the same tiles that come first: function and arguments that differ.
    """

    arguments: Mapping[str, Any]
    expected: Mapping[str, Array | Close] = field(default_factory=dict)
    before: tuple[tuple[str, Mapping[str, Any]], ...] = ()


@dataclass(frozen=True)
class Script:
    """Calls that are no single one on tiles; `run` compares by itself."""

    run: Callable[[Machine], None]


@dataclass(frozen=True)
class Launch:
    """A kernel of its own, on cores of its own; `run` compares by itself."""

    run: Callable[[], None]


@dataclass(frozen=True)
class Row:
    """One row of a function's table."""

    function: str
    label: str
    build: Callable[[np.random.Generator], Call | Script | Launch]
    arch: str = "trn3"

    @property
    def id(self) -> str:
        """What pytest calls it."""
        return f"{self.function}-{self.label}"

    def check(self) -> None:
        """Run the call and compare; time passes too."""
        call = self.build(self._generator())
        if isinstance(call, Launch):
            call.run()
            return
        with Machine(self.arch) as machine:
            if isinstance(call, Script):
                call.run(machine)
                return
            tiles = Tiles(machine)
            for function, arguments in call.before:
                getattr(isa, function)(**tiles.all(arguments))
            getattr(isa, self.function)(**tiles.all(call.arguments))
            assert machine.core.makespan() > 0
            for name, expected in call.expected.items():
                compare(tiles.read(name), expected)

    def _generator(self) -> np.random.Generator:
        return np.random.default_rng(zlib.crc32(self.id.encode()))


@dataclass(frozen=True)
class Refusal:
    """One call that a function must refuse.

    Attributes
    ----------
    match
        Regular expression found in the message.
    """

    function: str
    label: str
    arguments: Callable[[], Mapping[str, Any]]
    match: str
    error: type[Exception] | tuple[type[Exception], ...] = isa.NkiValidationError
    arch: str = "trn3"

    @property
    def id(self) -> str:
        """What pytest calls it."""
        return f"{self.function}-{self.label}"

    def check(self) -> None:
        """Run the call; it raises and leaves no instruction behind."""
        with Machine(self.arch) as machine:
            arguments = Tiles(machine).all(self.arguments())
            issued = machine.core.issued
            with pytest.raises(self.error, match=self.match):
                getattr(isa, self.function)(**arguments)
            assert machine.core.issued == issued


def keyword(build: Callable[..., Call | Script]) -> Callable[[np.random.Generator], Call | Script]:
    """Return a builder that gets its generator by name."""
    return lambda rng: build(rng=rng)


class Tiles:
    """Tensors made for the arguments of calls; the same `Tile` is one tensor."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._made: dict[int, NkiTensor] = {}
        self._named: dict[str, Tile] = {}
        # Keeps each alive: made ones are known by identity.
        self._kept: list[Tile] = []

    def all(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return arguments with tensors in place of tiles."""
        return {name: self._argument(name, value) for name, value in arguments.items()}

    def _argument(self, name: str, value: Any) -> Any:
        if isinstance(value, list) and value and isinstance(value[0], Tile):
            return [self._argument(f"{name}{i}", item) for i, item in enumerate(value)]
        if not isinstance(value, Tile):
            return value
        self._named[name] = value
        if id(value) not in self._made:
            self._kept.append(value)
            self._made[id(value)] = self._make(value)
        tensor = self._made[id(value)]
        return tensor if value.view is None else value.view(tensor)

    def _make(self, tile: Tile) -> NkiTensor:
        if isinstance(tile.values, tuple):
            return self._machine.empty(tile.values, tile.dtype, tile.buffer)
        values = cast(tile.values, tile.dtype).astype(KINDS[tile.dtype], copy=False)
        made = self._machine.empty(values.shape, tile.dtype, tile.buffer)
        codes = np.ascontiguousarray(values).reshape(-1).view(np.uint8)
        self._machine.core.write_bytes(made, codes)
        return made

    def read(self, name: str) -> Array:
        """Return the elements of a tile."""
        tile = self._named[name]
        made = self._made[id(tile)]
        codes: Array = self._machine.core.read(made).view(KINDS[tile.dtype])
        return codes.reshape(made.shape)


def compare(got: Array, expected: Array | Close) -> None:
    """Demand equal values (all NaN are one, zeros have signs), or close ones."""
    if isinstance(expected, np.ndarray):
        wanted = np.asarray(expected)
        assert got.dtype == wanted.dtype
        assert got.size == wanted.size
        flat, wanted = got.reshape(-1), wanted.reshape(-1)
        same = flat.view(f"u{flat.itemsize}") == wanted.view(f"u{flat.itemsize}")
        if got.dtype.kind not in "iub":
            same |= np.isnan(flat.astype(np.float32)) & np.isnan(wanted.astype(np.float32))
        wrong = np.flatnonzero(~same)
        assert not wrong.size, (
            f"{wrong.size} differ, first {wrong[0]}: {flat[wrong[0]]} for {wanted[wrong[0]]}"
        )
        return
    assert isinstance(expected, Close)
    exact = expected.values.astype(np.float64)
    with np.errstate(over="ignore", invalid="ignore"):
        near = exact.astype(np.float32)
        reach = expected.ulps * np.spacing(np.abs(near)).astype(np.float64)
        low, high = ((exact + side).astype(np.float32) for side in (-reach, reach))
    name = next(name for name, kind in KINDS.items() if got.dtype == kind)
    found = got.astype(np.float64).reshape(exact.shape)
    with np.errstate(invalid="ignore"):
        inside = (cast(low, name).astype(np.float64) <= found) & (
            found <= cast(high, name).astype(np.float64)
        )
    inside |= np.isnan(exact) & np.isnan(found)
    wrong = np.flatnonzero(~inside)
    assert not wrong.size, (
        f"{wrong.size} differ, first {wrong[0]}: {found.flat[wrong[0]]} for {exact.flat[wrong[0]]}"
    )
