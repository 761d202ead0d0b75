"""Arrays of collectives on their way to the core and back."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from trn3.collectives.engine import CollectiveEngine
from trn3.collectives.groups import Ranks
from trn3.facts.mappings import FrozenMapping

if TYPE_CHECKING:
    from trn3.numerics import Xorwow

Rounding: TypeAlias = Literal["nearest", "zero", "stochastic"]
Order: TypeAlias = Literal["schedule", "index"]

_FLOATS = {
    "float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2", "float8_e4m3", "float8_e3m4",
    "float4_e2m1fn",
}  # fmt: skip
_SHORT = {"fp32": "float32", "fp16": "float16", "bf16": "bfloat16", "tf32": "tfloat32"}
_EXACT = {"float64", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"}


@dataclass(frozen=True, slots=True)
class Asked:
    """What of a collective its schedule depends on, as the core takes it."""

    operation: str
    algorithm: str
    groups: tuple[tuple[int, ...], ...]
    ranks_per_chip: int
    root: int = 0
    pairs: tuple[tuple[int, int], ...] = ()

    def __post_init__(self) -> None:
        given: object = self.algorithm
        if not isinstance(given, str):
            message = f"algorithm is {given!r}; needed: a name, like 'auto' or 'ring'"
            raise TypeError(message)


def as_arrays(
    arrays: Iterable[ArrayLike], ranks_of: Callable[[int], Ranks]
) -> tuple[list[NDArray[Any]], Ranks]:
    """Return the arrays, flat, and the groups; those of several groups may come in lists."""
    given = list(arrays)
    if given and all(
        isinstance(entry, list | tuple) and entry and isinstance(entry[0], np.ndarray)
        for entry in given
    ):
        given = [array for entry in given for array in cast("list[ArrayLike]", entry)]
    ranks = ranks_of(len(given))
    return [np.asarray(array) for array in given], ranks


def check_same(arrays: Sequence[NDArray[Any]]) -> None:
    """Refuse arrays that differ in shape or dtype."""
    for index, array in enumerate(arrays):
        for what, got, first in (
            ("shape", array.shape, arrays[0].shape),
            ("dtype", array.dtype, arrays[0].dtype),
        ):
            if got != first:
                message = f"arrays[{index}] has {what} {got}, arrays[0] has {first}; all must agree"
                raise ValueError(message)


def bytes_of(array: NDArray[Any]) -> NDArray[np.uint8]:
    """Return an array's bytes, native and in C order."""
    if not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def _kind(dtype: np.dtype[Any]) -> str:
    if dtype.hasobject:
        message = f"arrays have dtype {dtype}; Python objects cannot be sent"
        raise TypeError(message)
    return dtype.name if dtype.name in _FLOATS | _EXACT else "opaque"


def _format(argument: str, dtype: DTypeLike | None) -> tuple[str | None, np.dtype[Any] | None]:
    """Return the name of a format and the dtype of its arrays."""
    if dtype is None:
        return None, None
    from trn3.numerics import tfloat32

    if isinstance(dtype, str):
        dtype = _SHORT.get(dtype, dtype)
    if dtype is tfloat32 or (isinstance(dtype, str) and dtype == "tfloat32"):
        return "tfloat32", np.dtype(np.float32)
    try:
        found = np.dtype(dtype)
    except TypeError:
        import ml_dtypes

        named = getattr(ml_dtypes, dtype, None) if isinstance(dtype, str) else None
        if named is None:
            message = (
                f"{argument} is {dtype!r}; allowed: None, tfloat32, {', '.join(sorted(_FLOATS))}"
            )
            raise ValueError(message) from None
        found = np.dtype(named)
    return found.name, found


def _item_bytes(dtype: np.dtype[Any], wire: str | None) -> float:
    name = wire or dtype.name
    if name == "float4_e2m1fn":
        return 0.5
    if wire is None:
        return dtype.itemsize
    return 4 if wire == "tfloat32" else _format("dtype", wire)[1].itemsize  # type: ignore[union-attr]


def _generator(rng: Xorwow | int | None) -> Xorwow | None:
    from trn3.numerics import Xorwow

    return rng if rng is None or isinstance(rng, Xorwow) else Xorwow.seed(rng)


def described(found: Mapping[str, Any], ranks: int) -> dict[str, Any]:
    """Return the fields of a `CollectiveCost` from what the core says."""
    return {
        "operation": found["operation"],
        "bytes": found["bytes"],
        "ranks": ranks,
        "time": found["time"],
        "steps": found["steps"],
        "latency": found["latency"],
        "bytes_by_link": FrozenMapping(dict(found["bytes_by_link"])),
        "algorithm": found["algorithm"],
        "variant": found["variant"],
        "binding": found["binding"],
        "hbm_touches": found["hbm_touches"],
        "hbm_bytes": found["hbm_bytes"],
        "remote_bytes": found["remote_bytes"],
        "order": found["order"],
        "assumptions": tuple(found["assumptions"]),
        "time_low": found["time_low"],
        "time_high": found["time_high"],
        "band": FrozenMapping(dict(found["band"])),
        "start": found["start"],
    }


@dataclass(frozen=True, slots=True)
class Numbers:
    """How a collective computes."""

    op: str = "add"
    dtype: DTypeLike | None = None
    rounding: Rounding = "nearest"
    rng: Xorwow | int | None = None
    order: Order = "schedule"
    out_dtype: DTypeLike | None = None

    def __post_init__(self) -> None:
        # Kernels name operations by functions: np.add, nl.maximum.
        given: object = getattr(self.op, "__name__", self.op)
        if not isinstance(given, str):
            message = f"op is {given!r}; allowed: 'add', 'max', 'min'"
            raise TypeError(message)
        object.__setattr__(self, "op", given)


@dataclass(frozen=True, slots=True)
class AskedNumbers:
    """How a collective computes, as the core takes it: formats by their names."""

    reduction: str
    element: str
    item_size: int
    wire: str | None
    out: str | None
    rounding: str
    order: str
    rng: Xorwow | None


def run(
    operation: str,
    where: CollectiveEngine,
    arrays: list[NDArray[Any]],
    ranks: Ranks,
    algorithm: str,
    numbers: Numbers,
    size: Callable[[int], int],
    root: int = 0,
    pairs: tuple[tuple[int, int], ...] = (),
) -> tuple[dict[str, Any], list[NDArray[Any]]]:
    """Time and execute on arrays of one shape; return flat outputs. `size` counts elements."""
    check_same(arrays)
    if numbers.order == "index" and numbers.dtype is not None:
        message = (
            f"dtype is {numbers.dtype!r} with order='index', which adds in float32; allowed: None, "
            "and out_dtype for the result"
        )
        raise ValueError(message)
    kind = _kind(arrays[0].dtype)
    wire, _ = _format("dtype", numbers.dtype)
    if kind in _EXACT and wire == kind:
        wire = None
    out, out_dtype = _format("out_dtype", numbers.out_dtype)
    if kind in _EXACT and out == kind:
        out = None
    size_bytes = size(arrays[0].size) * _item_bytes(
        arrays[0].dtype, wire if kind in _FLOATS else None
    )
    asked = Asked(operation, algorithm, ranks.lists, ranks.ranks_per_chip, root, pairs)
    core = where.core
    facts = core.cost(asked, size_bytes, True, False)
    asked_numbers = AskedNumbers(
        numbers.op,
        kind,
        arrays[0].dtype.itemsize,
        wire,
        out,
        numbers.rounding,
        numbers.order,
        _generator(numbers.rng),
    )
    outputs: list[NDArray[Any]] = []
    flat = [bytes_of(array) for array in arrays]
    result = (
        out_dtype
        if out is not None and out_dtype is not None
        else arrays[0].dtype.newbyteorder("=")
    )
    for index, group in enumerate(ranks.lists):
        part = Asked(operation, facts["form"], (group,), ranks.ranks_per_chip, root, pairs)
        produced = core.execute(
            part, asked_numbers, flat[index * ranks.size : (index + 1) * ranks.size]
        )
        outputs.extend(buffer.view(result) for buffer in produced)
    made = described(facts, ranks.size)
    extra = []
    if kind == "float64":
        extra.append("float64 is no type of the hardware; it is moved and added as the host does")
    if numbers.order == "index" and operation in {"all_reduce", "reduce_scatter"}:
        made["order"] = "ascending positions in float32, rounded once, whatever the schedule"
        extra.append(f"order of additions: {made['order']}")
    made["assumptions"] = (*made["assumptions"], *extra)
    return made, outputs


def as_table(argument: str, value: ArrayLike, n: int) -> NDArray[np.int64]:
    """Return a table of counts from each rank to each."""
    table = np.asarray(value)
    if table.shape != (n, n) or table.dtype.kind not in "iu":
        came = f"shape {table.shape} and dtype {table.dtype}"
        message = f"{argument} has {came}; needed: ({n}, {n}) whole numbers"
        raise ValueError(message)
    if table.size and int(table.min()) < 0:
        message = f"{argument} has {int(table.min())}; must not be negative"
        raise ValueError(message)
    return table.astype(np.int64)


def check_dtype(arrays: Sequence[NDArray[Any]]) -> None:
    """Refuse arrays that differ in dtype."""
    for index, array in enumerate(arrays):
        if array.dtype != arrays[0].dtype:
            first = arrays[0].dtype
            message = (
                f"arrays[{index}] has dtype {array.dtype}, arrays[0] has {first}; all must agree"
            )
            raise ValueError(message)
    _kind(arrays[0].dtype)


def checked_axis(array: NDArray[Any], axis: int) -> int:
    """Return an axis counted from the front."""
    if not -array.ndim <= axis < array.ndim:
        message = f"axis is {axis}; arrays have {array.ndim} axes, and at least one is needed"
        raise ValueError(message)
    return axis % array.ndim


def split(array: NDArray[Any], parts: int, axis: int) -> NDArray[Any]:
    """Return [parts, *shape of a part]."""
    length = array.shape[axis]
    if length % parts:
        up = -(-length // parts) * parts
        message = (
            f"arrays have length {length} along axis {axis}, which {parts} ranks do not divide; "
            f"{up} would do"
        )
        raise ValueError(message)
    shape = (*array.shape[:axis], parts, length // parts, *array.shape[axis + 1 :])
    return np.moveaxis(array.reshape(shape), axis, 0)


def join(parts: NDArray[Any], axis: int) -> NDArray[Any]:
    """Return [parts, *shape] joined along an axis of the shape."""
    moved = np.moveaxis(parts, 0, axis)
    shape = list(parts.shape[1:])
    shape[axis] *= parts.shape[0]
    return np.ascontiguousarray(moved).reshape(shape)
