"""The same collective asked at every door gives the same bits at the same picosecond."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from support import doors
from support.ranks import same

DTYPES = [np.float32, ml_dtypes.bfloat16, np.int32]


@pytest.mark.parametrize("ranks", [2, 8])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("operation", [*doors.OPERATIONS, "permute"])
def test_functions_methods_and_kernels_give_the_same_bits_and_times(
    operation: str, dtype: Any, ranks: int
) -> None:
    arrays = doors.arrays_of(ranks, dtype)
    wanted, took = doors.by_function(operation, arrays)
    assert wanted is not None
    assert took > 0
    for door in (doors.by_method, doors.by_kernel):
        outputs, time = door(operation, arrays)
        assert outputs is not None
        assert time == took, door.__name__
        for output, expected in zip(outputs, wanted, strict=True):
            same(output, expected)


@pytest.mark.parametrize("ranks", [2, 8, 64])
@pytest.mark.parametrize("rows", [1, 64, 1024])
@pytest.mark.parametrize("operation", [*doors.OPERATIONS, "permute"])
def test_commands_and_replays_take_the_same_time(
    operation: str, rows: int, ranks: int, capsys: pytest.CaptureFixture[str]
) -> None:
    arrays = [np.zeros((rows * 64, 16), np.uint8)] * ranks
    size = doors.size_of(operation, arrays)
    cost = doors.SYSTEM.collective_time(operation, size, range(ranks))
    took = doors.picoseconds(cost.time)
    assert doors.by_command(operation, arrays, capsys) == (None, took)
    if operation != "permute":  # a trace has messages of pairs for it
        assert doors.by_replay(operation, arrays) == (None, took)


def test_orders_are_two_and_differ() -> None:
    """What devices and kernels add by index, a schedule adds in another order."""
    arrays = doors.arrays_of(8, np.float32)
    by_index, _ = doors.by_function("all_reduce", arrays)
    summed = arrays[0]
    for array in arrays[1:]:
        summed = summed + array
    assert by_index is not None
    same(by_index[0], summed)
    ring = doors.SYSTEM.all_reduce(arrays, range(8), algorithm="ring").outputs[0]
    assert not np.array_equal(ring, summed)
    np.testing.assert_allclose(ring, summed, rtol=1e-3, atol=1e-2)
