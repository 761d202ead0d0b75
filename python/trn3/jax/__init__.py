"""Functions of JAX, whole training steps included, in Trainium's arithmetic.

Examples
--------
>>> import jax
>>> import jax.numpy as jnp
>>> from trn3.jax import compile
>>> softmax = compile(jax.nn.softmax)
>>> softmax(jnp.array([1.0, 2.0, 3.0], jnp.bfloat16)).dtype
dtype(bfloat16)
"""

from trn3.graph.mx_config import MxDotConfig, MxOperand, MxRecipe
from trn3.jax.compiling import CompiledFunction, compile, profile  # noqa: A004
from trn3.jax.mx import mx_dot, prune, stochastic_convert
from trn3.jax.sharding import mesh

__all__ = [
    "CompiledFunction",
    "MxDotConfig",
    "MxOperand",
    "MxRecipe",
    "compile",
    "mesh",
    "mx_dot",
    "profile",
    "prune",
    "stochastic_convert",
]
