"""Memory of the host: tensors take it where they are written; what cannot be had is MemoryError."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest

from trn3 import nki
from trn3.nki import isa as nisa, language as nl

resource = pytest.importorskip("resource")

GIB = 1 << 30
STATM = Path("/proc/self/statm")


@nki.jit
def scattered(x, gib):
    """Write 8 KiB of a tensor in two places far apart, and read them."""
    rows = gib * GIB // (128 * 1024)
    large = nl.ndarray((rows, 128, 1024), np.uint8, buffer=nl.private_hbm)
    out = nl.ndarray((128, 64), np.uint8, buffer=nl.shared_hbm)
    tile = nl.load(x)
    nisa.dma_copy(large[1, :, 0:32], tile[:, 0:32])
    nisa.dma_copy(large[rows - 1, :, 992:1024], tile[:, 32:64])
    nisa.dma_copy(out[:, 0:32], large[1, :, 0:32])
    nisa.dma_copy(out[:, 32:64], large[rows - 1, :, 992:1024])
    return out


@nki.jit
def unwritten(x, mib):
    return nl.ndarray((mib, 1 << 20), np.uint8, buffer=nl.shared_hbm)


X = np.arange(128 * 64, dtype=np.uint8).reshape(128, 64)


def _resident():
    return int(STATM.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.skipif(not STATM.exists(), reason="asks Linux what is resident")
@pytest.mark.parametrize("gib", [30, 100])
def test_a_large_tensor_takes_what_is_written(gib):
    scattered(X, 1)
    before = _resident()
    np.testing.assert_array_equal(scattered(X, gib), X)
    assert _resident() - before < 64 << 20


@pytest.mark.parametrize("cores", [1, 2])
def test_a_large_tensor_runs_with_everything_kept_beside_it(cores):
    result, profile = nki.profile(
        scattered[cores], X, 30, shadow=cores == 1, max_host_bytes=64 << 20
    )
    np.testing.assert_array_equal(result, X)
    assert profile.latency_us > 0


def test_a_large_unwritten_result_is_refused_by_name():
    with pytest.raises(MemoryError) as refused:
        nki.simulate(unwritten, max_host_bytes=256 << 20)(X, 300)
    assert type(refused.value) is MemoryError
    for part in ("[300, 1048576]", str(300 << 20), str(256 << 20), "max_host_bytes"):
        assert part in str(refused.value)
    assert nki.simulate(unwritten, max_host_bytes=256 << 20)(X, 2).shape == (2, 1 << 20)


def test_an_argument_beyond_the_limit_is_refused_by_name():
    def kernel(weights):
        return weights

    with pytest.raises(MemoryError, match=r"`weights`.*8388608 bytes.*4194304 \(max_host_bytes\)"):
        nki.simulate(kernel, max_host_bytes=4 << 20)(np.zeros((8, 1 << 20), np.uint8))


def test_what_a_kernel_writes_beyond_the_limit_is_refused_by_name():
    def kernel(x):
        large = nl.ndarray((64, 128, 65536), np.uint8, buffer=nl.private_hbm, name="spill")
        tile = nl.load(x)
        for row in range(64):
            nisa.dma_copy(large[row, :, 0:64], tile)
        return x

    with pytest.raises(MemoryError, match=r"`spill`.*max_host_bytes"):
        nki.simulate(kernel, max_host_bytes=16 << 20)(X)
    nki.simulate(kernel, max_host_bytes=GIB)(X)


def test_the_limit_of_the_environment(monkeypatch):
    monkeypatch.setenv("TRN3_MAX_HOST_BYTES", str(1 << 20))
    with pytest.raises(MemoryError, match="max_host_bytes"):
        unwritten(X, 2)
    assert nki.simulate(unwritten, max_host_bytes=GIB)(X, 2).size == 2 << 20
    monkeypatch.setenv("TRN3_MAX_HOST_BYTES", "1 GiB")
    with pytest.raises(ValueError, match=r"TRN3_MAX_HOST_BYTES is '1 GiB'; allowed: a whole"):
        unwritten(X, 2)


PROGRAM = textwrap.dedent(
    """
    import json, os, resource, sys
    import numpy as np
    import trn3
    from trn3 import nki
    from trn3.nki import collectives as ncc, isa as nisa, language as nl
    from trn3.numerics import Xorwow, cast, matmul

    MIB = 1 << 20
    #: In MiB, above what the process has after its imports and a first launch.
    LIMITS = (1, 24, 96, 200, 500, 40_000)
    X = np.arange(128 * 512, dtype=np.float32).reshape(128, 512) % 251


    @nki.jit
    def copy(x):
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        nisa.dma_copy(out, x)
        return out


    @nki.jit
    def double(x):
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        nl.store(out, nl.multiply(nl.load(x), 2.0))
        return out


    @nki.jit
    def long(x, count):
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        tile = nl.load(x)
        for _ in range(count):
            nisa.tensor_scalar(tile, tile, nl.add, 1.0)
        nl.store(out, tile)
        return out


    @nki.jit
    def sparse(x, gib):
        large = nl.ndarray((gib * 1024, 128, 8192), np.uint8, buffer=nl.private_hbm)
        out = nl.ndarray((128, 32), np.uint8, buffer=nl.shared_hbm)
        tile = nl.load(x)
        nisa.dma_copy(large[gib * 512, :, 0:32], tile)
        nisa.dma_copy(out, large[gib * 512, :, 0:32])
        return out


    @nki.jit
    def gather(x, group):
        mine = nl.ndarray(x.shape, x.dtype, buffer=nl.private_hbm)
        out = nl.ndarray((2 * x.shape[0], *x.shape[1:]), x.dtype, buffer=nl.shared_hbm)
        nisa.dma_copy(mine, x)
        ncc.all_gather([mine], [out], group, collective_dim=0)
        return out


    def large_argument():
        x = np.ones((256, MIB), np.uint8)
        return bool((copy(x) == x).all())


    def collective():
        group = ncc.ReplicaGroup([[0, 1]])
        x = np.ones((64, MIB), np.uint8)
        ranks = [(x, group), (x + 1, group)]
        return all(bool((out[64:] == 2).all()) for out in nki.simulate_ranks(gather, ranks))


    def seeded():
        generators = Xorwow.seed(1, lanes=12 * MIB)
        state = generators.state
        return state.shape == (12 * MIB, 6) and generators.uint32(1).shape == (12 * MIB, 1)


    def profiled():
        _, found = nki.profile(long, X[:, :8], 6_000)
        return found.latency_us > 0


    OPERATIONS = {
        "double": lambda: bool((double(X) == 2 * X).all()),
        "two cores": lambda: bool((double[2](X) == 2 * X).all()),
        "shadow": lambda: bool((nki.profile(double, X, shadow=True)[0] == 2 * X).all()),
        "large argument": large_argument,
        "sparse": lambda: bool((sparse(np.full((128, 32), 7, np.uint8), 30) == 7).all()),
        "collective": collective,
        "seed": seeded,
        "long": profiled,
        "cast": lambda: cast(np.ones((64, MIB), np.float32), "bfloat16").shape == (64, MIB),
        "matmul": lambda: bool((matmul(X[:, :128], X) >= 0).all()),
    }


    def under(operation, limit):
        # In a process of its own, which may end as it likes.
        out, into = os.pipe()
        child = os.fork()
        if child == 0:
            with open("/proc/self/statm") as statm:
                used = int(statm.read().split()[0]) * resource.getpagesize()
            hard = resource.getrlimit(resource.RLIMIT_AS)[1]
            resource.setrlimit(resource.RLIMIT_AS, (used + limit * MIB, hard))
            try:
                outcome = b"right" if OPERATIONS[operation]() else b"wrong"
            except MemoryError:
                outcome = b"MemoryError"
            resource.setrlimit(resource.RLIMIT_AS, (hard, hard))
            # Later calls are unharmed.
            os.write(into, outcome if (double(X) == 2 * X).all() else b"harmed")
            os._exit(0)
        os.close(into)
        outcome = os.read(out, 100).decode()
        os.close(out)
        ended = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        return outcome if ended == 0 else f"ended with {ended}"


    double(X)
    for operation in sys.argv[1:]:
        print(json.dumps({limit: under(operation, limit) for limit in LIMITS}))
    """
)
OPERATIONS = (
    "double",
    "two cores",
    "shadow",
    "large argument",
    "sparse",
    "collective",
    "seed",
    "long",
    "cast",
    "matmul",
)


@pytest.mark.skipif(sys.platform != "linux", reason="limits addresses, which Linux does")
def test_operations_under_six_limits_of_addresses():
    environment = {**os.environ, "TRN3_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM, *OPERATIONS],
        check=False,
        capture_output=True,
        text=True,
        env=environment,
        timeout=600,
    )
    assert ran.returncode == 0, ran.stderr[-2000:]
    found = dict(zip(OPERATIONS, map(json.loads, ran.stdout.splitlines()), strict=True))
    assert len(found) == len(OPERATIONS)
    for operation, outcomes in found.items():
        assert len(outcomes) == 6
        assert set(outcomes.values()) <= {"right", "MemoryError"}, (operation, outcomes)
        assert outcomes["40000"] == "right", operation
    assert found["large argument"]["24"] == found["sparse"]["500"] == "MemoryError"
