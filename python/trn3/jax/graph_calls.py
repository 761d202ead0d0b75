"""Operations of graphs that JAX has no word for, as functions of JAX.

Compiled by `trn3.jax.compile` they become these operations; anywhere else, eager, jitted or inside
other transformations, Python is called back and computes the same bits.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import jax
import numpy as np
from jax import lax

from trn3.graph.alone import run_alone
from trn3.graph.writing import TensorType

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

__all__ = ["ATTRIBUTES_KEY", "TARGET", "call_operation"]

# What names of calls in StableHLO begin with, and where their attributes stand.
TARGET = "trn3.graph."
ATTRIBUTES_KEY = "attributes"


def call_operation(
    op: str, operands: Sequence[Any], results: Sequence[Any], attributes: dict[str, Any]
) -> list[Any]:
    """Call an operation of graphs.

    Parameters
    ----------
    op : str
        Its name in graphs.
    operands : sequence of array
        Of JAX, traced or not.
    results : sequence of jax.ShapeDtypeStruct
        What it makes.
    attributes : dict
        Its attributes.

    Raises
    ------
    NotImplementedError
        Under a JAX that has no `jax.ffi`.
    """
    ffi: Any = getattr(jax, "ffi", None)
    if ffi is None:
        message = f"{op} needs jax.ffi, which JAX {jax.__version__} does not have; allowed: >= 0.5"
        raise NotImplementedError(message)
    text = json.dumps(attributes, sort_keys=True)
    kinds = tuple(results)

    def on_host(*values: Any) -> tuple[NDArray[Any], ...]:
        made = [TensorType(np.dtype(kind.dtype).name, tuple(kind.shape)) for kind in kinds]
        return tuple(run_alone(op, [np.asarray(value) for value in values], made, text))

    def by_callback(*values: Any) -> Any:
        return jax.pure_callback(on_host, kinds, *values, vmap_method="sequential")

    def in_graph(*values: Any) -> Any:
        call = ffi.ffi_call(TARGET + op, kinds, vmap_method="sequential")
        return tuple(call(*values, **{ATTRIBUTES_KEY: text}))

    return list(lax.platform_dependent(*operands, neuron=in_graph, default=by_callback))
