"""Two cores that write the same HBM between two meetings: what the later write in time leaves."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import trn3.nki.isa as nisa
import trn3.nki.language as nl
from support.two_cores import halves, line_of
from trn3 import nki

ROWS, COLUMNS = 128, 512


@nki.jit
def late_values(x: Any, writer: int, rows: int = ROWS) -> Any:
    """One core clears the result at once; the other one writes into it after some work."""
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm, name="out")
    if nl.program_id(0) == writer:
        tile = nl.load(x)
        for _ in range(8):
            nisa.tensor_scalar(tile, tile, nl.add, 1.0)
        nisa.dma_copy(out[0:rows], tile[0:rows])  # the late write
    else:
        zero = nl.full(x.shape, 0.0, x.dtype)
        nisa.dma_copy(out, zero)  # the early write
    return out


def values_of(rows: int) -> tuple[Any, Any]:
    x = np.arange(ROWS * COLUMNS, dtype=np.float32).reshape(ROWS, COLUMNS)
    expected = np.where(np.arange(ROWS)[:, None] < rows, x + 8, 0)
    return x, expected


@pytest.mark.parametrize("writer", [0, 1])
@pytest.mark.parametrize("rows", [ROWS, ROWS // 2])
def test_the_later_write_stays_whichever_core_the_host_ran_last(writer: int, rows: int) -> None:
    x, expected = values_of(rows)
    assert np.array_equal(late_values[2](x, writer, rows), expected)
    got, profile = nki.profile(late_values[2], x, writer, rows)
    assert np.array_equal(got, expected)
    assert [finding.kind for finding in profile.findings] == ["race"]


@pytest.mark.parametrize("writer", [0, 1])
def test_two_writers_are_a_finding_with_both_lines_in_a_plain_call(writer: int) -> None:
    late_values[2](values_of(ROWS)[0], writer)
    (found,) = nki.last_findings()
    lines = {line_of(__file__, "# the late write"), line_of(__file__, "# the early write")}
    assert found.kind == "race"
    assert {line for line in lines if line in f"{found.location} {found.message}"} == lines


@pytest.mark.parametrize("writer", [0, 1])
def test_a_reader_after_the_meeting_sees_the_later_write(writer: int) -> None:
    @nki.jit
    def kernel(x: Any) -> Any:
        scratch = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        out = nl.ndarray((2, *x.shape), x.dtype, buffer=nl.shared_hbm)
        own = nl.program_id(0)
        if own == writer:
            tile = nl.load(x)
            for _ in range(8):
                nisa.tensor_scalar(tile, tile, nl.add, 1.0)
            nisa.dma_copy(scratch, tile)
        else:
            nisa.dma_copy(scratch, nl.full(x.shape, 0.0, x.dtype))
        nisa.core_barrier(scratch, (0, 1))
        nisa.dma_copy(out[own], nl.load(scratch))
        return out

    x, expected = values_of(ROWS)
    assert np.array_equal(kernel[2](x), np.stack([expected] * 2))


def test_each_core_may_win_bytes_of_one_tensor() -> None:
    """The halves' owners write late in their own half, early in the other one's."""

    @nki.jit
    def kernel(x: Any) -> Any:
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        own = nl.program_id(0)
        tile = nl.load(x[own])
        nisa.dma_copy(out[1 - own], nl.full(tile.shape, -1.0, x.dtype))
        for _ in range(8):
            nisa.tensor_scalar(tile, tile, nl.add, 1.0)
        nisa.dma_copy(out[own], tile)
        return out

    x = halves()
    expected = x.copy()
    for _ in range(8):
        expected += np.float32(1)
    assert np.array_equal(kernel[2](x), expected)


@pytest.mark.parametrize("writer", [0, 1])
@pytest.mark.parametrize("precise", ["0", "1"])
def test_columns_and_narrow_types_are_settled_byte_by_byte(
    writer: int, precise: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NKI_PRECISE_FP", precise)

    @nki.jit
    def kernel(x: Any) -> Any:
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        if nl.program_id(0) == writer:
            tile = nl.load(x)
            for _ in range(8):
                nisa.tensor_scalar(tile, tile, nl.multiply, 2.0)
            nisa.dma_copy(out[:, 1:64:3], tile[:, 1:64:3])
        else:
            nisa.dma_copy(out, nl.full(x.shape, 0.0, x.dtype))
        return out

    x = np.ones((ROWS, 64), nl.bfloat16) * np.arange(64).astype(nl.bfloat16)
    got = kernel[2](x).astype(np.float32)
    columns = np.zeros(64, bool)
    columns[1:64:3] = True
    assert np.array_equal(got, np.where(columns, x.astype(np.float32) * 256, 0))


@pytest.mark.parametrize("writer", [0, 1])
def test_integers_that_steer_timing_only_runs_are_the_later_ones(writer: int) -> None:
    @nki.jit
    def kernel(rounds: Any) -> Any:
        scratch = nl.ndarray((1, 1), nl.int32, buffer=nl.shared_hbm)
        own = nl.program_id(0)
        tile = nl.load(rounds)
        if own == writer:
            for _ in range(4):
                nisa.tensor_scalar(tile, tile, nl.add, 1)
            nisa.dma_copy(scratch, tile)
        else:
            nisa.dma_copy(scratch, tile)
        nisa.core_barrier(scratch, (0, 1))
        register = nisa.register_alloc(nl.load(scratch))
        for _ in nl.dynamic_range(0, register):
            nisa.tensor_scalar(tile, tile, nl.add, 1)
        return scratch

    x = np.array([[3]], np.int32)
    result, full = nki.profile(kernel[2], x)
    assert result.tolist() == [[7]]
    _, timed = nki.profile(kernel[2], x, values=False)
    assert timed.latency_us == full.latency_us
