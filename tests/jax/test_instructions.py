"""Steps of JAX by instructions: the bits of the other way, and what each line costs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import trn3.jax
from trn3.graph import GraphError


def normal(seed: int, *shape: int, dtype: Any = jnp.float32) -> jax.Array:
    return jax.random.normal(jax.random.key(seed), shape, dtype)


def attention(x: jax.Array, w: jax.Array) -> jax.Array:
    q, k, v = jnp.split(x @ w, 3, axis=-1)
    scores = q @ k.T / jnp.sqrt(jnp.asarray(q.shape[-1], x.dtype))
    mask = jnp.tril(jnp.ones(scores.shape, bool))
    return jax.nn.softmax(jnp.where(mask, scores, -jnp.inf), axis=-1) @ v


def train(weights: dict[str, jax.Array], x: jax.Array, labels: jax.Array) -> Any:
    def loss(weights: dict[str, jax.Array]) -> jax.Array:
        hidden = jax.nn.gelu(weights["table"][x] @ weights["up"])
        logits = jax.nn.log_softmax(hidden @ weights["down"])
        return -jnp.take_along_axis(logits, labels[:, None], 1).mean()

    value, gradient = jax.value_and_grad(loss)(weights)
    return value, jax.tree.map(lambda w, g: w - 0.1 * g, weights, gradient)


def count(x: jax.Array) -> jax.Array:
    return jax.lax.while_loop(lambda x: jnp.max(x) < 10, lambda x: x * 2 + 1, x)


def scanned(x: jax.Array) -> Any:
    def step(carry: jax.Array, row: jax.Array) -> tuple[jax.Array, jax.Array]:
        return carry * 0.5 + row, jnp.sin(carry)

    return jax.lax.scan(step, jnp.zeros(x.shape[1]), x)


def image(x: jax.Array, kernel: jax.Array) -> jax.Array:
    y = jax.lax.conv_general_dilated(x, kernel, (1, 1), "SAME")
    return jax.lax.reduce_window(y, -jnp.inf, jax.lax.max, (1, 1, 2, 2), (1, 1, 2, 2), "VALID")


WEIGHTS = {"table": normal(1, 40, 24), "up": normal(2, 24, 32) / 5, "down": normal(3, 32, 10) / 5}
CASES: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "attention": (attention, (normal(0, 70, 32), normal(1, 32, 96))),
    "attention of bfloat16": (
        attention,
        (normal(0, 70, 32, dtype=jnp.bfloat16), normal(1, 32, 96, dtype=jnp.bfloat16)),
    ),
    "a step of training": (
        train,
        (WEIGHTS, jnp.arange(20) * 7 % 40, jnp.arange(20) % 10),
    ),
    "a loop": (count, (normal(0, 5),)),
    "a scan": (scanned, (normal(0, 6, 5),)),
    "images": (image, (normal(0, 2, 3, 10, 8), normal(1, 4, 3, 3, 3))),
    "random numbers": (lambda key: jax.random.normal(key, (33,)), (jax.random.key(3),)),
    "sorted": (lambda x: (jnp.sort(x), jax.lax.top_k(x, 3)), (normal(0, 4, 19),)),
}


@pytest.mark.parametrize("name", CASES)
def test_bits_are_those_of_the_operations(name: str) -> None:
    """By instructions every output is, bit for bit, what it is by operation."""
    function, arguments = CASES[name]
    expected = trn3.jax.compile(function)(*arguments)
    found = trn3.jax.compile(function, mode="instructions")(*arguments)
    pairs = zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True)
    for one, other in pairs:
        assert one.dtype == other.dtype
        assert np.asarray(one).tobytes() == np.asarray(other).tobytes()


def test_the_profile_has_the_users_lines() -> None:
    """Costs stand at the lines of this file, and the account has every instruction."""
    _, step = trn3.jax.profile(attention, *CASES["attention"][1])
    lines = {
        line.line for line in step.profile.lines() if Path(line.file).name == Path(__file__).name
    }
    first = attention.__code__.co_firstlineno
    assert {first + 1, first + 2, first + 4} <= lines
    account = step.account()
    assert sum(row.instructions for row in account) == len(step.profile.data.instructions.opcode)
    assert all(Path(row.line.rpartition(":")[0]).name == "test_instructions.py" for row in account)
    assert [row.template for row in account if row.macs] == [
        "instructions",
        "attention",
        "attention",
    ]


def test_time_needs_no_values() -> None:
    """A step takes as long without its values."""
    made = trn3.jax.compile(attention)
    arguments = CASES["attention"][1]
    assert made.time(*arguments).latency_us == made.profile(*arguments)[1].latency_us


def test_machines_differ_in_time_alone() -> None:
    """Values are the same on every machine."""
    arguments = CASES["attention"][1]
    one, slow = trn3.jax.profile(attention, *arguments, arch="trn2")
    other, fast = trn3.jax.profile(attention, *arguments, arch="trn3")
    np.testing.assert_array_equal(one, other)
    assert fast.latency_us < slow.latency_us


def test_two_cores_have_the_bits_of_one_in_less_time() -> None:
    """A block whose rows the cores share, whole and in the time of profile and time alike."""

    def block(x: jax.Array, w: jax.Array) -> jax.Array:
        return x + jax.nn.gelu(jax.nn.standardize(x) @ w) @ w.T

    arguments = (normal(0, 1024, 256), normal(1, 256, 512))
    one, whole = trn3.jax.profile(block, *arguments)
    other, shared = trn3.jax.profile(block, *arguments, cores=2)
    np.testing.assert_array_equal(one, other)
    made = trn3.jax.compile(block, cores=2, mode="instructions")
    np.testing.assert_array_equal(one, made(*arguments))
    assert made.time(*arguments).latency_us == shared.latency_us < 0.75 * whole.latency_us
    assert (whole.cores, shared.cores, len(shared.profile.cores)) == (1, 2, 2)
    assert {cost.cores for cost in shared.account() if cost.instructions} == {2}


def test_bfloat16_products_are_asked_for() -> None:
    """matmul="bf16" rounds the operands both ways."""
    arguments = (normal(0, 30, 50), normal(1, 50, 20))
    made = trn3.jax.compile(jnp.matmul, matmul="bf16", mode="instructions")(*arguments)
    np.testing.assert_array_equal(made, trn3.jax.compile(jnp.matmul, matmul="bf16")(*arguments))


def test_what_is_not_there_is_refused() -> None:
    """Two cores where none work as one, and the time of a loop whose turns only values tell."""
    for_two = trn3.jax.compile(jnp.sin, mode="instructions", cores=2, arch="trn1")
    with pytest.raises(ValueError, match=r"^cores is 2 on trn1; allowed: 1$"):
        for_two(jnp.ones(4))
    grown = trn3.jax.compile(
        lambda x: jax.lax.while_loop(lambda v: v.sum() < 100, lambda v: v * 2, x)
    )
    with pytest.raises(GraphError, match=r"test_instructions.py:\d+: while: turns as often as"):
        grown.time(jnp.ones((4, 4)))
