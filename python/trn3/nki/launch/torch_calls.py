"""Kernels inside graphs of torch: ``torch.compile``, ``torch.export``, bodies of custom operators.

A call is one operator, ``trn3::kernel``, of arrays and the name of all else: functional, whatever
the kernel writes to, so that AOTAutograd has nothing to know of it.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
import torch._dynamo
from numpy.typing import NDArray
from torch.utils import _pytree

from trn3.graph.kernels import KERNELS
from trn3.nki.launch.arguments import Arguments
from trn3.nki.launch.given_kernel import GivenKernel
from trn3.nki.values import arrays
from trn3.nki.values.element_types import DType, canonicalise, canonicalise_array, torch_dtype
from trn3.nki.values.kernel_function import kernel_of

__all__ = ["CapturedBrackets", "CapturedKernel", "captured", "within_graph"]

_numbers = itertools.count()
_calls: dict[Any, CapturedKernel] = {}


class CapturedKernel(GivenKernel):
    """A kernel with its arguments, in a graph of torch: arrays in, arrays out.

    What shapes and types come back, and which arguments the kernel writes to, is found by one run
    on zeros (**choice**); what it returns beside arrays is that run's.

    Attributes
    ----------
    number : str
        What the graph calls it, as `trn3.graph.kernels.KERNELS` has it.
    kinds : list of (dtype of torch, shape)
        Of the arrays that it takes.
    made : list of (dtype of torch, shape)
        Of those that it gives: what it returns, then the arguments that it writes to, as they are
        afterwards.
    """

    def __init__(
        self,
        kernel: Any,
        leaves: list[Any],
        places: list[list[int]],
        structure: Any,
        kinds: list[tuple[Any, tuple[int, ...]]],
    ) -> None:
        def unflatten(given: list[Any]) -> Any:
            for first, *others in places:
                for other in others:
                    given[other] = given[first]
            return _pytree.tree_unflatten(given, structure)

        super().__init__(kernel, leaves, [first for first, *_ in places], unflatten)
        self.number = f"{kernel.name}.{next(_numbers)}"
        self.kinds = kinds
        self._written: list[int] = []
        zeros = [np.zeros(shape, _numpy_dtype(dtype)) for dtype, shape in kinds]
        self._tried, self._tree = _pytree.tree_flatten(self._run(zeros, self._notice(zeros)))
        known = {id(zero): i for i, zero in enumerate(zeros)}
        # Where an argument is returned itself: which one.
        self._same = {i: known[id(each)] for i, each in enumerate(self._tried) if id(each) in known}
        self._kept = [
            i
            for i, each in enumerate(self._tried)
            if isinstance(each, np.ndarray) and i not in self._same
        ]
        self.made = [_kind(self._tried[i]) for i in self._kept]
        self.made += [kinds[i] for i in self._written]
        KERNELS[self.number] = self

    def _notice(self, zeros: list[NDArray[Any]]) -> Any:
        def observe(given: Arguments, _: Any) -> None:
            written = {identity for identity, _ in given.updated()}
            self._written = [i for i, zero in enumerate(zeros) if id(zero) in written]

        return observe

    def _run(self, given: Sequence[NDArray[Any]], observe: Any = None) -> Any:
        args, kwargs = self._arguments(given)
        cores = self._kernel.cores(timing=False, nan_origin=self._kernel.nan_origin)
        return self._kernel.launch_ranks([cores], [(args, kwargs)], observe=observe)[0]

    def __call__(self, *given: Any) -> list[NDArray[Any]]:
        """Run the kernel on arrays, each in a copy of its own; the arrays that it gives."""
        copies = [np.array(array) for array in given]
        found = _pytree.tree_leaves(self._run(copies))
        return [np.asarray(found[i]) for i in self._kept] + [copies[i] for i in self._written]

    def returned(self, given: Sequence[Any], made: Sequence[Any]) -> Any:
        """Write to arguments what the kernel wrote to them; what the kernel returns, as tensors."""
        with torch.no_grad():
            for i, tensor in zip(self._written, made[len(self._kept) :], strict=True):
                given[i].copy_(tensor)
        results = list(self._tried)
        for i, place in self._same.items():
            results[i] = given[place]
        for i, tensor in zip(self._kept, made, strict=False):
            results[i] = tensor
        return _pytree.tree_unflatten(results, self._tree)


def _kind(array: NDArray[Any]) -> tuple[Any, tuple[int, ...]]:
    return torch_dtype(canonicalise_array(array.dtype, "a result")), array.shape


@functools.cache
def _numpy_dtype(dtype: Any) -> np.dtype[Any]:
    """Return the type of NumPy or ml_dtypes that arrays of torch have in kernels."""
    name = str(dtype).removeprefix("torch.")
    return np.dtype(name) if name in np.sctypeDict else canonicalise(dtype).dtype


def _plain(leaf: Any) -> Any:
    """Return a number that torch may know as a symbol: that of this call, which is then guarded."""
    for symbol, kind in ((torch.SymInt, int), (torch.SymFloat, float), (torch.SymBool, bool)):
        if isinstance(leaf, symbol):
            return kind(leaf)
    return leaf


def within_graph(kernel: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Put a kernel into the graph that torch makes.

    Parameters
    ----------
    kernel : Kernel
    args, kwargs
        Its arguments; tensors may be without values.

    Returns
    -------
    what the kernel returns, as tensors of the graph
    """
    leaves, structure = _pytree.tree_flatten((args, kwargs))
    leaves = [_plain(leaf) for leaf in leaves]
    tensors: dict[int, Any] = {}
    places: dict[int, list[int]] = {}
    for place, leaf in enumerate(leaves):
        if isinstance(leaf, torch.Tensor):
            # One tensor given twice is one, so that writes through either show in both.
            tensors[id(leaf)] = leaf
            places.setdefault(id(leaf), []).append(place)
            leaves[place] = None
    given = list(tensors.values())
    call = _call(kernel, leaves, list(places.values()), structure, [_of(each) for each in given])
    return call.returned(given, _kernel(given, call.number))


def _of(tensor: Any) -> tuple[Any, tuple[int, ...]]:
    return tensor.dtype, tuple(int(length) for length in tensor.shape)


def _call(
    kernel: Any, leaves: list[Any], places: Any, structure: Any, kinds: Any
) -> CapturedKernel:
    """Return the call of these arguments; torch goes through each several times."""
    typed = tuple((type(leaf), leaf) for leaf in leaves)
    key = (kernel.identity, typed, str(places), str(structure), tuple(kinds))
    try:
        found = _calls.get(key)
    except TypeError:  # an argument without a hash is nobody else's
        return CapturedKernel(kernel, leaves, places, structure, kinds)
    if found is None:
        found = _calls[key] = CapturedKernel(kernel, leaves, places, structure, kinds)
    return found


def _operator(name: str) -> Any:
    return torch.library.custom_op(f"trn3::{name}", mutates_args=())


@_operator("kernel")
def _kernel(given: list[torch.Tensor], number: str) -> list[torch.Tensor]:
    inputs = [arrays.as_numpy(tensor, "torch", "an argument") for tensor in given]
    found = KERNELS[number](*inputs)
    kinds = [canonicalise_array(array.dtype, "a result") for array in found]
    pairs = zip(found, kinds, strict=True)
    return [arrays.from_numpy(array, "torch", dtype) for array, dtype in pairs]


@_kernel.register_fake
def _(given: Any, number: str) -> Any:
    del given
    made: Any = KERNELS[number]
    return [torch.empty(shape, dtype=dtype, device="cpu") for dtype, shape in made.made]


@_operator("kernel_without_gradient")
def _refused(gradients: list[torch.Tensor], number: str) -> list[torch.Tensor]:
    del gradients
    message = (
        f"{KERNELS[number].name} has no gradient of its own; give it one by "
        "torch.autograd.Function, or torch.library.register_autograd"
    )
    raise NotImplementedError(message)


@_refused.register_fake
def _(gradients: Any, number: str) -> Any:
    del gradients
    call: Any = KERNELS[number]
    return [torch.empty(shape, dtype=dtype, device="cpu") for dtype, shape in call.kinds]


def _remember(ctx: Any, inputs: Any, output: Any) -> None:
    del output
    ctx.number = inputs[1]


def _backward(ctx: Any, gradients: Any) -> Any:
    # Who never asks for gradients is not refused: the operator is, when it runs.
    came = [each for each in gradients if each is not None]
    return _refused(came, ctx.number), None


_kernel.register_autograd(_backward, setup_context=_remember)


# Where a graph broke here, the kernel is run, and raises what it raises.
@torch._dynamo.disable
def _called(identity: str, axes: Any, args: Any, kwargs: Any) -> Any:
    kernel = kernel_of(identity)
    return within_graph(kernel if axes is None else _bracketed(kernel, axes), args, kwargs)


@functools.lru_cache(maxsize=256)
def _bracketed(kernel: Any, axes: Any) -> Any:
    return kernel[axes]


def _captured(identity: str, axes: Any, args: Any, kwargs: Any) -> Any:
    return _called(identity, axes, args, kwargs)


#: What Dynamo puts into its graph as it is; AOTAutograd goes through it.
captured: Any = getattr(torch._dynamo, "nonstrict_trace", torch._dynamo.disable)(_captured)


class CapturedBrackets:
    """A kernel with what stands in brackets behind it, while Dynamo goes through the call."""

    def __init__(self, kernel: Any, axes: Any) -> None:
        self._kernel = kernel
        self._axes = axes

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Put the call into the graph."""
        return captured(self._kernel.identity, self._axes, args, kwargs)


# Element types stand among arguments.
_pytree.register_constant(DType)
