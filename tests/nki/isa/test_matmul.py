"""nc_matmul against chains in exact arithmetic, PSUM rules, refusals."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import trn3.nki.isa as nisa
import trn3.nki.language as nl
from oracle.chain import add, chain, to_float32
from oracle.matmul import to_bfloat16
from oracle.xorwow import Lanes
from support.checks import assert_bits
from support.core import Machine
from trn3 import nki

NARROW = [
    np.dtype(ml_dtypes.float8_e4m3),
    np.dtype(ml_dtypes.float8_e4m3fn),
    np.dtype(ml_dtypes.float8_e5m2),
    np.dtype(ml_dtypes.bfloat16),
    np.dtype(np.float16),
]
FLOAT32 = np.dtype(np.float32)
LEGACY_AND_OCP = {"float8_e4m3", "float8_e4m3fn"}


def normal(seed: int, shape: tuple[int, ...], dtype: Any = np.float32) -> Any:
    """Random numbers of a type."""
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32).astype(dtype)


def product(stationary: Any, moving: Any) -> Any:
    """One chain a result, over the first axis."""
    return chain(to_float32(stationary).T.copy(), to_float32(moving))


def pairs() -> list[Any]:
    """Types that may meet."""
    mixed = [(a, b) for a in NARROW for b in NARROW if {a.name, b.name} != LEGACY_AND_OCP]
    return [*mixed, (FLOAT32, FLOAT32)]


@pytest.mark.parametrize(("one", "other"), pairs(), ids=str)
def test_matmul_is_one_chain_over_the_partitions(one: Any, other: Any) -> None:
    stationary, moving = normal(1, (67, 9), one), normal(2, (67, 21), other)
    with Machine() as m:
        dst = m.tensor((9, 21), nl.float32, nl.psum)
        nisa.nc_matmul(dst, m.sbuf(stationary), m.sbuf(moving))
        assert_bits(m.read(dst), product(stationary, moving))


def test_matmul_of_a_whole_tile_matches_the_chain() -> None:
    stationary, moving = (
        normal(3, (128, 128), ml_dtypes.bfloat16),
        normal(4, (128, 512), np.float16),
    )
    with Machine("trn2") as m:
        dst = m.tensor((128, 512), nl.float32, nl.psum)
        nisa.nc_matmul(dst, m.sbuf(stationary), m.sbuf(moving))
        assert_bits(m.read(dst), product(stationary, moving))


def test_matmul_ignores_the_low_bits_of_tfloat32() -> None:
    stationary, moving = normal(5, (16, 4)), normal(6, (16, 8))
    with Machine() as m:
        dst = m.tensor((4, 8), nl.float32, nl.psum)
        nisa.nc_matmul(dst, m.sbuf(stationary, nl.tfloat32), m.sbuf(moving, nl.tfloat32))
        mask = np.uint32(0xFFFFE000)
        cut = [(x.view(np.uint32) & mask).view(np.float32) for x in (stationary, moving)]
        assert_bits(m.read(dst), product(*cut))


def test_matmul_double_row_takes_half_0_then_half_1_of_each_partition() -> None:
    stationary = normal(7, (128, 2, 33), ml_dtypes.float8_e4m3fn)
    moving = normal(8, (128, 2, 40), ml_dtypes.float8_e5m2)
    for mode in ("double_row", nisa.matmul_perf_mode.double_row):
        with Machine() as m:
            dst = m.tensor((33, 40), nl.float32, nl.psum)
            nisa.nc_matmul(dst, m.sbuf(stationary), m.sbuf(moving), perf_mode=mode)
            flat = stationary.reshape(256, 33), moving.reshape(256, 40)
            assert_bits(m.read(dst), product(*flat))


def test_matmul_flattens_free_axes_whether_evenly_spaced_or_not() -> None:
    stationary, moving = normal(9, (32, 8)), normal(10, (32, 6, 10))
    with Machine() as m:
        tiles = m.sbuf(stationary), m.sbuf(moving)
        whole = m.tensor((8, 60), nl.float32, nl.psum)
        nisa.nc_matmul(whole, *tiles)
        assert_bits(m.read(whole), product(stationary, moving.reshape(32, 60)))
        window = m.tensor((8, 3, 4), nl.float32, nl.psum)
        nisa.nc_matmul(window, tiles[0], tiles[1][:, 1:6:2, 2:6])
        part = np.ascontiguousarray(moving[:, 1:6:2, 2:6]).reshape(32, 12)
        assert_bits(m.read(window).reshape(8, 12), product(stationary, part))


def test_matmul_accumulate_overwrites_adds_or_follows_what_was_written() -> None:
    stationary, moving = normal(11, (16, 4)), normal(12, (16, 8))
    once = product(stationary, moving)
    with Machine() as m:
        tiles = m.sbuf(stationary), m.sbuf(moving)
        dst = m.tensor((4, 8), nl.float32, nl.psum)
        nisa.nc_matmul(dst, *tiles)
        assert_bits(m.read(dst), once)
        nisa.nc_matmul(dst, *tiles)
        assert_bits(m.read(dst), add(once, once))
        nisa.nc_matmul(dst, *tiles, accumulate=True)
        assert_bits(m.read(dst), add(add(once, once), once))
        nisa.nc_matmul(dst, *tiles, accumulate=False)
        assert_bits(m.read(dst), once)
        assert m.findings() == []


def test_matmul_none_follows_each_element_where_windows_overlap() -> None:
    stationary, moving = normal(13, (16, 4)), normal(14, (16, 6))
    once = product(stationary, moving)
    with Machine() as m:
        tiles = m.sbuf(stationary), m.sbuf(moving)
        dst = m.tensor((4, 10), nl.float32, nl.psum)
        nisa.nc_matmul(dst[:, 0:6], *tiles)
        nisa.nc_matmul(dst[:, 4:10], *tiles)
        expected = np.concatenate([once[:, :4], add(once[:, 4:], once[:, :2]), once[:, 2:]], axis=1)
        assert_bits(m.read(dst), expected)
        assert m.findings() == []


def test_matmul_none_overwrites_what_another_engine_wrote_and_a_fresh_tensor() -> None:
    stationary, moving = normal(15, (16, 4)), normal(16, (16, 8))
    with Machine() as m:
        tiles = m.sbuf(stationary), m.sbuf(moving)
        dst = m.psum(np.full((4, 8), 7, np.float32))
        nisa.nc_matmul(dst, *tiles)
        assert_bits(m.read(dst), product(stationary, moving))
        for _ in range(10):
            again = m.tensor((4, 8), nl.float32, nl.psum)
            nisa.nc_matmul(again, *tiles)
            assert_bits(m.read(again), product(stationary, moving))


def test_matmul_true_where_no_matmul_wrote_is_a_finding_or_in_strict_runs_an_error() -> None:
    stationary, moving = normal(17, (16, 4)), normal(18, (16, 8))
    held = np.full((4, 8), 7, np.float32)
    with Machine() as m:
        dst = m.psum(held)
        nisa.nc_matmul(dst, m.sbuf(stationary), m.sbuf(moving), accumulate=True)
        assert_bits(m.read(dst), add(product(stationary, moving), held))
        assert len(m.findings()) == 1
    with Machine(strict=True) as m:
        tiles, dst = (m.sbuf(stationary), m.sbuf(moving)), m.psum(held)
        with pytest.raises(RuntimeError, match="no matmul had written"):
            nisa.nc_matmul(dst, *tiles, accumulate=True)


def test_matmul_into_bfloat16_rounds_once_each_instruction() -> None:
    stationary, moving = normal(19, (64, 8)), normal(20, (64, 16))
    once = product(stationary, moving)
    held = to_bfloat16(once, "nearest")
    with Machine() as m:
        tiles = m.sbuf(stationary), m.sbuf(moving)
        dst = m.tensor((8, 16), nl.bfloat16, nl.psum)
        nisa.nc_matmul(dst, *tiles)
        assert_bits(to_float32(m.read(dst)), held)
        nisa.nc_matmul(dst, *tiles)
        assert_bits(to_float32(m.read(dst)), to_bfloat16(add(held, once), "nearest"))


def test_matmul_into_bfloat16_rounds_stochastically_where_the_core_is_set_so() -> None:
    stationary, moving = normal(21, (64, 8)), normal(22, (64, 16))
    with Machine() as m:
        tiles = m.sbuf(stationary), m.sbuf(moving)
        dst = m.tensor((8, 16), nl.bfloat16, nl.psum)
        m.core.set_stochastic_rounding(5)
        nisa.nc_matmul(dst, *tiles)
        # TensorE's lanes are the fourth of the seed's stream, and one lane a partition.
        draws = Lanes.from_state(Lanes.seed(5, 4 * 128).state[3 * 128 :]).uint32(16)[:8]
        expected = to_bfloat16(product(stationary, moving), "stochastic", draws)
        assert_bits(to_float32(m.read(dst)), expected)


@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16], ids=str)
def test_matmul_transpose_moves_bits(dtype: Any) -> None:
    kind = np.dtype(dtype)
    rng = np.random.default_rng(23)
    bits = rng.integers(0, 256, (33, 20 * kind.itemsize), dtype=np.uint8)
    data = bits.view(kind)
    with Machine("trn2") as m:
        dst = m.tensor((20, 33), data.dtype, nl.psum)
        identity = m.sbuf(np.eye(33, dtype=dtype))
        nisa.nc_matmul(dst, m.sbuf(data), identity, is_transpose=True)
        unsigned = np.dtype(f"u{kind.itemsize}")
        np.testing.assert_array_equal(m.read(dst).view(unsigned), data.T.copy().view(unsigned))


def test_matmul_transpose_puts_fp8_into_16_bits_with_a_zero_upper_byte() -> None:
    bits = np.random.default_rng(24).integers(0, 256, (16, 12), dtype=np.uint8)
    data, identity = bits.view(ml_dtypes.float8_e5m2), np.eye(16, dtype=ml_dtypes.bfloat16)
    with Machine("trn2") as m:
        tiles = m.sbuf(data), m.sbuf(identity)
        wide = m.tensor((12, 16), nl.bfloat16, nl.psum)
        nisa.nc_matmul(wide, *tiles, is_transpose=True)
        np.testing.assert_array_equal(m.read(wide, np.uint16), bits.T.astype(np.uint16))
        spread = m.tensor((12, 16, 2), data.dtype, nl.psum)
        nisa.nc_matmul(spread[:, :, 0], *tiles, is_transpose=True)
        stored = m.read(spread, np.uint8)
        np.testing.assert_array_equal(stored[:, :, 0], bits.T)
        assert not stored[:, :, 1].any()
        dense = m.tensor((12, 16), data.dtype, nl.psum)
        with pytest.raises(nisa.NkiValidationError, match="two bytes apart"):
            nisa.nc_matmul(dense, *tiles, is_transpose=True)


def test_matmul_transpose_wants_an_identity() -> None:
    with Machine("trn2") as m:
        data, other = m.sbuf(normal(25, (8, 8))), m.sbuf(np.ones((8, 8), np.float32))
        dst = m.tensor((8, 8), nl.float32, nl.psum)
        with pytest.raises(nisa.NkiValidationError, match=r"moving holds 1 in row 0, column 1"):
            nisa.nc_matmul(dst, data, other, is_transpose=True)


def test_matmul_transpose_on_gen2_is_a_product() -> None:
    data = np.array([[np.nan, 1], [2, 3]], np.float32)
    with Machine("trn1") as m:
        dst = m.tensor((2, 2), nl.float32, nl.psum)
        nisa.nc_matmul(dst, m.sbuf(data), m.sbuf(np.eye(2, dtype=np.float32)), is_transpose=True)
        assert_bits(m.read(dst), np.array([[np.nan, np.nan], [1, 3]], np.float32))


@pytest.mark.parametrize(("row", "rows"), [(64, 64), (32, 32), (0, 128), (96, 32)])
@pytest.mark.parametrize(("column", "columns"), [(0, 128), (96, 32), (64, 64)])
def test_matmul_tiles_work_on_their_own_rows_and_columns(
    row: int, rows: int, column: int, columns: int
) -> None:
    stationary, moving = normal(26, (rows, columns)), normal(27, (rows, 24))
    with Machine() as m:
        tiles = []
        for array in (stationary, moving):
            tile = m.tensor((128, array.shape[1]), nl.float32)
            nisa.dma_copy(tile[row : row + rows], m.hbm(array))
            tiles.append(tile[row : row + rows])
        dst = m.tensor((128, 24), nl.float32, nl.psum)[column : column + columns]
        place = {"tile_position": (row, column), "tile_size": (rows, columns)}
        nisa.nc_matmul(dst, *tiles, **place)
        assert_bits(m.read(dst), product(stationary, moving))


def test_matmul_hints_change_no_value() -> None:
    stationary, moving = np.eye(16, 4, dtype=np.float32), normal(28, (16, 8))
    with Machine() as m:
        dst = m.tensor((4, 8), nl.float32, nl.psum)
        tiles = m.sbuf(stationary), m.sbuf(moving)
        nisa.nc_matmul(dst, *tiles, is_stationary_onezero=True, name="hinted")
        assert_bits(m.read(dst), product(stationary, moving))


def refusal(
    m: Machine, shapes: Any, dtypes: Any, dst: Any = None, **options: Any
) -> pytest.ExceptionInfo[AssertionError]:
    """Catch the refusal of a matmul of tiles of these shapes and types, all zero."""
    stationary, moving = (
        m.tensor(shape, dtype) for shape, dtype in zip(shapes, dtypes, strict=True)
    )
    if dst is None:
        dst = m.tensor((min(shapes[0][-1], 128), shapes[1][-1]), nl.float32, nl.psum)
    with pytest.raises(nisa.NkiValidationError) as caught:
        nisa.nc_matmul(dst, stationary, moving, **options)
    return caught


@pytest.mark.parametrize(
    ("arch", "shapes", "dtypes", "options", "words"),
    [
        ("trn3", ((3, 4), (4, 4)), ("float32",) * 2, {},
         "Matmul contraction dimension mismatch: stationary[0]=3 != moving[0]=4"),
        ("trn3", ((8, 129), (8, 4)), ("float32",) * 2, {}, "dimension 129 exceeds maximum 128"),
        ("trn2", ((8, 8), (8, 513)), ("float32",) * 2, {}, "dimension 513 exceeds maximum 512"),
        ("trn3", ((8, 8), (8, 4)), ("float32", "bfloat16"), {}, "only with each other"),
        ("trn3", ((8, 8), (8, 4)), ("float8_e4m3", "float8_e4m3fn"), {}, "do not mix"),
        ("trn2", ((8, 8), (8, 4)), ("float8_e4m3fn", "float8_e5m2"), {}, "from gen4 on"),
        ("trn3", ((8, 8), (8, 4)), ("int32", "float32"), {}, "stationary has dtype int32"),
        ("trn1", ((8, 2, 8), (8, 2, 4)), ("float8_e5m2",) * 2, {"perf_mode": "double_row"}, "gen3"),
        ("trn3", ((8, 2, 8), (8, 2, 4)), ("bfloat16",) * 2, {"perf_mode": "double_row"}, "fp8"),
        ("trn3", ((8, 3, 8), (8, 3, 4)), ("float8_e5m2",) * 2, {"perf_mode": "double_row"},
         "[K / 2, 2, F]"),
        ("trn3", ((8, 8), (8, 4)), ("bfloat16",) * 2, {"tile_position": (0, 0)},
         "tile_size is missing"),
        ("trn3", ((8, 8), (8, 4)), ("bfloat16",) * 2, {"tile_size": (32, 32)},
         "tile_position is missing"),
        ("trn3", ((8, 8), (8, 4)), ("bfloat16",) * 2,
         {"tile_position": (32, 0), "tile_size": (64, 128)}, "a multiple of the row size 64"),
        ("trn3", ((8, 8), (8, 4)), ("bfloat16",) * 2,
         {"tile_position": (0, 0), "tile_size": (48, 128)}, "row size 48"),
        ("trn1", ((8, 8), (8, 4)), ("bfloat16",) * 2,
         {"tile_position": (0, 0), "tile_size": (32, 128)}, "64, 128 on gen2"),
        ("trn3", ((33, 8), (33, 4)), ("bfloat16",) * 2,
         {"tile_position": (0, 0), "tile_size": (32, 128)}, "at most the tile's 32 rows"),
        ("trn3", ((8, 8), (8, 4)), ("bfloat16",) * 2,
         {"tile_position": (32, 0), "tile_size": (32, 128)}, "the tile's rows start at 32"),
    ],
)  # fmt: skip
def test_matmul_refuses(arch: str, shapes: Any, dtypes: Any, options: Any, words: str) -> None:
    with Machine(arch) as m:
        assert words in str(refusal(m, shapes, dtypes, **options).value)


def test_matmul_refuses_wrong_memories_and_results() -> None:
    shapes, dtypes = ((8, 8), (8, 4)), ("bfloat16", "bfloat16")
    with Machine() as m:
        sbuf = m.tensor((8, 4), nl.float32)
        assert "dst must be in ['psum'], got sbuf" in str(refusal(m, shapes, dtypes, sbuf).value)
        short = m.tensor((8, 3), nl.float32, nl.psum)
        assert "dst has shape [8, 3]; [8, 4]" in str(refusal(m, shapes, dtypes, short).value)
        half = m.tensor((8, 4), nl.float16, nl.psum)
        assert "dst has dtype float16" in str(refusal(m, shapes, dtypes, half).value)
    with Machine("trn2") as m:
        half = m.tensor((8, 4), nl.bfloat16, nl.psum)
        assert "float32 on gen3" in str(refusal(m, shapes, dtypes, half).value)
        wide = m.tensor((8, 516), nl.float32, nl.psum)[:, 510:514]
        assert "within one PSUM bank" in str(refusal(m, shapes, dtypes, wide).value)


def test_matmul_is_an_assertion_error_that_names_the_line() -> None:
    with Machine() as m, pytest.raises(AssertionError, match=r"\.py:\d+: nc_matmul"):
        nisa.nc_matmul(m.tensor((4, 4), nl.float32), *(m.tensor((4, 4), nl.float32),) * 2)


def snake(lists: Any, partitions: int, group: int) -> Any:
    """Lay a list of columns for each group out: offset i at index[i % group, i // group]."""
    index = np.zeros((partitions, -(-lists.shape[1] // group)), np.uint16)
    for number, listed in enumerate(lists):
        for at, column in enumerate(listed):
            index[group * number + at % group, at // group] = column
    return index


@pytest.mark.parametrize("operand", ["stationary", "moving"])
def test_matmul_reads_the_columns_that_each_quadrant_lists(operand: str) -> None:
    rng = np.random.default_rng(29)
    columns = {"stationary": 16, "moving": 40}
    lists = np.stack([rng.permutation(48)[: columns[operand]] for _ in range(2)])
    arrays = {
        name: normal(30, (64, 48 if name == operand else columns[name]), np.float16)
        for name in columns
    }
    with Machine() as m:
        tiles = {name: m.sbuf(array) for name, array in arrays.items()}
        index = m.sbuf(snake(lists, 64, 32))
        tiles[operand] = tiles[operand].indirect(index, num_elem=columns[operand])
        dst = m.tensor((16, 40), nl.float32, nl.psum)
        nisa.nc_matmul(dst, **tiles)
        rows = np.repeat(lists, 32, axis=0)
        arrays[operand] = np.take_along_axis(arrays[operand], rows, axis=1)
        assert_bits(m.read(dst), product(arrays["stationary"], arrays["moving"]))


def test_matmul_scatters_and_accumulates_the_columns_that_a_quadrant_lists() -> None:
    listed = np.random.default_rng(32).permutation(48)[None, :40]
    stationary, moving = normal(33, (64, 32), np.float16), normal(34, (64, 40), np.float16)
    once = product(stationary, moving)
    with Machine() as m:
        tiles = m.sbuf(stationary), m.sbuf(moving)
        dst = m.tensor((32, 48), nl.float32, nl.psum)
        view = dst.indirect(m.sbuf(snake(listed, 32, 32)), num_elem=40)
        for expected in (once, add(once, once)):
            nisa.nc_matmul(view, *tiles)
            assert_bits(m.read(dst)[:, listed[0]].copy(), expected)


def test_matmul_refuses_column_lists_before_gen4() -> None:
    with Machine("trn2") as m:
        tile = m.sbuf(normal(35, (64, 16), np.float16))
        view = tile.indirect(m.sbuf(np.zeros((64, 1), np.uint16)), num_elem=16)
        dst = m.tensor((16, 16), nl.float32, nl.psum)
        with pytest.raises(nisa.NkiValidationError, match="available from gen4 on"):
            nisa.nc_matmul(dst, tile, view)


def test_tensors_that_take_turns_on_a_bank_begin_anew() -> None:
    @nki.jit
    def kernel(x: Any) -> Any:
        out = nl.ndarray((3, 32, 32), nl.float32, buffer=nl.shared_hbm)
        tile = nl.ndarray((32, 32), nl.float32)
        nisa.dma_copy(tile, x)
        for i in range(3):
            # The earlier one still has a name when the later one is made.
            product = nl.ndarray((32, 32), nl.float32, buffer=nl.psum, address=(0, 2048))
            for _ in range(2):
                nisa.nc_matmul(product, tile, tile)
            copied = nl.ndarray((32, 32), nl.float32)
            nisa.tensor_copy(copied, product)
            nisa.dma_copy(out[i], copied)
        return out

    got = kernel(np.eye(32, dtype=np.float32))
    assert np.array_equal(got, np.broadcast_to(2 * np.eye(32), (3, 32, 32)))
