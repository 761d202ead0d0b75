"""Attributes of StableHLO's operations as graphs have them, by table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["ATTRIBUTES"]

Attributes = dict[str, Any]


def _renamed(**names: str) -> Callable[[Attributes], Attributes]:
    """Attributes of a graph's operation, by the names that StableHLO has for them."""
    return lambda given: {name: given[old] for name, old in names.items()}


def _rows(padding: Any, axes: int) -> list[list[int]]:
    """Return low and high padding by axis; one number stands for all."""
    return (
        [[int(value) for value in row] for row in padding.reshape(axes, 2)]
        if (padding.ndim)
        else [[int(padding)] * 2] * axes
    )


def _window(given: Attributes) -> Attributes:
    window = given["window_dimensions"]
    ones = [1] * len(window)
    padding = given.get("padding")
    return {
        "window": window,
        "strides": given.get("window_strides", ones),
        "padding": [[0, 0]] * len(window) if padding is None else _rows(padding, len(window)),
    }


def _reduce_window(given: Attributes) -> Attributes:
    ones = [1] * len(given["window_dimensions"])
    return _window(given) | {
        "base_dilations": given.get("base_dilations", ones),
        "window_dilations": given.get("window_dilations", ones),
    }


def _compare(given: Attributes) -> Attributes:
    return {"direction": given["comparison_direction"].lower()}


def _dot_general(given: Attributes) -> Attributes:
    numbers = given["dot_dimension_numbers"]
    return {
        name: [numbers.get(f"{side}_{long}_dimensions", []) for side in ("lhs", "rhs")]
        for name, long in (("contracting", "contracting"), ("batch", "batching"))
    }


def _layout(axes: list[str], first: str, second: str, names: tuple[str, str]) -> Attributes:
    spatial = [axes.index(str(place)) for place in range(len(axes) - 2)]
    return {names[0]: axes.index(first), names[1]: axes.index(second), "spatial": spatial}


def _convolution(given: Attributes) -> Attributes:
    layouts = given["dimension_numbers"]
    axes = len(layouts["lhs"]) - 2
    ones = [1] * axes
    outer, inner = ("batch", "feature"), ("input_feature", "output_feature")
    padding = given.get("padding")
    return {
        "window_strides": given.get("window_strides", ones),
        "padding": [[0, 0]] * axes if padding is None else _rows(padding, axes),
        "lhs_dilation": given.get("lhs_dilation", ones),
        "rhs_dilation": given.get("rhs_dilation", ones),
        "lhs_layout": _layout(layouts["lhs"], "b", "f", outer),
        "rhs_layout": _layout(layouts["rhs"], "i", "o", inner),
        "out_layout": _layout(layouts["out"], "b", "f", outer),
        "feature_groups": given["feature_group_count"],
        "batch_groups": given["batch_group_count"],
    }


_GATHER: tuple[str, ...] = ("offset_dims", "collapsed_slice_dims", "operand_batching_dims")
_GATHER += ("start_indices_batching_dims", "start_index_map")
_SCATTER: tuple[str, ...] = ("update_window_dims", "inserted_window_dims", "input_batching_dims")
_SCATTER += ("scatter_indices_batching_dims", "scatter_dims_to_operand_dims")


def _gather(given: Attributes) -> Attributes:
    numbers = given["dimension_numbers"]
    lists = {name: numbers.get(name, []) for name in _GATHER}
    index = numbers.get("index_vector_dim", 0)
    return lists | {"index_vector_dim": index, "slice_sizes": given["slice_sizes"]}


def _scatter(given: Attributes) -> Attributes:
    numbers = given["scatter_dimension_numbers"]
    lists = {name: numbers.get(name, []) for name in _SCATTER}
    return lists | {"index_vector_dim": numbers.get("index_vector_dim", 0)}


def _lists(given: Any) -> list[list[int]]:
    # One number stands for all of one list of one.
    return np.atleast_2d(given).astype(int).tolist()  # type: ignore[no-any-return]


def _grouped(**names: str) -> Callable[[Attributes], Attributes]:
    """Attributes of a collective: its groups, and others by the names that StableHLO has."""
    others = _renamed(**names)
    return lambda given: {"replica_groups": _lists(given["replica_groups"]), **others(given)}


def _permutation(given: Attributes) -> Attributes:
    pairs = given["source_target_pairs"]
    # A pair of one rank with itself is one number.
    return {"pairs": [[int(pairs)] * 2] if pairs.ndim == 0 else pairs.tolist()}


# Operations that are not here have no attributes in graphs, or a body that says what they do.
ATTRIBUTES: dict[str, Callable[[Attributes], Attributes]] = {
    "stablehlo.all_gather": _grouped(dimension="all_gather_dim"),
    "stablehlo.all_reduce": _grouped(),
    "stablehlo.all_to_all": _grouped(
        split_dimension="split_dimension", concat_dimension="concat_dimension"
    ),
    "stablehlo.broadcast_in_dim": _renamed(dimensions="broadcast_dimensions"),
    "stablehlo.collective_broadcast": _grouped(),
    "stablehlo.collective_permute": _permutation,
    "stablehlo.compare": _compare,
    "stablehlo.concatenate": _renamed(dimension="dimension"),
    "stablehlo.convolution": _convolution,
    "stablehlo.dot_general": _dot_general,
    "stablehlo.dynamic_slice": _renamed(slice_sizes="slice_sizes"),
    "stablehlo.gather": _gather,
    "stablehlo.iota": _renamed(dimension="iota_dimension"),
    "stablehlo.pad": _renamed(
        low="edge_padding_low", high="edge_padding_high", interior="interior_padding"
    ),
    "stablehlo.reduce": _renamed(dimensions="dimensions"),
    "stablehlo.reduce_scatter": _grouped(dimension="scatter_dimension"),
    "stablehlo.reduce_window": _reduce_window,
    "stablehlo.reverse": _renamed(dimensions="dimensions"),
    "stablehlo.rng_bit_generator": lambda given: {"algorithm": given["rng_algorithm"].lower()},
    "stablehlo.scatter": _scatter,
    "stablehlo.select_and_scatter": _window,
    "stablehlo.slice": _renamed(start="start_indices", limit="limit_indices", stride="strides"),
    "stablehlo.sort": _renamed(dimension="dimension", stable="is_stable"),
    "stablehlo.transpose": _renamed(permutation="permutation"),
    "chlo.top_k": _renamed(k="k"),
}
