"""Where tensors lie: creation, addresses, sizes per target, and the texts of errors."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import trn3.nki.isa as nisa
import trn3.nki.language as nl
from support.core import ONE, get, put, run
from trn3 import nki


def test_regions() -> None:
    values = [region.value for region in nl.MemoryRegion]
    assert values == ["sbuf", "psum", "private_hbm", "shared_hbm"]
    assert str(nl.psum) == "MemoryRegion.psum"
    assert nl.hbm is nl.private_hbm
    region: Any = nl.sbuf
    with pytest.raises(TypeError, match="'MemoryRegion' object is not callable"):
        region(3)

    def kernel() -> None:
        for name in ("sbuf", "psum", "hbm", "private_hbm", "shared_hbm"):
            tensor = nl.ndarray((2, 2), nl.float32, buffer=name)
            assert tensor.buffer is getattr(nl, name)
            on_chip = name in ("sbuf", "psum")
            for one in (tensor, tensor.buffer):
                assert nl.is_on_chip(one) is on_chip
                assert nl.is_hbm(one) is not on_chip
                assert nl.is_sbuf(one) is (name == "sbuf")
                assert nl.is_psum(one) is (name == "psum")

    run(kernel)


def test_creation_takes_every_spelling() -> None:
    def kernel() -> None:
        plain: Any = [2, 3]
        assert nl.ndarray(dtype=nl.float32, shape=plain, name=None, address=None).shape == (2, 3)
        assert nl.ndarray((np.int64(2), np.int32(3)), nl.float32, nl.psum).buffer is nl.psum
        assert nl.ndarray((nl.par_dim(4), 8), nl.float32).shape == (4, 8)
        assert nl.ndarray([1], nl.int32).shape == (1, 1)
        assert nl.ndarray((4,), nl.int32, nl.hbm).shape == (4,)
        listed: Any = [0, 2048]
        tile = nl.ndarray((2, 2), nl.float32, address=listed)
        assert tile.place is not None
        assert tile.place[:2] == (0, 2048)
        tile = nl.ndarray((2, 2), nl.float32, address=(np.int64(0), np.int64(4096)))
        assert tile.place is not None
        assert tile.place[:2] == (0, 4096)
        for make in (nl.zeros, nl.ones):
            made = make((2, 3), dtype=nl.float32, buffer=nl.shared_hbm, name="made")
            assert made.buffer is nl.shared_hbm
        psum = nl.ndarray((2, 2), nl.float32, nl.psum)
        assert nl.zeros_like(psum).buffer is nl.psum
        assert nl.empty_like(psum, dtype=nl.int32, buffer=nl.hbm).dtype == nl.int32

    run(kernel)


MAKERS: list[Callable[[Any, Any], Any]] = [
    lambda x, a: nl.empty_like(x, address=a),
    lambda x, a: nl.zeros_like(x, address=a),
    lambda x, a: nl.zeros((2, 2), nl.float32, nl.sbuf, "t", a),
    lambda x, a: nl.ones((2, 2), nl.float32, nl.sbuf, "t", a),
    lambda x, a: nl.full((2, 2), 1, nl.float32, nl.sbuf, "t", a),
    lambda x, a: nl.rand((2, 2), nl.float32, nl.sbuf, "t", a),
]


@pytest.mark.parametrize("make", MAKERS)
def test_creation_functions_take_the_same_tail(make: Any) -> None:
    assert run(lambda: make(nl.zeros((2, 2), nl.float32), (0, 8192)).place[:2]) == (0, 8192)


BAD: list[tuple[Callable[[], Any], str]] = [
    (lambda: nl.ndarray((2, 2)),  # type: ignore[call-arg]
     r"^ndarray\(\) missing 1 required positional argument: 'dtype'"),
    (lambda: nl.ndarray((4,), nl.float32),
     r"SBUF and PSUM tensors must have at least 2 dimensions \(partition-dim and free-dim\)"),
    (lambda: nl.ndarray((256, 4), nl.float32), "partition dimension 256 exceeds maximum 128"),
    (lambda: nl.ndarray((2, "a"), nl.float32), r"shape is \(2, 'a'\); allowed"),
    (lambda: nl.ndarray((2, -4), nl.float32), r"shape is \(2, -4\); allowed"),
    (lambda: nl.ndarray(None, nl.float32), "shape is None; allowed"),  # type: ignore[arg-type]
    (lambda: nl.ndarray((2, 2), nl.float32, name=3), "name is 3"),  # type: ignore[arg-type]
    (lambda: nl.ndarray((2, 2), nl.float32, address=3),  # type: ignore[arg-type]
     "address is 3; allowed"),
    (lambda: nl.ndarray((2, 2), np.float64), "float64"),
    (lambda: nl.ndarray((2, 2), nl.float32, "dram"), "buffer is 'dram'"),
    (lambda: nl.ndarray((2, 4), nl.float32, nl.psum, address=(0, 1024)), "2048"),
    (lambda: nl.full((2, 2), 300, nl.uint8), "300"),
    (lambda: [nl.ndarray((128, 20000), nl.float32, name=f"alpha{i}") for i in range(4)],
     r"(?s)`alpha3`.*80000 bytes per partition.*`alpha0`"),
    (lambda: [nl.ndarray((128, 512), nl.float32, nl.psum, name=f"p{i}") for i in range(9)],
     r"(?s)`p8`.*`p0`"),
]  # fmt: skip


@pytest.mark.parametrize(("make", "message"), BAD)
def test_what_cannot_be_made_is_refused(make: Any, message: str) -> None:
    def kernel() -> None:
        with pytest.raises(Exception, match=message):
            make()

    run(kernel)


def test_equal_names_are_warned_of_once_in_strict_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    @nki.jit
    def kernel(x: Any) -> Any:
        for _ in nl.affine_range(3):
            nisa.memset(nl.ndarray((2, 2), nl.float32, name="same"), 0.0)
        return x

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        kernel(ONE)
        assert not caught
        monkeypatch.setenv("TRN3_NKI_STRICT", "1")
        kernel(ONE)
    assert ["`same`" in str(each.message) for each in caught].count(True) == 1


def test_addresses_share_bytes() -> None:
    def kernel() -> None:
        a = nl.ndarray((128, 8), nl.float32, address=(0, 1024))
        nisa.memset(a, value=1.0)
        assert get(nl.ndarray((128, 8), nl.uint32, address=(0, 1024)))[0, 0] == 0x3F800000
        low = get(nl.ndarray((128, 2), nl.uint8, address=(0, 1026)))
        assert low[5].tolist() == [0x80, 0x3F]
        nisa.memset(nl.ndarray((32, 8), nl.float32, address=(32, 1024)), value=2.0)
        assert get(a)[[31, 32, 63, 64], 0].tolist() == [1, 2, 2, 1]
        assert nl.ndarray((128, 8192), nl.bfloat16, nl.psum, address=(0, 0)).size == 128 * 8192

    run(kernel)


def test_new_tensors_hold_nan_and_4() -> None:
    def kernel() -> None:
        for dtype in (nl.float32, nl.bfloat16, nl.float16):
            for buffer in (nl.sbuf, nl.psum, nl.hbm):
                values = get(nl.ndarray((4, 4), dtype, buffer)).astype(np.float32)
                assert np.isnan(values).all()
        for dtype in (nl.int32, nl.uint8):
            assert (get(nl.ndarray((4, 4), dtype)) == 4).all()

    run(kernel)


MIB = 1 << 20
SIZES: dict[str, tuple[int, int, int]] = {
    "pmax": (128,) * 3, "psum_fmax": (512,) * 3, "psum_bank_fmax": (512,) * 3,
    "psum_bank_fmax_bytes": (2048,) * 3, "psum_fmax_bytes": (2048,) * 3,
    "psum_num_banks": (8,) * 3, "gemm_stationary_fmax": (128,) * 3,
    "gemm_moving_fmax": (512,) * 3, "bn_stats_fmax": (512,) * 3,
    "sbuf_size_bytes": (24 * MIB, 28 * MIB, 32 * MIB),
    "sbuf_fmax_bytes": (180224, 212992, 245760),
    "total_available_sbuf_size": (180224, 212992, 245760),
    "sbuf_fmax": (45056, 53248, 61440), "psum_min_align": (4,) * 3, "sbuf_min_align": (1,) * 3,
}  # fmt: skip
NAMES = [("trn1", 0), ("inf2", 0), ("gen2", 0), ("trn2", 1), ("gen3", 1), ("trn3", 2), ("gen4", 2)]


@pytest.mark.parametrize(("name", "column"), NAMES)
@pytest.mark.parametrize("variable", ["NEURON_PLATFORM_TARGET_OVERRIDE", "NKI_NC_VERSION"])
def test_sizes_of_each_target(
    name: str, column: int, variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NEURON_PLATFORM_TARGET_OVERRIDE", raising=False)
    monkeypatch.setenv(variable, name)
    expected = {name: values[column] for name, values in SIZES.items()}

    def sizes() -> dict[str, int]:
        return {name: getattr(nl.tile_size, name) for name in SIZES}

    assert sizes() == run(sizes) == expected
    assert int(nisa.get_nc_version()) == column + 2
    assert (nisa.get_nc_version() >= nisa.nc_version.gen3) is (column > 0)
    monkeypatch.setenv("NKI_DMA_TRANSPOSE_AS_PE_TRANSPOSE", "true")
    assert nl.tile_size.psum_num_banks == (8 if column == 0 else 7)


MESSAGES: list[tuple[Callable[[Any, Any, Any], Any], str]] = [
    (lambda s, p, h: nisa.dma_copy(h, s[:, 0:4]),
     "dma_copy requires src and dst to have the same number of elements"),
    (lambda s, p, h: nisa.dma_copy(h, p),
     ("dma_copy requires HBM or SBUF tensors, got src=MemoryRegion.psum, "
     "dst=MemoryRegion.private_hbm")),
    (lambda s, p, h: nisa.tensor_copy(h, s),
     r"tensor_copy dst must be in \['sbuf', 'psum'\], got private_hbm"),
    (lambda s, p, h: nisa.nc_matmul(s, s, s), r"dst must be in \['psum'\], got sbuf"),
    (lambda s, p, h: nisa.nc_matmul(p[0:3, 0:4], s[0:3, 0:3], s[0:4, 0:4]),
     r"Matmul contraction dimension mismatch: stationary\[0\]=3 != moving\[0\]=4"),
    (lambda s, p, h: nisa.tensor_reduce(s, nl.add, nl.zeros((4, 2, 2, 2, 2), nl.float32), (2, 4)),
     r"tensor_reduce axis must be the last contiguous dim\(s\) of the tile. Got axis=\(2, 4\)"),
    (lambda s, p, h: nl.sum(nl.zeros((4, 2, 2, 2, 2), nl.float32), axis=(0, 4)),
     r"axis is \(0, 4\) for a tile with 5 axes; allowed: free axes, from 1 to 4, each once"),
]  # fmt: skip


@pytest.mark.parametrize(("function", "message"), MESSAGES)
def test_errors_have_the_known_words(function: Any, message: str) -> None:
    def kernel() -> None:
        tiles = nl.zeros((4, 8), nl.float32), nl.ndarray((4, 8), nl.float32, nl.psum)
        with pytest.raises((AssertionError, ValueError), match=message):
            function(*tiles, nl.ndarray((4, 8), nl.float32, nl.hbm))

    run(kernel)


def test_casts_of_memset_and_copies_follow_the_tile() -> None:
    def kernel() -> None:
        whole = nl.ndarray((2, 2), nl.int32)
        nisa.memset(whole, value=2.0)
        assert get(whole)[0, 0] == 2
        with pytest.raises((ValueError, AssertionError)):
            nisa.memset(whole, value=2.5)
        half = nl.ndarray((2, 2), nl.bfloat16)
        nisa.tensor_copy(half, nl.ones((2, 2), nl.float32), dtype=nl.float32)
        assert (get(half) == 1).all()
        assert bool(nisa.register_alloc(put(np.array([[3]], np.int32))))

    run(kernel)
