"""A step of training by operation, beside eager torch that fakes the same arithmetic.

Forward, backward and update of a decoder of 10 million parameters, 8 x 256 tokens, every product of
MXFP8 operands, attention's too. The rival quantises, dequantises and multiplies in float32 with
torch's own operations. Speed of light: that of float32 multiply-adds for the step's products alone.
"""

from __future__ import annotations

import importlib.util
from types import ModuleType

import numpy as np
import pytest

from comparison import Comparison, Rival, Work, limit
from decoder_sizes import Sizes

QUICK = Sizes(layers=1, width=64, heads=2, vocabulary=64, batch=2, length=32)
# Seconds, on two threads.
GOAL = 2.0
pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("jax") is None, reason="jax is not installed: no step is timed"
)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def bench_step_of_a_decoder(
    compare: Comparison,
    generator: np.random.Generator,
    torch: ModuleType | None,
    threads: int,
    dtype: str,
    quick: bool,
) -> None:
    import jax
    import jax.numpy as jnp

    import decoder_in_jax
    import trn3.jax

    sizes = QUICK if quick else Sizes()
    weights, tokens = sizes.weights(generator), sizes.tokens(generator)
    step = trn3.jax.compile(decoder_in_jax.step(sizes, jnp.dtype(dtype)), matmul="mxfp8")
    state = (*decoder_in_jax.state(weights), jnp.asarray(tokens))
    first = float(step(*state)[-1])
    rivals = [limit(GOAL)] if threads > 1 else []
    if torch:
        import decoder_in_torch

        theirs = decoder_in_torch.step(sizes, getattr(torch, dtype), weights)
        given = torch.tensor(tokens).long()
        # One recipe: what differs is the order of sums, and the reciprocals.
        assert float(theirs(given)) == pytest.approx(first, rel=1e-3)
        rivals.append(Rival("eager torch, faked", lambda: theirs(given), goal=2.0))
    compare(
        f"step of a decoder, {sizes.parameters / 1e6:.1f} M parameters, {dtype}, MXFP8",
        lambda: jax.block_until_ready(step(*state)),  # type: ignore[no-untyped-call]
        rivals,
        Work(1e-9 * sizes.operations, "GFLOP/s", "fma"),
    )
