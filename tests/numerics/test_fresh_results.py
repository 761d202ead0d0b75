"""Results in memory that was kept: whose it is, how long it lives, how much of it there is."""

from __future__ import annotations

import gc
import os
import threading
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from oracle.operands import BFLOAT16, FLOAT32
from support.checks import run_python
from trn3.numerics import cast, matmul

Array = npt.NDArray[Any]

HUGE_PAGE = 1 << 21


def ones(megabytes: int) -> Array:
    """Make numbers whose cast to bfloat16 has so many MiB."""
    return np.ones((megabytes, 1 << 19), dtype=np.float32)


def test_a_long_result_is_an_array_like_any() -> None:
    got = cast(ones(6), BFLOAT16)
    assert got.shape == (6, 1 << 19)
    flags = got.flags
    assert flags.c_contiguous
    assert flags.writeable
    assert flags.aligned
    assert got.ctypes.data % HUGE_PAGE == 0
    got[1:3] = 2
    assert (got[1:3] == 2).all()
    assert (got[3:] == 1).all()


def test_results_that_live_share_nothing() -> None:
    results = [cast(ones(4) * k, BFLOAT16) for k in range(1, 9)]
    del results[3]
    results += [cast(ones(4) * 9, BFLOAT16), cast(ones(3) * 10, BFLOAT16)]
    for k, result in zip([1, 2, 3, 5, 6, 7, 8, 9, 10], results, strict=True):
        assert (result == k).all()
        assert not any(np.shares_memory(result, other) for other in results if other is not result)


def test_a_view_keeps_the_memory_of_its_array() -> None:
    got = cast(ones(5) * 3, BFLOAT16)
    view: Array = got[4, 7:9]
    del got
    gc.collect()
    others = [cast(ones(5) * 4, BFLOAT16) for _ in range(3)]
    assert (view == 3).all()
    assert all((other == 4).all() for other in others)


def test_the_next_result_takes_the_memory_of_one_that_is_gone() -> None:
    addresses = set()
    for k in range(1, 9):
        got = cast(ones(7) * k, BFLOAT16)
        assert (got == k).all()
        addresses.add(got.ctypes.data)
        del got
    assert len(addresses) < 8


def test_results_of_several_threads() -> None:
    wrong: list[int] = []

    def work(k: int) -> None:
        results = (cast(ones(3) * k, BFLOAT16) for _ in range(12))
        wrong.extend(k for result in results if not (result == k).all())

    threads = [threading.Thread(target=work, args=(k,)) for k in range(1, 7)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_stale_memory_is_no_part_of_a_product() -> None:
    """Packed operands and results begin with what others left: NaN must stay there."""
    random = np.random.default_rng(1)
    a = random.standard_normal((700, 1025), dtype=np.float32)
    b = random.standard_normal((1025, 771), dtype=np.float32)
    expected = matmul(a, b)
    poison = [np.full((1 << 20,), np.nan, dtype=FLOAT32) for _ in range(4)]
    kept = [cast(nan, FLOAT32) for nan in poison]
    del kept
    assert np.array_equal(matmul(a, b), expected)


LOOP = """
import resource, sys
import ml_dtypes, numpy as np
import trn3
from trn3 import numerics as tn
x = np.ones((4096, 4096), dtype=np.float32)
faults = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_minflt
tn.cast(x, np.float32)
before = faults()
for _ in range(20):
    tn.cast(x, np.float32)
print(faults() - before)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="counts page faults as Unix does")
@pytest.mark.parametrize(("kept", "repeats"), [(None, False), ("128", False), ("0", True)])
def test_how_much_is_kept(kept: str | None, *, repeats: bool) -> None:
    finished = run_python(LOOP, env={} if kept is None else {"TRN3_KEPT_MIB": kept})
    assert finished.returncode == 0, finished.stderr
    # A result of 64 MiB has 32 pages at the least.
    assert (int(finished.stdout) >= 20 * 32) == repeats


@pytest.mark.parametrize("value", ["-1", "much", "1.5", str(1 << 60)])
def test_a_bad_count_in_the_environment(value: str) -> None:
    code = "import numpy as np, trn3; trn3.numerics.exp(np.zeros((1 << 20,), 'f4'))"
    finished = run_python(code, env={"TRN3_KEPT_MIB": value})
    assert finished.returncode == 1, finished.stderr
    assert "ValueError: TRN3_KEPT_MIB is" in finished.stderr
    assert value in finished.stderr


FORK = """
import os
import ml_dtypes, numpy as np
from trn3 import numerics as tn
x = np.ones((4, 1 << 20), dtype=np.float32)
mine = tn.cast(x, np.float32)
tn.cast(x, np.float32)
child = os.fork()
if child == 0:
    results = [tn.cast(x * k, np.float32) for k in range(2, 6)]
    good = all((result == k).all() for k, result in zip(range(2, 6), results))
    mine[:] = 7
    os._exit(0 if good else 1)
assert os.waitpid(child, 0)[1] == 0
assert (mine == 1).all() and (tn.cast(x * 3, np.float32) == 3).all()
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
def test_a_forked_process_has_memory_of_its_own() -> None:
    finished = run_python(FORK)
    assert finished.returncode == 0, finished.stderr
