"""``torch_neuronx`` for scripts: kernels as operators, and models traced for the simulated core."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Iterable
from typing import Any, Final, NoReturn

__all__ = ["NAMES", "NeuronModel", "async_load", "lazy_load", "nki_op", "trace", "wrap_nki"]


def wrap_nki(kernel: Any) -> Any:
    """Return a kernel, which takes tensors, and brackets, as it is."""
    return kernel


def nki_op(
    name: str,
    function: Callable[..., Any] | None = None,
    /,
    *,
    mutates_args: str | Iterable[str] = (),
) -> Any:
    """Make an operator of torch of a function that calls kernels.

    Its shapes are found by going through the function without values, and a graph has what the
    function does in its place, kernels as themselves.

    Parameters
    ----------
    name : str
        ``"namespace::name"``.
    function : callable, optional
        With types of its arguments and of what it returns; a decorator without it.
    mutates_args : iterable of str, optional
        Arguments that it writes to.
    """
    if function is None:
        return functools.partial(_operator, name, mutates_args)
    return _operator(name, mutates_args, function)


def _operator(name: str, mutated: str | Iterable[str], function: Callable[..., Any]) -> Any:
    torch = importlib.import_module("torch")
    functional = importlib.import_module("torch._subclasses.functional_tensor")
    written = mutated if isinstance(mutated, str) else set(mutated)
    made = torch.library.custom_op(name, function, mutates_args=written)
    made.register_fake(function)

    def gone_through(mode: Any, _operator: Any, _types: Any, args: Any, kwargs: Any) -> Any:
        with mode:
            return function(*args, **kwargs)

    made.register_torch_dispatch(functional.FunctionalTensorMode, gone_through)
    return made


class NeuronModel:
    """A model for inputs of one shape each; `trace` makes it."""

    def __init__(self, compiled: Any, shapes: list[Any], no_grad: Any) -> None:
        self._compiled = compiled
        self._shapes = shapes
        self._no_grad = no_grad

    def __call__(self, *inputs: Any) -> Any:
        """Run the model on the simulated core."""
        if _shapes(inputs) != self._shapes:
            message = (
                f"inputs are {_shapes(inputs)}; allowed: what it was traced for, {self._shapes}"
            )
            raise ValueError(message)
        with self._no_grad():
            return self._compiled(*inputs)

    forward = __call__

    def eval(self) -> NeuronModel:
        """Return the model: it is traced for evaluation."""
        return self

    def save(self, *_args: Any, **_options: Any) -> NoReturn:
        """Raise `NotImplementedError`: there is no file of a compiled model."""
        _refuse("a traced model's save", "trace it where it is needed, which takes no compiler")


def _shapes(inputs: Any) -> list[Any]:
    pytree = importlib.import_module("torch.utils._pytree")
    return [
        (str(leaf.dtype).removeprefix("torch."), *leaf.shape) if hasattr(leaf, "dtype") else leaf
        for leaf in pytree.tree_leaves(inputs)
    ]


def trace(func: Any, example_inputs: Any, *_args: Any, **_options: Any) -> NeuronModel:
    """Compile a model for inputs like these, on the simulated core; options are the compiler's.

    Raises
    ------
    GraphError
        For what graphs refuse, with the line.
    """
    torch = importlib.import_module("torch")
    inputs = (
        tuple(example_inputs) if isinstance(example_inputs, tuple | list) else (example_inputs,)
    )
    compiled = torch.compile(func, backend="neuron", dynamic=False, fullgraph=True)
    model = NeuronModel(compiled, _shapes(inputs), torch.no_grad)
    model(*inputs)
    return model


def async_load(trace: Any, enable_async_load: bool = True) -> None:
    """Return: a traced model is loaded nowhere, and ready."""
    del trace, enable_async_load


def lazy_load(trace: Any, enable_lazy_load: bool = True) -> None:
    """Return: a traced model is loaded nowhere, and ready."""
    del trace, enable_lazy_load


def _refuse(name: str, instead: str) -> NoReturn:
    message = f"{name}: trn3 run has no such thing; instead: {instead}"
    raise NotImplementedError(message)


def _refusing(name: str, instead: str) -> Callable[..., NoReturn]:
    def refuse(*_args: Any, **_options: Any) -> NoReturn:
        _refuse(f"torch_neuronx.{name}", instead)

    return refuse


_INSTEAD: Final = {
    "DataParallel": "one core runs the model; trn3.plan answers for several",
    "dynamic_batch": "trace the model once for each shape",
    "analyze": "trn3.torch.account says what each operation takes",
    "replace_weights": "trace the model again",
    "move_trace_to_device": "there is one device",
}

#: What ``torch_neuronx`` holds.
NAMES: Final[dict[str, Any]] = {
    "nki_op": nki_op,
    "wrap_nki": wrap_nki,
    "trace": trace,
    "async_load": async_load,
    "lazy_load": lazy_load,
    **{name: _refusing(name, instead) for name, instead in _INSTEAD.items()},
}
