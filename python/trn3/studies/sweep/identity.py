"""What tells one sweep from another: the function, its version, the grid."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

from trn3.studies.sweep.errors import SweepCheckpointError
from trn3.studies.sweep.grid import ListedGrid, ProductGrid, describe
from trn3.studies.sweep.journal import digest_of_all
from trn3.studies.sweep.values import Json, UnsupportedValueError, ValueCodec, class_name


def header_of(
    fn: Callable[..., Any],
    version: str | int | None,
    grid: ProductGrid | ListedGrid,
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
            name: {"length": len(values), "digest": digest_of_all(codec, name, iter(values))}
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
