"""Updates of HBM in place, and reductions over program instances."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import trn3.nki.dialects.legacy as nki
import trn3.nki.dialects.legacy.language as nl
from trn3.nki import DeadlockError
from trn3.nki.ranks.turns import Turns

OPS = {"add": np.add, "maximum": np.maximum, "multiply": np.multiply}


@pytest.mark.parametrize("name", sorted(OPS))
@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16])
def test_atomic_updates_combine_rows_picked_twice(name: str, dtype: Any) -> None:
    random = np.random.default_rng(0)
    table = random.integers(1, 3, (40, 16)).astype(dtype)
    values = random.integers(1, 3, (64, 16)).astype(dtype)
    rows = random.integers(0, 20, (64, 1)).astype(np.int32)

    @nki.jit
    def kernel(table: Any, values: Any, rows: Any) -> Any:
        i_p, i_f = nl.mgrid[0:64, 0:16]
        picked = nl.load(rows)
        nl.atomic_rmw(table[picked[i_p, 0], i_f], value=nl.load(values), op=OPS[name])
        return table

    wanted = table.astype(np.float32)
    OPS[name].at(wanted, rows[:, 0], values.astype(np.float32))
    got = kernel(table.copy(), values, rows).astype(np.float32)
    np.testing.assert_allclose(got, wanted, rtol=2e-2 if dtype != np.float32 else 1e-6)


@pytest.mark.parametrize("op", [np.add, nl.minimum])
def test_atomic_updates_of_patterns_and_numbers(op: Any) -> None:
    x = np.random.default_rng(0).standard_normal((50, 30)).astype(np.float32)

    @nki.jit
    def kernel(x: Any) -> Any:
        i_p, i_f = nl.mgrid[0:128, 0:64]
        mask = (i_p < 50) & (i_f < 20)
        nl.atomic_rmw(x[i_p, i_f], value=0.5, op=op, mask=mask)
        nl.atomic_rmw(x[0:50, 20:30], nl.load(x[0:50, 0:10]), op)
        return x

    function = np.add if op is np.add else np.minimum
    wanted = x.copy()
    wanted[:, :20] = function(wanted[:, :20], np.float32(0.5))
    wanted[:, 20:] = function(wanted[:, 20:], wanted[:, :10])
    np.testing.assert_allclose(kernel(x), wanted, rtol=1e-6)


def test_atomic_updates_of_tiles_are_refused() -> None:
    @nki.jit
    def kernel(x: Any) -> Any:
        nl.atomic_rmw(nl.load(x), 1.0, np.add)

    with pytest.raises(ValueError, match=r"dst lies in .*allowed: HBM"):
        kernel(np.zeros((4, 4), np.float32))


@nki.jit
def reduced(x: Any, axes: Any, op: Any) -> Any:
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    i, j = nl.program_id(0), nl.program_id(1)
    tile = nl.load(x[i, j])
    total = nl.all_reduce(tile, op=op, program_axes=axes)
    # A second meeting, and no use of the first tile after it.
    tile[...] = 0.0
    again = nl.all_reduce(total, op=np.maximum, program_axes=axes)
    nl.store(out[i, j], again)
    return out


@pytest.mark.parametrize("axes", [0, 1, (0,), (0, 1), (1, 0)])
@pytest.mark.parametrize("op", [np.add, nl.maximum])
def test_instances_reduce(axes: Any, op: Any) -> None:
    x = np.random.default_rng(0).standard_normal((2, 3, 8, 4)).astype(np.float32)
    function = np.add if op is np.add else np.maximum
    kept = function.reduce(x, axis=axes, keepdims=True)
    got = reduced[2, 3](x, axes, op)
    np.testing.assert_allclose(got, np.broadcast_to(kept, x.shape), rtol=1e-5, atol=1e-6)
    assert np.array_equal(got, reduced[2, 3](x, axes, op))


def test_one_instance_alone_reduces_to_itself() -> None:
    x = np.ones((1, 3, 8, 4), np.float32)
    assert np.array_equal(reduced[1, 3](x, 0, np.add), x)


def test_instances_on_several_cores_are_refused() -> None:
    x = np.ones((2, 3, 8, 4), np.float32)
    with pytest.raises(NotImplementedError, match="several cores; allowed: a launch grid without"):
        reduced[nl.nc(2), 3](x, 0, np.add)
    assert (reduced[nl.nc(2), 3](x, 1, np.add) == 3).all()
    with pytest.raises(ValueError, match=r"program_axes is \(2,\); allowed: axes of .*\(2, 3\)"):
        reduced[2, 3](x, 2, np.add)


def test_an_instance_that_never_comes_is_a_deadlock() -> None:
    @nki.jit
    def kernel(x: Any) -> Any:
        tile = nl.load(x)
        if nl.program_id(0) != 1:
            nl.all_reduce(tile, np.add, program_axes=0)
        return x

    with pytest.raises(DeadlockError, match=r"nl.all_reduce of program \(0,\) waits for \(1,\)"):
        kernel[3](np.ones((4, 4), np.float32))


def test_failures_of_instances_end_the_others() -> None:
    @nki.jit
    def kernel(x: Any) -> Any:
        tile = nl.load(x)
        if nl.program_id(0) == 2:
            message = "of the last"
            raise OSError(message)
        nl.all_reduce(tile, np.add, program_axes=0)
        return x

    with pytest.raises(OSError, match="of the last"):
        kernel[3](np.ones((4, 4), np.float32))


def test_turns_run_in_order_without_waits() -> None:
    said: list[int] = []
    Turns([lambda n=n: said.append(n) for n in range(5)]).run()  # type: ignore[misc]
    assert said == list(range(5))
