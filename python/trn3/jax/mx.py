"""Products, conversions and sparsity of Trainium that JAX has no word for."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from trn3.jax.graph_calls import call_operation

if TYPE_CHECKING:
    from jax.typing import ArrayLike, DTypeLike

    from trn3.graph.mx_config import MxDotConfig, MxRecipe

__all__ = ["mx_dot", "prune", "stochastic_convert"]

# Forward, gradient of the input, gradient of the weights: each has draws of its own.
# JAX ships no types of it.
_Shaped: Any = jax.ShapeDtypeStruct
_PRODUCTS = 3


def mx_dot(
    x: ArrayLike,
    w: ArrayLike,
    config: MxDotConfig,
    *,
    seed: ArrayLike | None = None,
    stream: int = 0,
    probe: ArrayLike | None = None,
) -> jax.Array:
    """Multiply quantised arrays: ``x @ w``, with gradients whose products are quantised, too.

    `trn3.jax.compile` makes operations ``mx_dot`` of graphs of it. Elsewhere it calls back to
    Python for the same bits, which is slow but serves to look at values.

    Parameters
    ----------
    x : array
        ``[..., k]``, float32, bfloat16 or float16.
    w : array
        ``[k, n]``, of the same type.
    config : MxDotConfig
        The recipe of each of the three products.
    seed : array, optional
        uint32 of no axes, from which random signs and stochastic rounding draw; needed where a
        recipe has any. Another one each step makes steps differ, the same one repeats a run.
    stream : int
        From 0 to 2^30: another one for each call makes the draws of one seed differ.
    probe : array, optional
        Zeros, float32 ``[3, 2]``. They change nothing; their *gradient* is the share of elements
        that were clipped: of the forward product, of the gradients of x and of w, and in each of
        the moving and the stationary operand.

    Returns
    -------
    array
        ``[..., n]``, of x's type.

    Raises
    ------
    TypeError, ValueError
        For arrays and arguments that are not as above.

    Examples
    --------
    >>> import jax
    >>> import jax.numpy as jnp
    >>> from trn3.jax import MxDotConfig, mx_dot
    >>> x, w = jnp.full((2, 32), 1.0625), jnp.ones((32, 4))
    >>> float(mx_dot(x, w, MxDotConfig.of("float4_e2m1fn"))[0, 0])
    32.0
    >>> loss = lambda w: mx_dot(x, w, MxDotConfig.of("float8_e4m3fn")).sum()
    >>> jax.grad(loss)(w).shape
    (32, 4)
    """
    x, w = jnp.asarray(x), jnp.asarray(w)
    if w.ndim != 2 or x.ndim < 1 or x.shape[-1] != w.shape[0]:
        raise ValueError(f"x is {x.shape} and w {w.shape}; allowed: [..., k] and [k, n]")
    if x.dtype != w.dtype or not jnp.issubdtype(x.dtype, jnp.floating):
        raise TypeError(f"x is {x.dtype} and w {w.dtype}; allowed: floats of one type")
    if config.is_random and seed is None:
        raise ValueError("seed is missing; the config has random signs or stochastic rounding")
    if not 0 <= stream < 2**30:
        raise ValueError(f"stream is {stream}; allowed: from 0 to 2^30")
    number = jnp.asarray(0 if seed is None else seed)
    if number.ndim or not jnp.issubdtype(number.dtype, jnp.integer):
        raise TypeError(f"seed is {number.dtype}{list(number.shape)}; allowed: uint32[]")
    clips = jnp.zeros((_PRODUCTS, 2), jnp.float32) if probe is None else jnp.asarray(probe)
    if clips.shape != (_PRODUCTS, 2) or clips.dtype != jnp.float32:
        raise TypeError(f"probe is {clips.dtype}{list(clips.shape)}; allowed: float32[3, 2]")
    rows = x.reshape(-1, x.shape[-1])
    settings = (config, stream, probe is not None)
    y = _product(settings, rows, w, number.astype(jnp.uint32), clips)
    shaped: jax.Array = y.reshape(*x.shape[:-1], w.shape[1])
    return shaped


_Settings = tuple["MxDotConfig", int, bool]


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def _product(settings: _Settings, x: Any, w: Any, seed: Any, probe: Any) -> Any:
    return _forward(settings, x, w, seed, probe)[0]


def _forward(settings: _Settings, x: Any, w: Any, seed: Any, probe: Any) -> Any:
    del probe
    config, stream, counts = settings
    if config.sparsity:
        # The backward product has the weights that the forward one had.
        w = _pruned(w, config.sparsity)
    place = (_PRODUCTS * stream, counts, config.sparsity)
    y, clipped = _one(config.forward, x, w, (1, 0), seed, place)
    return y, (x, w, seed, clipped)


def _backward(settings: _Settings, kept: Any, g: Any) -> Any:
    config, stream, counts = settings
    x, w, seed, clipped = kept
    first = _PRODUCTS * stream
    input_gradient, clipped_input = _one(
        config.input_gradient, g, w, (1, 1), seed, (first + 1, counts, None)
    )
    weight_gradient, clipped_weight = _one(
        config.weight_gradient, x, g, (0, 0), seed, (first + 2, counts, None)
    )
    probe = jnp.stack([clipped, clipped_input, clipped_weight])
    return input_gradient, weight_gradient, np.zeros((), jax.dtypes.float0), probe


_product.defvjp(_forward, _backward)


def _one(
    recipe: MxRecipe | None,
    lhs: Any,
    rhs: Any,
    axes: tuple[int, int],
    seed: Any,
    place: tuple[int, bool, str | None],
) -> tuple[Any, Any]:
    """Multiply two matrices along one axis each: the product, and the shares clipped."""
    stream, counts, sparsity = place
    nothing = jnp.zeros(2, jnp.float32)
    left, right = axes
    if recipe is None and not sparsity:
        return lax.dot_general(lhs, rhs, (((left,), (right,)), ((), ()))), nothing
    attributes: dict[str, Any] = {"contracting": [[left], [right]], "stream": stream}
    if sparsity:
        attributes["sparsity"] = sparsity
    if recipe is not None:
        attributes |= recipe.attributes()
    operands = [lhs, rhs, seed] if recipe is not None and recipe.is_random else [lhs, rhs]
    kinds = [_Shaped((lhs.shape[1 - left], rhs.shape[1 - right]), lhs.dtype)]
    if counts:
        kinds.append(_Shaped((2,), jnp.float32))
    made = call_operation("mx_dot", operands, kinds, attributes)
    return made[0], made[1] if counts else nothing


def _pruned(w: Any, pattern: str, axis: int = 0) -> Any:
    kind = _Shaped(w.shape, w.dtype)
    return call_operation("prune", [w], [kind], {"pattern": pattern, "axis": axis})[0]


@functools.partial(jax.custom_vjp, nondiff_argnums=(1, 2))
def prune(w: Any, pattern: str, axis: int = 0) -> Any:
    """Keep the largest magnitudes of each group, and make zeros of the others.

    The gradient of every element is that of its place: what is pruned may come back.

    Parameters
    ----------
    w : array
        Floating-point numbers.
    pattern : str
        How many of how many stay, as ``"4:16"``.
    axis : int
        Along which groups lie; its length is a whole number of them.

    Returns
    -------
    array
        As w.

    Raises
    ------
    GraphError
        For other patterns and lengths.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> prune(jnp.array([1.0, -3.0, 2.0, 0.5]), "2:4").tolist()
    [0.0, -3.0, 2.0, 0.0]
    """
    return _pruned(w, pattern, axis % w.ndim)


def _prune_forward(w: Any, pattern: str, axis: int) -> Any:
    return _pruned(w, pattern, axis % w.ndim), None


def _prune_backward(pattern: str, axis: int, kept: None, g: Any) -> Any:
    del pattern, axis, kept
    return (g,)


prune.defvjp(_prune_forward, _prune_backward)


def stochastic_convert(
    x: ArrayLike, dtype: DTypeLike, seed: ArrayLike, stream: int = 0
) -> jax.Array:
    """Convert to another floating-point type, each number to one of its two neighbours.

    The nearer one has the greater probability, so that the result is right on average: small steps
    add up where rounding to nearest would lose them all. The draws are those of
    ``trn3.numerics.Xorwow.seed(stream * 2**32 + seed)``.

    Parameters
    ----------
    x : array
        Floating-point numbers.
    dtype : dtype
        Of the result.
    seed : array
        uint32 of no axes; another one each step.
    stream : int
        From 0 to 2^32: another one for each call makes the draws of one seed differ.

    Returns
    -------
    array
        Of x's shape. It has no gradient.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> x = jnp.full(4096, 1 + 2**-10)
    >>> y = stochastic_convert(x, jnp.bfloat16, 7)
    >>> abs(float(y.astype(jnp.float32).mean()) - (1 + 2**-10)) < 2**-12
    True
    """
    x = jnp.asarray(x)
    kind = _Shaped(x.shape, jnp.dtype(dtype))
    operands = [lax.stop_gradient(x), jnp.asarray(seed).astype(jnp.uint32)]
    return call_operation("stochastic_convert", operands, [kind], {"stream": stream})[0]  # type: ignore[no-any-return]
