"""What tells one sweep from another: the function, its version, the grid."""

from __future__ import annotations

import functools
import hashlib
import inspect
from collections.abc import Callable, Iterable
from typing import Any

from trn3.studies.sweep.grid import Grid, Parameters, ProductGrid, describe
from trn3.studies.sweep.values import (
    Json,
    UnsupportedValueError,
    ValueCodec,
    class_name,
    json_text,
)


class SweepCheckpointError(ValueError):
    """A checkpoint is damaged, in use, of another sweep, or cannot hold a value."""


def header_of(
    fn: Callable[..., Any],
    version: str | int | None,
    grid: Grid,
    codec: ValueCodec,
) -> dict[str, Json]:
    """Return the first record of a checkpoint.

    A listed grid is not in it, since its points may come one at a time: each record has a digest of
    its own point's parameters.

    Raises
    ------
    SweepCheckpointError
        If the function has no name that tells it from others, or an axis cannot be stored.
    """
    axes: dict[str, Json] | None = None
    if isinstance(grid, ProductGrid):
        axes = {
            name: {"length": len(values), "digest": digest_of_axis(codec, name, values)}
            for name, values in grid.axes.items()
        }
    return {"function": function_identity(fn, version, codec), "version": version, "axes": axes}


def function_identity(
    fn: Callable[..., Any], version: str | int | None, codec: ValueCodec
) -> dict[str, Json]:
    """Return the function's name and, of a partial one, what it binds."""
    if isinstance(fn, functools.partial):
        try:
            bound = codec.encode([list(fn.args), fn.keywords], f"what {fn!r} binds")
        except UnsupportedValueError as error:
            message = f"with a checkpoint everything a partial binds must be storable: {error}"
            raise SweepCheckpointError(message) from None
        return {**function_identity(fn.func, version, codec), "bound": bound}
    if inspect.isroutine(fn) or inspect.isclass(fn):
        name = describe(fn)
        state = getattr(fn, "__self__", None)
        is_named = "<lambda>" not in name and "<locals>" not in name
        if is_named and (state is None or inspect.ismodule(state) or inspect.isclass(state)):
            return {"name": name}
    else:
        name = class_name(type(fn))
    if version is None:
        message = (
            f"with a checkpoint {describe(fn)} needs a version=: its name alone does not tell it "
            "from another; or use a function of a module, with functools.partial for constants"
        )
        raise SweepCheckpointError(message)
    return {"name": name}


def digest_of(codec: ValueCodec, parameters: Parameters) -> str:
    """Return the digest of one point's parameters; the order of their names does not matter."""
    plain = {
        name: _storable(codec, parameters[name], f"parameter {name!r}")
        for name in sorted(parameters)
    }
    return hashlib.sha256(json_text(plain).encode("ascii")).hexdigest()[:32]


def digest_of_axis(codec: ValueCodec, axis: str, values: Iterable[Any]) -> str:
    """Return the digest of an axis's values, in their order."""
    total = hashlib.sha256()
    for value in values:
        plain = _storable(codec, value, f"a value of axis {axis!r}")
        total.update(json_text(plain).encode("ascii") + b"\n")
    return total.hexdigest()[:32]


def _storable(codec: ValueCodec, value: Any, place: str) -> Json:
    try:
        return codec.encode(value, place)
    except UnsupportedValueError as error:
        message = f"with a checkpoint every parameter must be storable: {error}"
        raise SweepCheckpointError(message) from None
