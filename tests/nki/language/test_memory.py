"""Where tensors lie, how they are made, and the sizes kernels ask for."""

from __future__ import annotations

import typing
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import trn3.nki.isa as nisa
import trn3.nki.language as nl
from support.core import ONE, get, put, run
from trn3 import nki
from trn3.machine import PsumCapacityError, SbufCapacityError
from trn3.nki.ranks.context import core

SIZES = {
    "pmax": (128, 128, 128),
    "psum_fmax": (512, 512, 512),
    "psum_bank_fmax": (512, 512, 512),
    "psum_bank_fmax_bytes": (2048, 2048, 2048),
    "psum_fmax_bytes": (2048, 2048, 2048),
    "psum_num_banks": (8, 8, 8),
    "gemm_stationary_fmax": (128, 128, 128),
    "gemm_moving_fmax": (512, 512, 512),
    "bn_stats_fmax": (512, 512, 512),
    "sbuf_size_bytes": (24 << 20, 28 << 20, 32 << 20),
    "sbuf_fmax_bytes": (180224, 212992, 245760),
    "total_available_sbuf_size": (180224, 212992, 245760),
    "sbuf_fmax": (45056, 53248, 61440),
    "psum_min_align": (4, 4, 4),
    "sbuf_min_align": (1, 1, 1),
}


@pytest.mark.parametrize("name", SIZES)
@pytest.mark.parametrize("generation", [2, 3, 4])
def test_tile_size_follows_the_target(
    name: str, generation: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NEURON_PLATFORM_TARGET_OVERRIDE", f"gen{generation}")
    assert getattr(nl.tile_size, name) == SIZES[name][generation - 2]
    pinned = nki.jit(lambda: getattr(nl.tile_size, name), platform_target="trn2")
    assert pinned() == SIZES[name][1]


@pytest.mark.parametrize(("target", "banks"), [("trn1", 8), ("trn2", 7), ("trn3", 7)])
def test_tile_size_reserves_a_bank_for_transposes(
    target: str, banks: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NEURON_PLATFORM_TARGET_OVERRIDE", target)
    monkeypatch.setenv("NKI_DMA_TRANSPOSE_AS_PE_TRANSPOSE", "true")
    assert nl.tile_size.psum_num_banks == banks


def test_versions_are_ordered(monkeypatch: pytest.MonkeyPatch) -> None:
    for target, version in (("inf2", 2), ("gen3", 3), ("trn3", 4)):
        monkeypatch.setenv("NEURON_PLATFORM_TARGET_OVERRIDE", target)
        assert nisa.get_nc_version() == version
        assert (nisa.get_nc_version() >= nisa.nc_version.gen3) is (version >= 3)
    assert nisa.get_nc_sub_version() == 0


def test_memory_regions() -> None:
    assert nl.hbm is nl.private_hbm
    assert str(nl.psum) == "MemoryRegion.psum"
    assert [region.value for region in nl.MemoryRegion] == [
        "sbuf", "psum", "private_hbm", "shared_hbm"
    ]  # fmt: skip
    for region in (nl.sbuf, nl.psum, nl.hbm, nl.shared_hbm):
        assert nl.is_sbuf(region) is (region is nl.sbuf)
        assert nl.is_psum(region) is (region is nl.psum)
        assert nl.is_hbm(region) is (region in (nl.hbm, nl.shared_hbm))
        assert nl.is_on_chip(region) is not nl.is_hbm(region)


@pytest.mark.parametrize("region", ["sbuf", "psum", "hbm", "private_hbm", "shared_hbm"])
def test_ndarray_lies_where_it_is_told(region: str) -> None:
    def kernel() -> None:
        tensor = nl.ndarray((4, 12), nl.float32, buffer=getattr(nl, region), name="t")
        assert tensor.buffer is getattr(nl, region)
        assert nl.ndarray([4, 12], "bfloat16", region).buffer is tensor.buffer
        assert (tensor.shape, tensor.name, tensor.ndim, tensor.size) == ((4, 12), "t", 2, 48)
        assert tensor.strides == (12, 1)
        assert tensor.dtype is nl.float32
        assert (nl.is_hbm(tensor), nl.is_sbuf(tensor)) == ("hbm" in region, region == "sbuf")

    run(kernel)


def test_ndarray_takes_the_spellings_of_kernels() -> None:
    def kernel() -> None:
        length = np.int64(8)
        for tensor in (
            nl.ndarray((4, length), nl.float32, nl.sbuf),
            nl.ndarray(dtype=np.float32, shape=[4, 8], name=None, address=None),
            nl.ndarray(shape=(4, 8), dtype=float, buffer=nl.sbuf),
        ):
            assert (tensor.shape, tensor.dtype, tensor.buffer) == ((4, 8), nl.float32, nl.sbuf)
        assert nl.ndarray([1], nl.int32).shape == (1, 1)
        assert nl.ndarray(5, nl.int32, buffer=nl.hbm).shape == (5,)

    run(kernel)


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        (((4,), nl.float32), ValueError, "must have at least 2 dimensions"),
        (((4, 0), nl.float32), ValueError, "shape"),
        (((129, 4), nl.float32), ValueError, "128"),
        (((4, 4), "float64"), TypeError, "dtype is 'float64'"),
        (((4, 4), nl.float32, "dram"), TypeError, "buffer is 'dram'; allowed: nl.sbuf"),
        (((4, 4), nl.float32, nl.psum, "", (0, 100)), ValueError, "2048"),
        (((128, 1 << 17), nl.float32), SbufCapacityError, "SBUF"),
        (((128, 5000), nl.float32, nl.psum), PsumCapacityError, "PSUM"),
    ],
)
def test_ndarray_refuses_what_no_memory_holds(arguments: Any, error: Any, text: str) -> None:
    with pytest.raises(error, match=text):
        run(lambda: nl.ndarray(*arguments))


def test_ndarray_wants_a_dtype() -> None:
    make: Any = nl.ndarray
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'dtype'"):
        run(lambda: make((4, 4)))


def test_ndarray_stands_in_annotations_and_checks() -> None:
    tensor: Any = nl.ndarray
    optional: Any = typing.Optional
    assert optional[tensor] == tensor | None
    assert tensor | tuple[int, ...]
    for name in ("dtype", "tensor"):
        module: Any = getattr(nki, name)
        assert optional[module]
        assert module | None is module
        with pytest.raises(TypeError, match="is a module and an annotation"):
            module()
    assert not isinstance(ONE, tensor)
    assert run(lambda: isinstance(nl.ndarray((1, 1), nl.int8), tensor))


def test_addresses_share_bytes() -> None:
    def kernel() -> Any:
        one = nl.ndarray((4, 2), nl.float32, address=(0, 64))
        other = nl.ndarray((4, 4), nl.uint16, address=(0, 64))
        nisa.memset(one, 1.0)
        assert one.place == (0, 64, 4, 8)
        return get(other)

    assert run(kernel).tolist() == [[0, 0x3F80, 0, 0x3F80]] * 4


@pytest.mark.parametrize(("memory", "count"), [("psum", 8), ("sbuf", 120)])
def test_tiles_made_again_while_the_last_ones_are_held(memory: str, count: int) -> None:
    """A list that is made anew in a loop is bound only once all its tiles are there."""

    def kernel() -> list[list[float]]:
        sums = []
        for turn in range(3):
            tiles = [nl.ndarray((128, 512), nl.float32, getattr(nl, memory)) for _ in range(count)]
            for place, tile in enumerate(tiles):
                nisa.memset(tile, float(turn * count + place))
            sums.append([float(get(tile)[127, 511]) for tile in tiles])
        return sums

    assert run(kernel) == [[float(turn * count + i) for i in range(count)] for turn in range(3)]


def test_tiles_in_use_together_that_do_not_fit_are_refused() -> None:
    def kernel() -> None:
        tiles = [nl.ndarray((128, 512), nl.float32, nl.psum, name=f"bank_{i}") for i in range(9)]
        del tiles

    def again() -> None:
        first = nl.ndarray((128, 4096), nl.float32, nl.psum, name="first")
        nisa.memset(first, 1.0)
        second = nl.ndarray((128, 512), nl.float32, nl.psum, name="second")
        nisa.memset(second, 2.0)
        nisa.tensor_copy(second, first[:, 0:512])

    with pytest.raises(PsumCapacityError, match="cannot hold tensor `bank_8`"):
        run(kernel)
    with pytest.raises(PsumCapacityError, match=r"`first`.* is used again .* went to .*`second`"):
        run(again)


@pytest.mark.parametrize("memory", ["sbuf", "psum"])
def test_tensors_without_an_address_share_no_bytes_with_those_that_have_one(memory: str) -> None:
    def kernel() -> bool:
        region = getattr(nl, memory)
        free = nl.ndarray((128, 1024), nl.float32, region)
        nisa.memset(free, 1.0)
        view = free[:, 512:]
        for byte in range(0, 16384, 2048):
            given = nl.ndarray((128, 512), nl.float32, region, address=(0, byte))
            nisa.memset(given, 2.0)
        nisa.memset(view, 3.0)
        late = nl.ndarray((128, 512), nl.float32, region)
        nisa.tensor_copy(late, free[:, 256:768])
        assert (get(given) == 2.0).all()
        return bool((get(late) == np.repeat([1.0, 3.0], 256)).all())

    assert run(kernel)


def test_uninitialised_tensors_read_as_sentinels() -> None:
    def kernel() -> Any:
        return [get(nl.ndarray((2, 2), dtype)) for dtype in (nl.float32, nl.bfloat16, nl.int32)]

    floats, narrow, integers = run(kernel)
    assert np.isnan(floats).all()
    assert np.isnan(narrow.astype(np.float32)).all()
    assert (integers == 4).all()


@pytest.mark.parametrize("dtype", [nl.float32, nl.bfloat16, nl.int8, nl.uint32, nl.float8_e4m3])
def test_fills_on_chip(dtype: Any) -> None:
    def kernel() -> Any:
        x = nl.full((3, 5), 3, dtype)
        assert nl.zeros_like(x).dtype is dtype
        assert nl.empty_like(x, buffer=nl.psum, dtype=nl.float32).buffer is nl.psum
        return [
            get(t) for t in (x, nl.zeros((3, 5), dtype), nl.ones((3, 5), dtype), nl.zeros_like(x))
        ]

    for array, value in zip(run(kernel), (3, 0, 1, 0), strict=True):
        assert array.dtype == dtype
        assert (array.astype(np.float32) == value).all()


@pytest.mark.parametrize("shape", [(1,), (7,), (128, 512), (3, 5, 7), (129, 517), (70000,)])
def test_fills_in_hbm(shape: tuple[int, ...]) -> None:
    result = nki.jit(lambda: nl.full(shape, 2.5, nl.float32, buffer=nl.shared_hbm))()
    assert result.shape == shape
    assert (result == 2.5).all()


@pytest.mark.parametrize(
    ("value", "dtype"),
    [(300, nl.uint8), (-1, nl.uint32), (1.5, nl.int32), (1e6, nl.float16), (500, nl.float8_e4m3),
     (1, nl.float8_e4m3fn_x4)],
)  # fmt: skip
def test_full_refuses_values_that_the_type_lacks(value: float, dtype: Any) -> None:
    with pytest.raises(ValueError, match=rf"fill_value is {value!r} for dtype {dtype}"):
        run(lambda: nl.full((2, 2), value, dtype))


def test_shared_constants_are_kept_by_content(tmp_path: Path) -> None:
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    np.save(tmp_path / "c.npy", array)

    @nki.jit
    def kernel() -> Any:
        one, other = nl.shared_constant(array), nl.shared_constant(array.copy())
        assert one is other
        assert one.buffer is nl.shared_hbm
        assert nl.shared_constant(array + 1) is not one
        return one, nl.shared_constant(str(tmp_path / "c.npy"), dtype=nl.bfloat16)

    plain, narrow = kernel()
    np.testing.assert_array_equal(plain, array)
    assert narrow.dtype == ml_dtypes.bfloat16
    with pytest.raises(TypeError, match="constant has dtype float64"):
        run(lambda: nl.shared_constant(array.astype(np.float64)))


@pytest.mark.parametrize("dtype", [nl.uint8, nl.bfloat16, nl.float32])
def test_shared_identity_matrix(dtype: Any) -> None:
    def kernel() -> Any:
        given = nl.ndarray((5, 5), dtype)
        assert nl.shared_identity_matrix(5, dst=given) is given
        return get(nl.shared_identity_matrix(128, dtype)), get(given)

    for result in run(kernel):
        assert result.dtype == dtype
        np.testing.assert_array_equal(result.astype(np.float32), np.eye(len(result)))


def test_shared_identity_matrix_refuses_sizes() -> None:
    with pytest.raises(ValueError, match="n is 129; allowed: from 1 to 128"):
        run(lambda: nl.shared_identity_matrix(129))
    with pytest.raises(ValueError, match=r"dst has shape \(4, 5\); allowed: \(4, 4\)"):
        run(lambda: nl.shared_identity_matrix(4, dst=nl.ndarray((4, 5), nl.uint8)))


def test_assignment_copies_into_views() -> None:
    def kernel() -> Any:
        tile = nl.zeros((4, 6), nl.float32)
        tile[:, 0:2] = 1.5
        tile[0:1, 2] = np.float32(2)
        tile[:, 4:6] = put(np.full((4, 2), 3, np.int32))
        other: Any = [1]
        with pytest.raises(TypeError, match="assigned a list"):
            tile[0] = other
        with pytest.raises(
            ValueError, match=r"value array of shape \(4, 2\) could not be broadcast"
        ):
            tile[:, 0:3] = tile[:, 0:2]
        return get(tile)

    expected = np.zeros((4, 6), np.float32)
    expected[:, 0:2] = 1.5
    expected[0, 2] = 2
    expected[:, 4:6] = 3
    np.testing.assert_array_equal(run(kernel), expected)


def test_print_shows_values() -> None:
    def kernel() -> Any:
        tile = nl.full((2, 2), 7, nl.int32, name="seven")
        return repr(tile), repr(tile[0, 1])

    whole, part = run(kernel)
    assert "seven" in whole
    assert "[[7 7]\n [7 7]]" in whole
    assert "[[7]]" in part
    assert run(lambda: core().findings()) == []


def test_shared_constant_is_an_array_or_a_file() -> None:
    given: Any = [[1, 2]]
    with pytest.raises(TypeError, match="shared_constant constant is of type list; allowed"):
        run(lambda: nl.shared_constant(given))


@pytest.mark.parametrize("held", [False, True])
def test_tensors_made_again_at_an_address_are_fresh_to_matmuls(held: bool) -> None:
    """Kernels name a bank in each turn of a loop, or list tiles whose banks come round."""
    x = np.random.default_rng(3).integers(-4, 5, (128, 64)).astype(np.float32)

    def kernel() -> list[Any]:
        tile = put(x)

        def bank(turn: int) -> Any:
            address = (0, turn % 2 * 2048)
            return nl.ndarray((64, 64), nl.float32, nl.psum, address=address)

        banks = [bank(turn) for turn in range(4)] if held else []
        results = []
        for turn in range(4):
            result = banks[turn] if held else bank(0)
            for _ in range(2):
                nisa.nc_matmul(result, tile, tile)
            results.append(get(result))
        return results

    for result in run(kernel):
        np.testing.assert_array_equal(result, 2 * x.T @ x)
