"""Results of `trn3.torch` held against torch in float64 and in the types of the program."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import torch
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils import _pytree as pytree

from trn3.torch.conversion import convert
from trn3.torch.decompositions import decompositions
from trn3.torch.held_tensors import array_of, tensor_of

# Of the largest magnitude: of float32, of its gradients, and of bfloat16's 8 bits.
FLOAT32 = 2e-3
GRADIENT = 2e-2
BFLOAT16 = 3e-2


def widened(value: Any) -> Any:
    """Return tensors and modules with every float as float64, copies where they were none."""
    if isinstance(value, torch.nn.Module):
        return copy.deepcopy(value).double()
    if isinstance(value, torch.Tensor) and value.is_floating_point():
        return value.detach().double().requires_grad_(value.requires_grad)
    return value


def assert_close(found: Any, expected: Any, bound: float = FLOAT32) -> None:
    """Hold trees against each other: floats within `bound` of the largest, all else exactly."""
    ours, tree = pytree.tree_flatten(found)
    theirs, other = pytree.tree_flatten(expected)
    assert str(tree) == str(other)
    for one, wanted in zip(ours, theirs, strict=True):
        if not isinstance(wanted, torch.Tensor):
            assert one == wanted
            continue
        assert one.shape == wanted.shape
        if not wanted.is_floating_point():
            assert one.dtype == wanted.dtype
            assert torch.equal(one, wanted)
            continue
        x, y = one.detach().double().numpy(), wanted.detach().double().numpy()
        is_finite = np.isfinite(y)
        np.testing.assert_array_equal(x[~is_finite], y[~is_finite])
        largest = np.abs(y[is_finite]).max(initial=1e-30)
        np.testing.assert_allclose(x[is_finite], y[is_finite], rtol=0, atol=bound * largest)


def run_traced(function: Any, *args: Any, **kwargs: Any) -> Any:
    """Run a function of tensors as `trn3.torch` does, without the capture of Python by torch."""
    leaves, tree = pytree.tree_flatten((args, kwargs))
    places = [place for place, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]
    results: list[Any] = []

    def plain(*tensors: Any) -> list[Any]:
        full = list(leaves)
        for place, tensor in zip(places, tensors, strict=True):
            # A copy, so that what the function changes is its own.
            full[place] = tensor.clone()
        own_args, own_kwargs = pytree.tree_unflatten(full, tree)
        flat, shape = pytree.tree_flatten(function(*own_args, **own_kwargs))
        results[:] = [shape]
        return list(flat)

    tensors = [leaves[place] for place in places]
    with torch.no_grad():
        module: Any = plain
        # Twice: decompositions write in place themselves.
        for _ in range(2):
            pure = torch.func.functionalize(module, remove="mutations")
            module = make_fx(pure, decompositions(), tracing_mode="fake")(*tensors)
    converted = convert(module, "function")
    assert not converted.drawn
    inputs = [array_of(tensors[place]) for place in converted.arguments]
    made = iter(converted.graph().execute(inputs))
    flat = [
        tensor_of(next(made), like) if isinstance(like, torch.Tensor) else like
        for like in converted.outputs
    ]
    return pytree.tree_unflatten(flat, results[0])
