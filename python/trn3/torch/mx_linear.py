"""Linear layers whose operands are quantised: forward, and in both backward products."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np
import torch
from numpy.typing import NDArray

from trn3.graph.alone import run_alone
from trn3.graph.mx_config import MxDotConfig, MxOperand, MxRecipe
from trn3.graph.writing import TensorType

if TYPE_CHECKING:
    from collections.abc import Collection

__all__ = [
    "MXLinear",
    "MxDotConfig",
    "MxOperand",
    "MxRecipe",
    "mx_dot",
    "to_mx",
]

_PRODUCTS = 3


def _array(tensor: Any) -> NDArray[Any]:
    tensor = tensor.detach().contiguous()
    if tensor.dtype == torch.bfloat16:
        return tensor.view(torch.int16).numpy().view(ml_dtypes.bfloat16)  # type: ignore[no-any-return]
    return tensor.numpy()  # type: ignore[no-any-return]


def _tensor(array: NDArray[Any]) -> Any:
    if array.dtype == ml_dtypes.bfloat16:
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(array)


@torch.library.custom_op("trn3::mx_dot", mutates_args=())
def _mx_dot(
    lhs: torch.Tensor, rhs: torch.Tensor, seed: torch.Tensor | None, attributes: str
) -> torch.Tensor:
    operands = [_array(lhs), _array(rhs)]
    if seed is not None:
        operands.append(np.array(int(seed) % 2**32, np.uint32))
    kind = TensorType(operands[0].dtype.name, tuple(_result_shape(lhs, rhs, attributes)))
    return _tensor(run_alone("mx_dot", operands, [kind], attributes)[0])


@_mx_dot.register_fake
def _(lhs: Any, rhs: Any, seed: Any, attributes: str) -> Any:
    del seed
    return lhs.new_empty(_result_shape(lhs, rhs, attributes))


@torch.library.custom_op("trn3::prune", mutates_args=())
def _prune(w: torch.Tensor, pattern: str, axis: int) -> torch.Tensor:
    array = _array(w)
    kind = TensorType(array.dtype.name, array.shape)
    attributes = json.dumps({"pattern": pattern, "axis": axis})
    return _tensor(run_alone("prune", [array], [kind], attributes)[0])


@_prune.register_fake
def _(w: Any, pattern: str, axis: int) -> Any:
    del pattern, axis
    return w.new_empty(w.shape)


def _result_shape(lhs: Any, rhs: Any, attributes: str) -> list[int]:
    (left,), (right,) = json.loads(attributes)["contracting"]
    return [lhs.shape[1 - left], rhs.shape[1 - right]]


def _one(
    recipe: MxRecipe | None,
    lhs: Any,
    rhs: Any,
    axes: tuple[int, int],
    seed: Any,
    stream: int,
    sparsity: str | None = None,
) -> Any:
    """Multiply two matrices along one axis each."""
    left, right = axes
    if recipe is None and not sparsity:
        return (lhs if left else lhs.T) @ (rhs.T if right else rhs)
    attributes: dict[str, Any] = {"contracting": [[left], [right]], "stream": stream}
    if sparsity:
        attributes["sparsity"] = sparsity
    if recipe is not None:
        attributes |= recipe.attributes()
    own = seed if recipe is not None and recipe.is_random else None
    return _mx_dot(lhs, rhs, own, _json(attributes))


def _json(value: Any) -> str:
    """Write names, counts and lists of counts as JSON, in steps that Dynamo can follow.

    At a call of the module ``json`` it would break the graph.
    """
    if isinstance(value, dict):
        return "{" + ", ".join([f'"{name}": {_json(own)}' for name, own in value.items()]) + "}"
    return f'"{value}"' if isinstance(value, str) else str(value)


class _MxProducts(torch.autograd.Function):
    """``x @ w.T`` and its gradients, each product by its own recipe."""

    @staticmethod
    def forward(ctx: Any, x: Any, w: Any, seed: Any, config: MxDotConfig, stream: int) -> Any:
        if config.sparsity:
            # The backward product has the weights that the forward one had.
            w = _prune(w, config.sparsity, 1)
        ctx.save_for_backward(x, w, seed)
        ctx.config, ctx.stream = config, stream
        return _one(config.forward, x, w, (1, 1), seed, _PRODUCTS * stream, config.sparsity)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        x, w, seed = ctx.saved_tensors
        (g,) = gradients
        first = _PRODUCTS * ctx.stream
        to_input = _one(ctx.config.input_gradient, g, w, (1, 0), seed, first + 1)
        to_weights = _one(ctx.config.weight_gradient, x, g, (0, 0), seed, first + 2)
        return to_input, to_weights.T, None, None, None


def mx_dot(x: Any, w: Any, config: MxDotConfig, *, seed: Any = None, stream: int = 0) -> Any:
    """Multiply quantised tensors: ``x @ w.T``, with gradients whose products are quantised, too.

    The bits are those of `trn3.jax.mx_dot` of the transposed weights. In a model compiled for trn3
    these are operations ``mx_dot`` of graphs; elsewhere the same bits are computed on the host.

    Parameters
    ----------
    x : Tensor
        ``[..., k]``, float32, bfloat16 or float16, in the memory of the host.
    w : Tensor
        ``[n, k]``, of the same type, as `torch.nn.Linear` has it.
    config : MxDotConfig
        The recipe of each of the three products.
    seed : Tensor, optional
        A whole number of no axes, of which the low 32 bits count; needed where a recipe has random
        signs or stochastic rounding.
    stream : int
        From 0 to 2^30: another one for each layer makes the draws of one seed differ.

    Returns
    -------
    Tensor
        ``[..., n]``, of x's type.

    Raises
    ------
    TypeError, ValueError
        For tensors and arguments that are not as above.

    Examples
    --------
    >>> import torch
    >>> x, w = torch.full((2, 32), 1.0625), torch.ones(4, 32)
    >>> mx_dot(x, w, MxDotConfig.of("float4_e2m1fn"))[0, 0]
    tensor(32.)
    """
    if w.ndim != 2 or x.ndim < 1 or x.shape[-1] != w.shape[1]:
        message = f"x is {tuple(x.shape)} and w {tuple(w.shape)}; allowed: [..., k] and [n, k]"
        raise ValueError(message)
    if x.dtype != w.dtype or x.dtype not in (torch.float32, torch.bfloat16, torch.float16):
        message = f"x is {x.dtype} and w {w.dtype}; allowed: float32, bfloat16 or float16, the same"
        raise TypeError(message)
    if config.is_random and seed is None:
        raise ValueError("seed is missing; the config has random signs or stochastic rounding")
    if not 0 <= stream < 2**30:
        message = f"stream is {stream}; allowed: from 0 to 2^30"
        raise ValueError(message)
    own = torch.zeros((), dtype=torch.int64) if seed is None else seed
    rows = x.reshape(-1, x.shape[-1])
    y = _MxProducts.apply(rows, w, own, config, stream)
    return y.reshape(*x.shape[:-1], w.shape[0])


class MXLinear(torch.nn.Linear):
    """A linear layer whose three products are computed by recipes.

    Weights are kept as they are given, and quantised in each product.

    Parameters
    ----------
    in_features, out_features, bias, device, dtype
        As `torch.nn.Linear` takes them.
    config : MxDotConfig
        The recipes; E4M3 everywhere with the scales of quantize_mx if not given.
    stream : int
        Another one for each layer makes their draws differ.

    Attributes
    ----------
    draws : Tensor
        The seed of the next call, a buffer. Each call in training counts it up.

    Examples
    --------
    >>> import torch
    >>> layer = MXLinear(64, 8, config=MxDotConfig.of("float8_e4m3fn", scale_rule="rceil"))
    >>> layer(torch.ones(2, 64)).sum().backward()
    >>> layer.weight.grad.shape
    torch.Size([8, 64])
    """

    draws: torch.Tensor

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
        *,
        config: MxDotConfig | None = None,
        stream: int = 0,
    ) -> None:
        super().__init__(in_features, out_features, bias, device, dtype)
        self.config = config or MxDotConfig.of()
        self.stream = stream
        self.register_buffer("draws", torch.zeros((), dtype=torch.int64))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Multiply by the weights, and add the bias."""
        seed = self.draws.clone() if self.config.is_random else None
        y = mx_dot(x, self.weight, self.config, seed=seed, stream=self.stream)
        if self.training and self.config.is_random:
            self.draws += 1
        return y if self.bias is None else y + self.bias


def to_mx(model: Any, config: MxDotConfig, *, high: Collection[str] = ()) -> Any:
    """Make every linear layer of a model an `MXLinear` of the same weights.

    Parameters
    ----------
    model : torch.nn.Module
        Changed in place.
    config : MxDotConfig
        Of all of them.
    high : collection of str
        Names of layers, as `named_modules` has them, or the last parts of these, that stay.

    Returns
    -------
    torch.nn.Module
        The model.

    Examples
    --------
    >>> import torch
    >>> model = torch.nn.Sequential(torch.nn.Linear(32, 8), torch.nn.Linear(8, 2))
    >>> [type(layer).__name__ for layer in to_mx(model, MxDotConfig.of(), high=["1"])]
    ['MXLinear', 'Linear']
    """
    stream = 0
    for name, module in list(model.named_modules()):
        if type(module) is not torch.nn.Linear or not name:
            continue
        if name not in high and name.rpartition(".")[2] not in high:
            made = MXLinear(
                module.in_features,
                module.out_features,
                module.bias is not None,
                device="meta",
                config=config,
                stream=stream,
            )
            made.weight, made.bias = module.weight, module.bias
            made.draws = torch.zeros((), dtype=torch.int64)
            owner, _, last = name.rpartition(".")
            setattr(model.get_submodule(owner), last, made.train(module.training))
        stream += 1
    return model
