"""What VectorE and ScalarE reach: indirect columns, limits of memories and partitions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from support.core import Machine
from support.engines import assert_same, cases
from trn3.machine import NkiValidationError
from trn3.nki import isa
from trn3.nki.isa import activations, elementwise, select, tensor_reduction


def column_lists(index: np.ndarray[Any, Any], partitions: int) -> np.ndarray[Any, Any]:
    """Columns of each partition: offset i of a group of 16 is at index[i % 16, i // 16] of it."""
    groups = index.reshape(partitions // 16, 16, -1)
    flat = groups.transpose(0, 2, 1).reshape(partitions // 16, -1)
    return np.repeat(flat, 16, axis=0)


def test_indirect_inputs_gather_columns_in_groups_of_16() -> None:
    rng = np.random.default_rng(1)
    x = rng.normal(size=(128, 64)).astype(np.float32)
    index = rng.integers(0, 64, (128, 2)).astype(np.uint16)
    picked = np.take_along_axis(x, column_lists(index, 128).astype(np.int64), axis=1)
    y = rng.normal(size=(128, 32)).astype(np.float32)
    with Machine() as m:
        tile, other = m.tile(x), m.tile(y)
        gathered = tile.indirect(m.tile(index, "uint16"))
        dst, total = m.empty((128, 32)), m.empty((128, 1))
        elementwise.tensor_tensor(dst, gathered, other, "add")
        assert_same(m.get(dst), picked + y)
        elementwise.tensor_scalar(dst, gathered, "multiply", 2.0)
        assert_same(m.get(dst), picked * np.float32(2))
        activations.activation(dst, "square", gathered)
        assert_same(m.get(dst), picked * picked)
        tensor_reduction.tensor_reduce(total, "maximum", gathered, 1)
        assert_same(m.get(total), picked.max(axis=1))
        elementwise.tensor_scalar_reduce(dst, gathered, "add", 0.0, "maximum", total)
        assert_same(m.get(total), picked.max(axis=1))


def test_indirect_results_scatter_columns() -> None:
    index = np.stack([np.arange(16) * 2, np.arange(16) * 2 + 1], axis=1).astype(np.uint16)
    index = np.tile(index, (8, 1))
    y = np.random.default_rng(2).normal(size=(128, 32)).astype(np.float32)
    expected = np.zeros((128, 64), np.float32)
    np.put_along_axis(expected, column_lists(index, 128).astype(np.int64), y, axis=1)
    with Machine() as m:
        tile = m.tile(np.zeros((128, 64)))
        activations.activation(tile.indirect(m.tile(index, "uint16")), "copy", m.tile(y))
        assert_same(m.get(tile), expected)


def test_indirect_operands_are_refused_where_none_is_taken() -> None:
    with Machine() as m:
        a, index = m.tile(np.zeros((128, 64))), m.tile(np.zeros((128, 2)), "uint16")
        view, b = a.indirect(index), m.tile(np.zeros((128, 32)))
        p = m.tile(np.zeros((128, 32)), "uint8")
        for call, arguments, operand in cases(
            (elementwise.tensor_tensor, (b, b, view, "add"), "data2"),
            (elementwise.scalar_tensor_tensor, (b, view, "add", 1.0, "add", b), "data"),
            (elementwise.reciprocal, (b, view), "data"),
            (tensor_reduction.tensor_tensor_scan, (b, view, b, 0.0, "add", "add"), "data0"),
            (select.tensor_copy_predicated, (b, view, p), "src"),
            (select.select_reduce, (b, p, view, 0.0), "on_true"),
        ):
            with pytest.raises(NkiValidationError, match=rf"{operand}.* takes no \.indirect"):
                call(*arguments)
        psum = m.tile(np.zeros((128, 64)), buffer="psum")
        with pytest.raises(NkiValidationError, match=r"dst.* ScalarE scatters into sbuf alone"):
            activations.activation(psum.indirect(index), "copy", b)


def test_indirect_placement() -> None:
    with Machine() as m:
        a = m.tile(np.zeros((128, 64)))
        low = m.tile(np.zeros((32, 2)), "uint16")
        far = a[64:96].indirect(low)
        with pytest.raises(NkiValidationError, match=r"starts at partition 64, its index at 0"):
            elementwise.tensor_scalar(m.empty((32, 32)), far, "add", 1.0)


@pytest.mark.parametrize("partitions", [1, 31, 32, 64, 128])
def test_start_partitions(partitions: int) -> None:
    grain = 128 if partitions > 64 else 64 if partitions > 32 else 32
    with Machine() as m:
        for start in range(0, 129 - partitions, 16):
            tile = m.tile(np.ones((partitions, 4)), address=(start, 0))
            if start % grain == 0:
                elementwise.tensor_scalar(tile, tile, "add", 1.0)
                assert (m.get(tile) == 2).all()
            else:
                with pytest.raises(NkiValidationError, match=f"starts at partition {start}"):
                    elementwise.tensor_scalar(tile, tile, "add", 1.0)


def test_quadrants_may_differ() -> None:
    x = np.arange(64, dtype=np.float32).reshape(32, 2)
    with Machine() as m:
        src, dst = m.tile(x, address=(96, 0)), m.empty((32, 2), address=(32, 64))
        activations.activation(dst, "copy", src)
        assert_same(m.get(dst), x)


def test_sizes_at_their_limits() -> None:
    with Machine() as m:
        wide = m.tile(np.ones((1, 65536)), "uint8")
        elementwise.tensor_scalar(wide, wide, "add", 1.0)
        assert (m.get(wide) == 2).all()
        over = m.tile(np.ones((1, 65537)), "uint8")
        with pytest.raises(
            NkiValidationError, match="has 65537 elements per partition; at most 65536 in sbuf"
        ):
            elementwise.tensor_scalar(over, over, "add", 1.0)
        psum = m.tile(np.ones((128, 4096)), buffer="psum")
        elementwise.reciprocal(psum, psum)


def test_uninitialised_inputs_are_found() -> None:
    with Machine() as m:
        dst = m.empty((128, 4))
        elementwise.tensor_scalar(dst, m.empty((128, 4)), "add", 1.0)
        assert np.isnan(m.get(dst)).all()
        kinds = [finding["kind"] for finding in m.core.findings()]
        assert kinds == ["uninitialized_read", "nan_origin"]


def test_stochastic_rounding_reaches_engine_results() -> None:
    with Machine() as m:
        x = m.tile(np.full((128, 1024), 1 + 2.0**-9, np.float32))
        dst = m.empty((128, 1024), "bfloat16")
        m.core.set_stochastic_rounding(7)
        for engine in (isa.engine.vector, isa.engine.scalar):
            elementwise.tensor_scalar(dst, x, "multiply", 1.0, engine=engine)
            share = (m.get(dst).astype(np.float32) > 1).mean()
            assert abs(share - 0.25) < 0.01


def test_timing_only_runs_check_and_cost_the_same() -> None:
    spans = []
    for values in (True, False):
        with Machine(values=values) as m:
            a, b = m.empty((128, 512), "bfloat16"), m.empty((128, 512))
            elementwise.tensor_tensor(b, a, a, "add")
            activations.activation(a, "gelu", b)
            tensor_reduction.tensor_reduce(m.empty((128, 1)), "add", a, 1)
            with pytest.raises(NkiValidationError, match="data1"):
                elementwise.tensor_tensor(b, a[0:64], a, "add")
            spans.append(m.core.makespan())
    assert spans[0] == spans[1] > 0
