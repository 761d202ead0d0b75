"""What `trn3.jax.compile` takes and gives, remembers and refuses."""

from __future__ import annotations

import functools
import re
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import trn3.jax
from support.jax_values import assert_close, assert_types, float64
from trn3.graph import GraphError
from trn3.machine import arch

FILE = Path(__file__).name


class Pair(NamedTuple):
    first: Any
    second: Any


def test_results_are_trees_as_the_function_gives_them() -> None:
    def function(x: dict[str, Any], *, scale: float) -> Any:
        return Pair({"b": x["a"] * scale, "none": None}, [x["a"].sum(), (3, True)])

    args = {"a": jnp.arange(3.0)}
    found = trn3.jax.compile(function)(args, scale=2.0)
    expected = jax.jit(function)(args, scale=2.0)
    assert_types(found, expected)
    assert_close(found, expected)


def test_arguments_may_be_what_jit_takes() -> None:
    """Numbers of Python, arrays of NumPy in float64, arguments that nothing uses."""
    compiled = trn3.jax.compile(lambda x, y, unused: x * y)
    assert float(compiled(2, 1.5, jnp.zeros(3))) == 3.0
    assert compiled(np.arange(3.0), 2, None).dtype == jnp.float32
    jitted = trn3.jax.compile(jax.jit(lambda x, y, unused: x * y))
    assert float(jitted(2, 1.5, jnp.zeros(3))) == 3.0


def test_typed_keys_go_in_and_out() -> None:
    key = jax.random.key(3)
    found = trn3.jax.compile(lambda key: jax.random.split(key, 2))(key)
    assert found.dtype == key.dtype
    np.testing.assert_array_equal(
        jax.random.key_data(found), jax.random.key_data(jax.random.split(key, 2))
    )


def test_gradients_of_integers_are_of_float0() -> None:
    gradient = jax.grad(lambda i: 2.0 * i.sum(), allow_int=True)
    i = jnp.arange(3)
    assert_types(trn3.jax.compile(gradient)(i), jax.jit(gradient)(i))


def test_constants_of_any_type_come_as_they_are() -> None:
    """Arrays that a function closes over: their bits, those of bfloat16 and of NaN included."""
    small = jnp.asarray([[1.5, np.nan], [-np.inf, 3.25]], jnp.bfloat16)
    large = jnp.asarray(np.random.default_rng(0).standard_normal((20, 20)), jnp.bfloat16)
    flags, counts = np.array([True, False]), np.array([-1, 7], np.int8)
    narrow = jnp.asarray([0.5, 448.0], jnp.float8_e4m3fn)
    values: list[Any] = [small, large, flags, counts, narrow]
    found: Any = trn3.jax.compile(lambda: values)()
    for one, other in zip(found, values, strict=True):
        assert one.dtype == other.dtype
        assert np.asarray(one).tobytes() == np.asarray(other).tobytes()


def test_functions_are_converted_once_for_shapes_and_types() -> None:
    traced = []

    def function(x: Any) -> Any:
        traced.append((x.shape, x.dtype))
        return x + 1

    compiled = trn3.jax.compile(function)
    for x in (jnp.zeros(3), jnp.ones(3), np.full(3, 2, np.float32)):
        np.testing.assert_array_equal(compiled(x), np.asarray(x) + 1)
    assert compiled.graph(jnp.zeros(3)) is compiled.graph(jnp.ones(3))
    assert len(traced) == 1
    compiled(jnp.zeros(4))
    compiled(jnp.zeros(3, jnp.int32))
    assert len(traced) == 3
    assert compiled.graph(jnp.zeros(3)) is not compiled.graph(jnp.zeros(4))


def test_a_function_keeps_what_was_asked_for_last() -> None:
    """64 graphs; weak types count as shapes and types do."""
    compiled = trn3.jax.compile(jnp.negative)
    assert compiled.graph(2.0) is compiled.graph(3.0)
    assert compiled.graph(2.0) is not compiled.graph(np.float32(2))
    first, second = (compiled.graph(jnp.zeros(length)) for length in (1, 2))
    for length in range(3, 65):
        compiled.graph(jnp.zeros(length))
        assert compiled.graph(jnp.zeros(1)) is first
    compiled.graph(jnp.zeros(65))
    assert compiled.graph(jnp.zeros(1)) is first
    assert compiled.graph(jnp.zeros(2)) is not second


def test_the_wrapper_has_the_name_of_the_function() -> None:
    def named(x: Any) -> Any:
        """Say so."""
        return x

    compiled: Any = trn3.jax.compile(named)
    assert (compiled.__name__, compiled.__doc__) == ("named", "Say so.")
    graph = compiled.graph(jnp.zeros((2, 3), jnp.bfloat16))
    assert (graph.name, graph.inputs) == ("named", [("x", "bfloat16", [2, 3])])


def test_products_are_cast_down_where_asked() -> None:
    x = np.random.default_rng(0).standard_normal((32, 64)).astype(np.float32)
    found = {
        path: np.asarray(trn3.jax.compile(lambda x: x @ x.T, matmul=path)(x), np.float64)
        for path in (None, "bf16", "mxfp8", "mxfp4")
    }
    exact = x.astype(np.float64) @ x.T.astype(np.float64)
    errors = [np.abs(value - exact).max() / np.abs(exact).max() for value in found.values()]
    assert errors == sorted(errors)
    assert errors[0] < 1e-6 < errors[1] < 1e-2 < errors[3] < 0.3


def refused(function: Any, *args: Any) -> str:
    with pytest.raises(GraphError) as caught:
        trn3.jax.compile(function)(*args)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def line_of(function: Any, offset: int) -> str:
    return re.escape(f"{FILE}:{function.__code__.co_firstlineno + offset}: ")


def deep(x: Any) -> Any:
    y = jnp.sin(x)
    return jnp.fft.fft(y)


@jax.jit
def jitted_layer(x: Any) -> Any:
    x = jnp.cos(x)
    return jnp.linalg.cholesky(x)


def sorts(x: Any) -> Any:
    first = jnp.sort(x.astype(jnp.float32))
    second = jnp.linalg.cholesky(x)
    return first, second, jnp.linalg.cholesky(x + 1)


@pytest.mark.parametrize("caller", [deep, lambda x: deep(x) + 1, jax.vmap(deep)])
def test_refusals_name_operation_and_line(caller: Any) -> None:
    text = refused(caller, jnp.ones((4, 4)))
    assert re.search(line_of(deep, 2) + r"convert: the result is complex64\[4, 4\]; allowed", text)


def test_lines_are_those_of_functions_that_are_jitted_within() -> None:
    text = refused(lambda x: jitted_layer(x) * 2, jnp.ones((4, 4)))
    assert re.search(
        line_of(vars(jitted_layer)["__wrapped__"], 3) + "cholesky: is no operation", text
    )


def test_lines_are_not_those_of_who_called_first() -> None:
    """JAX traces its own functions once, and keeps the line of the first call."""
    x = jnp.ones((4, 4))
    jax.jit(lambda x: jnp.linalg.cholesky(x)).lower(x)  # noqa: PLW0108 - the line that is kept
    assert re.search(line_of(sorts, 2) + "cholesky: is no operation of graphs", refused(sorts, x))


def test_lines_of_loops_and_gradients() -> None:
    def body(carry: Any, x: Any) -> Any:
        carry = carry + x
        return carry, jnp.linalg.cholesky(carry @ carry.T)

    def loss(x: Any) -> Any:
        return lax.scan(body, x[0], x)[1].sum()

    text = refused(jax.grad(loss), jnp.ones((2, 4, 4)))
    # Older JAX keeps the line of the loop alone.
    line = line_of(body, 2) if jax.__version_info__ >= (0, 5) else line_of(loss, 1)
    assert re.search(line + "cholesky: is no operation of graphs", text)


def calls_python(x: Any) -> Any:
    jax.debug.print("{}", x)
    return x


def test_calls_of_python_are_refused_by_line() -> None:
    text = refused(lambda x: lax.map(calls_python, x), jnp.ones(3))
    assert re.search(line_of(calls_python, 1) + r"debug_\w+: calls Python", text)


def test_calls_of_libraries_are_refused_by_name() -> None:
    text = refused(jnp.linalg.eigh, jnp.eye(4))
    assert re.search(f"{FILE}:\\d+: custom_call: Eigh is no operation of graphs", text)


def test_types_that_the_machine_does_not_have_are_refused() -> None:
    with float64():
        assert "argument x is float64[3]; allowed: " in refused(lambda x: x + 1, jnp.ones(3))
        text = refused(lambda i: i.astype(jnp.float64), jnp.ones(3, jnp.int32))
        assert re.search(f"{FILE}:\\d+: convert: the result is float64\\[3\\]; allowed", text)
        text = refused(lambda x: jnp.square(x.astype(jnp.int64)), jnp.ones(3, jnp.int32))
        assert re.search(f"{FILE}:\\d+: multiply: int64\\[3\\] came", text)


def test_integers_that_are_known_to_fit_are_held_in_32_bits() -> None:
    """Counts of 64 bits whose values are known, converted before they leave."""
    with float64():
        function = trn3.jax.compile(lambda: (jnp.arange(5) * 7 + 2**31).astype(jnp.uint32))
        found = function()
    np.testing.assert_array_equal(found, np.arange(5) * 7 + 2**31)


def test_tracing_is_refused() -> None:
    compiled = trn3.jax.compile(jnp.sin)
    for outer, x in (
        (jax.jit(compiled), jnp.ones(())),
        (jax.grad(compiled), jnp.ones(())),
        (jax.vmap(compiled), jnp.ones(3)),
    ):
        with pytest.raises(TypeError, match=r"is called while JAX traces; compile the outermost"):
            outer(x)


def test_static_arguments_are_refused() -> None:
    jitted = jax.jit(lambda x, n: x * n, static_argnums=1)
    with pytest.raises(TypeError, match=r"jitted with static arguments; give .* functools.partial"):
        trn3.jax.compile(jitted)(jnp.ones(3), 2)
    assert trn3.jax.compile(functools.partial(jitted, n=2))(jnp.ones(3)).sum() == 6


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"mode": "fast"}, r"mode is 'fast'; allowed: 'auto', 'instructions', 'operations'"),
        ({"matmul": "fp4"}, r"matmul is 'fp4'; allowed: None, 'as_typed', 'bf16', 'mxfp8'"),
        ({"cores": 3}, r"cores is 3; allowed: 1, 2"),
        ({"compile": "O3"}, r"compile is 'O3'; allowed: None, 'as-written'"),
        ({"arch": "trn9"}, "trn9"),
    ],
)
def test_options_are_checked(options: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        trn3.jax.compile(jnp.sin, **options)


def test_options_that_change_no_values_are_taken() -> None:
    options: dict[str, Any] = {"arch": arch("trn3"), "cores": 2, "compile": "nki"}
    compiled = trn3.jax.compile(jnp.sin, mode="operations", **options)
    assert compiled.mode == trn3.jax.compile(jnp.sin).mode == "operations"
    assert compiled(0.0) == 0.0
