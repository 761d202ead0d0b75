"""Shadow runs: what precision each instruction loses against float64."""

from __future__ import annotations

import inspect
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import trn3.nki.isa as nisa
import trn3.nki.language as nl
from trn3 import nki
from trn3.profile import PrecisionLoss, Profile


def line_of(mark: str) -> int:
    source = inspect.getsource(inspect.getmodule(line_of)).splitlines()
    return next(i for i, text in enumerate(source, 1) if text.endswith(f"# {mark}"))


def of(profile: Profile, mark: str) -> PrecisionLoss:
    (found,) = [loss for loss in profile.precision if loss.line == line_of(mark)]
    return found


@nki.jit
def variance(x: Any) -> Any:
    """Return the variance of rows as the mean of squares less the square of the mean."""
    tile = nl.ndarray(x.shape, nl.float32, name="tile")
    nisa.dma_copy(tile, x)  # load
    squares = nl.ndarray(x.shape, nl.bfloat16, name="squares")
    nisa.tensor_tensor(squares, tile, tile, op=nl.multiply)  # square
    sums = nl.ndarray((x.shape[0], 2), nl.float32, name="sums")
    nisa.tensor_reduce(sums[:, 0:1], nl.add, tile, axis=1)
    nisa.tensor_reduce(sums[:, 1:2], nl.add, squares, axis=1)
    n = x.shape[1]
    mean = nl.ndarray((x.shape[0], 1), nl.float32, name="mean")
    nisa.tensor_scalar(mean, sums[:, 0:1], nl.multiply, 1 / n)
    nisa.tensor_tensor(mean, mean, mean, op=nl.multiply)
    result = nl.ndarray((x.shape[0], 1), nl.float32, name="result")
    nisa.scalar_tensor_tensor(
        result, sums[:, 1:2], op0=nl.multiply, operand0=1 / n, op1=nl.subtract, operand1=mean
    )  # cancel
    out = nl.ndarray((x.shape[0], 1), nl.float32, buffer=nl.shared_hbm)
    nisa.dma_copy(out, result)
    return out


def data() -> np.ndarray[Any, Any]:
    return (np.random.default_rng(3).standard_normal((128, 64)) + 10).astype(np.float32)


def test_results_are_the_same_bits() -> None:
    plain, _ = nki.profile(variance, data())
    shadowed, profile = nki.profile(variance, data(), shadow=True)
    assert plain.tobytes() == shadowed.tobytes()
    assert profile.precision


def test_without_a_shadow_there_is_no_precision() -> None:
    _, profile = nki.profile(variance, data())
    assert profile.precision == ()


def test_times_are_the_same() -> None:
    _, plain = nki.profile(variance, data())
    _, shadowed = nki.profile(variance, data(), shadow=True)
    assert plain.latency_us == shadowed.latency_us


def test_loss_is_attributed_to_the_line_that_rounds() -> None:
    x = data()
    _, profile = nki.profile(variance, x, shadow=True)
    square = of(profile, "square")
    exact = x.astype(np.float64) ** 2
    rounded = np.square(x).astype(ml_dtypes.bfloat16).astype(np.float64)
    assert square.error == pytest.approx(np.abs(rounded - exact).max(), rel=1e-6)
    assert square.added_error == pytest.approx(square.error, rel=1e-6)
    assert square.input_error == 0.0
    assert (square.tensor, square.dtype, square.instruction) == (
        "squares",
        "bfloat16",
        "tensor_tensor",
    )
    assert square in profile.precision


def test_cancellation_shows_error_of_inputs_and_little_of_its_own() -> None:
    x = data()
    result, profile = nki.profile(variance, x, shadow=True)
    cancel = next(each for each in profile.precision if each.instruction == "scalar_tensor_tensor")
    exact = x.astype(np.float64)
    exact = (exact**2).mean(1) - exact.mean(1) ** 2
    assert cancel.error == pytest.approx(np.abs(result[:, 0] - exact).max(), rel=1e-6)
    # The result is off by far more than what it came from, of which it added next to nothing.
    assert cancel.relative_error > 5 * cancel.relative_input_error
    assert cancel.relative_added_error < 1e-4
    assert profile.precision[0] == cancel


def test_making_a_tensor_in_hbm_forgets_nothing() -> None:
    @nki.jit
    def kernel(x: Any) -> Any:
        narrow = nl.ndarray(x.shape, nl.bfloat16)
        nisa.dma_copy(narrow, x)
        out = nl.ndarray(x.shape, nl.float32, buffer=nl.shared_hbm, name="out")
        nisa.dma_copy(out, narrow)
        return out

    _, profile = nki.profile(kernel, data(), shadow=True)
    (loss,) = [each for each in profile.precision if each.tensor == "out"]
    assert loss.relative_input_error == loss.relative_error > 0


def test_float32_arithmetic_is_measured_against_float64() -> None:
    @nki.jit
    def kernel(x: Any) -> Any:
        tile = nl.ndarray(x.shape, nl.float32)
        nisa.dma_copy(tile, x)
        total = nl.ndarray((x.shape[0], 1), nl.float32, name="total")
        nisa.tensor_reduce(total, nl.add, tile, axis=1)
        out = nl.ndarray((x.shape[0], 1), nl.float32, buffer=nl.shared_hbm)
        nisa.dma_copy(out, total)
        return out

    x = data()
    result, profile = nki.profile(kernel, x, shadow=True)
    (loss,) = [each for each in profile.precision if each.tensor == "total"]
    exact = x.astype(np.float64).sum(1)
    assert loss.error == np.abs(result[:, 0] - exact).max()


@nki.jit
def matmul(a: Any, b: Any) -> Any:
    """Return a.T @ b, accumulated in PSUM."""
    psum = nl.ndarray((128, b.shape[1]), nl.float32, buffer=nl.psum, name="psum")
    for k in range(0, a.shape[0], 128):
        left = nl.ndarray((128, 128), nl.bfloat16)
        right = nl.ndarray((128, b.shape[1]), nl.bfloat16)
        nisa.dma_copy(left, a[k : k + 128])
        nisa.dma_copy(right, b[k : k + 128])
        nisa.nc_matmul(psum, left, right)
    out = nl.ndarray((128, b.shape[1]), nl.float32, name="copied")
    nisa.tensor_copy(out, psum)
    result = nl.ndarray((128, b.shape[1]), nl.float32, buffer=nl.shared_hbm)
    nisa.dma_copy(result, out)
    return result


def test_matmul_accumulates_in_the_shadow_too() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((2, 512, 128)).astype(np.float32)
    # Twice in one process: places in PSUM are used again.
    for _ in range(2):
        result, profile = nki.profile(matmul, a, b, shadow=True)
    (loss,) = [each for each in profile.precision if each.tensor == "copied"]
    exact = a.astype(np.float64).T @ b.astype(np.float64)
    assert loss.error == pytest.approx(np.abs(result - exact).max(), rel=1e-9)
    assert loss.relative_added_error == 0.0
    (product,) = [each for each in profile.precision if each.instruction == "nc_matmul"]
    assert product.count == 4
    assert product.relative_added_error < 1e-6 < product.relative_error


OPERATIONS = ["add", "subtract", "multiply", "maximum"]


@settings(max_examples=20, deadline=None)
@given(
    st.lists(st.sampled_from(OPERATIONS), min_size=1, max_size=5),
    st.integers(0, 2**16),
    st.sampled_from([nl.bfloat16, nl.float16, nl.float32]),
)
def test_error_of_a_chain_is_that_against_float64(
    operations: list[str], seed: int, dtype: Any
) -> None:
    x = np.random.default_rng(seed).uniform(0.5, 2, (4, 16)).astype(np.float32)

    @nki.jit
    def kernel(x: Any) -> Any:
        tile = nl.ndarray(x.shape, nl.float32)
        nisa.dma_copy(tile, x)
        value = nl.ndarray(x.shape, dtype)
        nisa.tensor_copy(value, tile)
        for operation in operations:
            # In place: inputs are compared before they are gone.
            nisa.tensor_tensor(value, value, tile, op=getattr(nl, operation))
        out = nl.ndarray(x.shape, nl.float32, buffer=nl.shared_hbm, name="out")
        nisa.dma_copy(out, value)
        return out

    result, profile = nki.profile(kernel, x, shadow=True)
    exact = x.astype(np.float64)
    start = exact
    for operation in operations:
        exact = getattr(np, operation)(exact, start)
    (loss,) = [each for each in profile.precision if each.tensor == "out"]
    assert loss.error == pytest.approx(np.abs(result - exact).max(), rel=1e-9, abs=1e-15)


@pytest.mark.parametrize("op", ["exp", "tanh", "sigmoid", "gelu", "silu", "sqrt", "rsqrt", "log"])
def test_functions_lose_no_more_than_float32(op: str) -> None:
    @nki.jit
    def kernel(x: Any) -> Any:
        tile = nl.ndarray(x.shape, nl.float32)
        nisa.dma_copy(tile, x)
        value = nl.ndarray(x.shape, nl.float32, name="value")
        nisa.activation(value, getattr(nl, op), tile)
        return x

    x = np.random.default_rng(0).uniform(0.1, 3, (128, 32)).astype(np.float32)
    _, profile = nki.profile(kernel, x, shadow=True)
    (loss,) = [each for each in profile.precision if each.tensor == "value"]
    assert loss.relative_error < 2e-7


def test_integers_and_indices_follow_the_real_run() -> None:
    @nki.jit
    def kernel(x: Any) -> Any:
        tile = nl.ndarray(x.shape, nl.bfloat16)
        nisa.dma_copy(tile, x)
        index = nl.ndarray((x.shape[0], 8), nl.uint32)
        best = nl.ndarray((x.shape[0], 8), nl.bfloat16)
        nisa.max8(best, tile)
        nisa.nc_find_index8(index, tile, best)
        picked = nl.ndarray((x.shape[0], 8), nl.bfloat16, name="picked")
        nisa.nc_n_gather(picked, tile, index)
        out = nl.ndarray((x.shape[0], 8), nl.float32, buffer=nl.shared_hbm)
        nisa.dma_copy(out, picked)
        return out

    x = np.random.default_rng(0).standard_normal((128, 64)).astype(np.float32)
    _, profile = nki.profile(kernel, x, shadow=True)
    (loss,) = [each for each in profile.precision if each.tensor == "picked"]
    assert 0 < loss.relative_error < 2**-8
    assert loss.relative_added_error == 0.0


@nki.jit
def swap(x: Any) -> Any:
    tile = nl.ndarray(x.shape, nl.bfloat16)
    nisa.dma_copy(tile, x)
    other = nl.ndarray(x.shape, nl.bfloat16)
    peer = 1 - nl.program_id(0)
    nisa.sendrecv(tile, other, peer, peer, 0)
    total = nl.ndarray(x.shape, nl.float32, name="total")
    nisa.tensor_tensor(total, tile, other, op=nl.add)
    out = nl.ndarray((2, *x.shape), nl.float32, buffer=nl.shared_hbm)
    nisa.dma_copy(out[nl.program_id(0)], total)
    return out


def test_error_travels_between_cores() -> None:
    x = data()
    result, profile = nki.profile(swap[2], x, shadow=True)
    losses = [each for each in profile.precision if each.tensor == "total"]
    assert [each.core for each in losses] == [0, 1]
    exact = 2 * x.astype(np.float64)
    for loss in losses:
        assert loss.error == pytest.approx(np.abs(result[0] - exact).max(), rel=1e-9)


def test_ranks_have_profiles_with_precision() -> None:
    _, profiles = nki.profile_ranks(variance, [(data(),), (data() + 1,)], shadow=True)
    assert [bool(profile.precision) for profile in profiles] == [True, True]


def test_precision_survives_a_file(tmp_path: Any) -> None:
    _, profile = nki.profile(variance, data(), shadow=True)
    profile.to_json(tmp_path / "profile.json")
    assert Profile.from_json(tmp_path / "profile.json").precision == profile.precision


def test_summary_shows_the_worst_line(capsys: pytest.CaptureFixture[str]) -> None:
    from rich.console import Console

    _, profile = nki.profile(variance, data(), shadow=True)
    Console(width=100).print(profile.summary())
    text = capsys.readouterr().out
    table = text[text.index("Precision lost") :]
    assert f"test_shadow.py:{line_of('square')}" in table.replace("…", "")
    assert max(map(len, table.splitlines())) <= 100


def test_shadow_without_values_is_refused() -> None:
    with pytest.raises(ValueError, match="shadow is True with values=False"):
        nki.profile(variance, data(), shadow=True, values=False)
