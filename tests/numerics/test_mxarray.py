"""MXArray: parts, sizes, dequantization, x4 packing, and the SBUF tile layout."""

from __future__ import annotations

import re
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest

from oracle import mx as oracle
from oracle.arrays import all_codes, assert_same_bits, bits, from_bits, layouts
from oracle.formats import BFLOAT16, E2M1, E4M3FN, E5M2, FLOAT16, FLOAT32, Format, decode
from oracle.second_opinion import to_float
from trn3 import numerics
from trn3.numerics import MXArray

E8M0_DTYPE = np.dtype(ml_dtypes.float8_e8m0fnu)
EVERY_ELEMENT_FORMAT = pytest.mark.parametrize("target", oracle.ELEMENT_FORMATS, ids=str)


def random_parts(
    target: Format, shape: tuple[int, ...], axis: int = -1, seed: int = 0
) -> tuple[npt.NDArray[Any], npt.NDArray[np.uint8]]:
    """Return elements of every kind, and scale bytes of every kind, for a shape and axis."""
    generator = np.random.default_rng(seed)
    elements = from_bits(generator.integers(0, 1 << target.storage_bits, shape), target)
    scale_shape = list(shape)
    scale_shape[axis] //= 32
    return elements, generator.integers(0, 256, scale_shape, dtype=np.uint8)


@EVERY_ELEMENT_FORMAT
@pytest.mark.parametrize("as_bytes", [True, False])
def test_from_parts_keeps_the_parts(target: Format, as_bytes: bool) -> None:
    elements, scale_bytes = random_parts(target, (5, 96))
    scales = scale_bytes if as_bytes else scale_bytes.view(E8M0_DTYPE)
    mx = MXArray.from_parts(elements, scales)
    assert mx.elements.dtype == np.dtype(target.dtype)
    assert mx.scales.dtype == E8M0_DTYPE
    assert (bits(mx.elements) == bits(elements)).all()
    assert (bits(mx.scales) == scale_bytes).all()
    assert mx.dtype == np.dtype(target.dtype)
    assert mx.shape == (5, 96)
    assert mx.axis % 2 == 1


@pytest.mark.parametrize("shape", [(32,), (64, 3), (2, 32, 5), (0, 32), (32, 0)])
def test_from_parts_along_any_axis(shape: tuple[int, ...]) -> None:
    for axis in range(-len(shape), len(shape)):
        if shape[axis] % 32 == 0:
            elements, scales = random_parts(E4M3FN, shape, axis)
            mx = MXArray.from_parts(elements, scales, axis=axis)
            assert mx.axis % len(shape) == axis % len(shape)
            assert mx.scales.shape == scales.shape


def test_from_parts_of_any_memory_layout() -> None:
    elements, scales = random_parts(E5M2, (64, 6, 32), 0)
    expected = oracle.dequantize_array(bits(elements), scales, E5M2, 0)
    for (name, one), (_, other) in zip(layouts(elements), layouts(scales), strict=True):
        mx = MXArray.from_parts(one, other, axis=0)
        assert_same_bits(mx.dequantize(), expected, elements)
        assert (bits(mx.elements) == bits(elements)).all(), name


@EVERY_ELEMENT_FORMAT
def test_nbytes_is_the_packed_size(target: Format) -> None:
    mx = numerics.quantize_mx(np.ones((6, 64), dtype=np.float32), target.dtype)
    assert mx.nbytes == 6 * 64 * target.storage_bits // 8 + 6 * 2


@EVERY_ELEMENT_FORMAT
@pytest.mark.parametrize("result", [FLOAT32, BFLOAT16, FLOAT16], ids=str)
def test_dequantize_every_element_with_every_scale(target: Format, result: Format) -> None:
    """One rounding of the exact product; scale byte 255 makes NaN of everything, zero too."""
    step = 1 if result is FLOAT32 or target is E2M1 else 5
    scale_bytes = np.unique(np.concatenate([np.arange(0, 256, step), [0, 1, 127, 254, 255]]))
    codes = np.arange(1 << target.storage_bits)
    codes = np.resize(codes, max(32, codes.size))
    elements = from_bits(np.tile(codes, (scale_bytes.size, 1)), target)
    scales = np.repeat(scale_bytes[:, None], codes.size // 32, axis=1).astype(np.uint8)
    got = MXArray.from_parts(elements, scales).dequantize(result.dtype)
    assert got.dtype == np.dtype(result.dtype)
    expected = oracle.dequantize_array(bits(elements), scales, target, target=result)
    assert_same_bits(got, expected, elements)


def test_dequantize_by_hand() -> None:
    elements = np.array([1.0, -1.5, 448.0, 0.0, -0.0, np.nan] + [0.0] * 26)
    mx = MXArray.from_parts(
        elements.astype(ml_dtypes.float8_e4m3fn), np.array([130], dtype=np.uint8)
    )
    assert mx.dequantize().tolist()[:5] == [8.0, -12.0, 3584.0, 0.0, 0.0]
    assert bits(mx.dequantize()).tolist()[3:6] == [0, 0x80000000, 0x7FC00000]
    beyond = MXArray.from_parts(
        np.full(32, -57344.0).astype(ml_dtypes.float8_e5m2), np.array([254], dtype=np.uint8)
    )
    assert (beyond.dequantize() == -np.inf).all()


@pytest.mark.parametrize("axis", [0, 1, 2])
@EVERY_ELEMENT_FORMAT
def test_dequantize_along_any_axis(target: Format, axis: int) -> None:
    elements, scales = random_parts(target, (32, 64, 32), axis)
    scales = scales % 140
    mx = MXArray.from_parts(elements[:, ::-1].copy()[:, ::-1], scales, axis=axis)
    got = mx.dequantize()
    wide = np.repeat(scales.astype(np.float64), 32, axis=axis)
    # float64 holds these products exactly, and their one rounding to float32 is NumPy's.
    with np.errstate(over="ignore", invalid="ignore"):
        exact = elements.astype(np.float32).astype(np.float64) * 2.0 ** (wide - 127)
        expected = np.where(np.isnan(exact), np.float32(np.nan), exact.astype(np.float32))
    assert got.flags.c_contiguous
    assert (bits(got) == bits(expected)).all()


@pytest.mark.parametrize("result", [FLOAT32, BFLOAT16, FLOAT16], ids=str)
def test_dequantize_into_out(result: Format) -> None:
    elements, scales = random_parts(E4M3FN, (33, 64))
    mx = MXArray.from_parts(elements, scales)
    out = np.zeros((33, 64), dtype=result.dtype)
    assert mx.dequantize(result.dtype, out=out) is out
    assert (bits(out) == bits(mx.dequantize(result.dtype))).all()


def test_dequantize_bad_out() -> None:
    mx = MXArray.from_parts(*random_parts(E4M3FN, (4, 64)))
    frozen = np.zeros((4, 64), dtype=np.float32)
    frozen.setflags(write=False)
    cases: list[tuple[Any, type[Exception], str]] = [
        (np.zeros((4, 63), dtype=np.float32), ValueError, "63"),
        (np.zeros((4, 64), dtype=np.float16), TypeError, "float16"),
        (np.zeros((64, 4), dtype=np.float32).T, ValueError, "(?i)contiguous"),
        (frozen, ValueError, "(?i)read-?only|writ"),
        ("out", TypeError, "str"),
    ]
    for out, error, words in cases:
        with pytest.raises(error, match=words) as caught:
            mx.dequantize(out=out)
        assert re.search(r"\bout\b", str(caught.value))


def test_dequantize_never_writes_over_its_own_elements() -> None:
    """If from_parts keeps the memory it was given, an `out` in it is refused; else it is free."""
    memory = np.arange(128, dtype=np.uint8) % 0x7E
    mx = MXArray.from_parts(
        memory[:32].view(ml_dtypes.float8_e4m3fn), np.array([127], dtype=np.uint8)
    )
    before, expected = bits(mx.elements).copy(), mx.dequantize()
    out = memory.view(np.float32)
    if np.shares_memory(mx.elements, memory):
        with pytest.raises(ValueError, match="overlap"):
            mx.dequantize(out=out)
    else:
        assert (mx.dequantize(out=out) == expected).all()
    assert (bits(mx.elements) == before).all()


@pytest.mark.parametrize("dtype", [np.float64, np.int32, "no such type"], ids=str)
def test_dequantize_bad_dtype(dtype: Any) -> None:
    mx = MXArray.from_parts(*random_parts(E4M3FN, (32,)))
    with pytest.raises(TypeError, match="dtype"):
        mx.dequantize(dtype)


@EVERY_ELEMENT_FORMAT
@pytest.mark.parametrize("rule", oracle.SCALE_RULES)
def test_quantize_and_back_stays_close(target: Format, rule: oracle.ScaleRule) -> None:
    """The whole trip, against the bound the format and the rule allow for the largest element."""
    x = np.random.default_rng(8).standard_normal((64, 64)).astype(np.float32)
    back = numerics.quantize_mx(x, target.dtype, scale_rule=rule).dequantize()
    blocks = np.abs(x.reshape(64, 2, 32)).max(axis=-1, keepdims=True)
    error = np.abs(x - back).reshape(64, 2, 32)
    # Half a step at the top binade, and what clipping at the ocp rule cuts off.
    bound = 2.0**-target.mantissa_bits
    clipped = 1 - float(target.max_finite) / 2.0 ** (oracle.EMAX[target] + 1)
    assert (error <= blocks * max(bound, clipped if rule == "ocp" else 0)).all()


@EVERY_ELEMENT_FORMAT
@pytest.mark.parametrize("shape", [(32,), (3, 64), (2, 5, 32)])
def test_x4_packs_the_last_axis(target: Format, shape: tuple[int, ...]) -> None:
    elements, scales = random_parts(target, shape)
    mx = MXArray.from_parts(elements, scales)
    packed = mx.to_x4()
    assert packed.dtype == (np.uint16 if target is E2M1 else np.uint32)
    assert packed.shape == (*shape[:-1], shape[-1] // 4)
    assert (packed == oracle.pack_x4(bits(elements), target)).all()
    for source in (
        packed,
        np.asfortranarray(packed),
        packed.astype(packed.dtype.newbyteorder(">")),
    ):
        back = MXArray.from_x4(source, mx.scales, target.dtype)
        assert (bits(back.elements) == bits(elements)).all()
        assert (bits(back.scales) == scales).all()
        assert back.axis % len(shape) == len(shape) - 1
        assert back.shape == shape


@EVERY_ELEMENT_FORMAT
def test_x4_packs_the_last_axis_whatever_the_block_axis(target: Format) -> None:
    elements, scales = random_parts(target, (64, 12), 0)
    mx = MXArray.from_parts(elements, scales, axis=0)
    packed = mx.to_x4()
    assert (packed == oracle.pack_x4(bits(elements), target)).all()
    back = MXArray.from_x4(packed, scales, target.dtype, axis=0)
    assert back.axis % 2 == 0
    assert (bits(back.elements) == bits(elements)).all()
    assert (bits(back.scales) == scales).all()


def test_x4_by_hand() -> None:
    fp8 = MXArray.from_parts(from_bits(np.arange(32), E4M3FN), np.array([127], dtype=np.uint8))
    assert fp8.to_x4()[0] == 0x03020100
    fp4 = MXArray.from_parts(from_bits(np.arange(32) % 16, E2M1), np.array([127], dtype=np.uint8))
    assert fp4.to_x4().tolist()[:4] == [0x3210, 0x7654, 0xBA98, 0xFEDC]


def test_x4_needs_groups_of_four() -> None:
    mx = MXArray.from_parts(*random_parts(E4M3FN, (32, 6), 0), axis=0)
    with pytest.raises(ValueError, match=r"(?s)(?=.*\b6\b)(?=.*\b4\b)"):
        mx.to_x4()


def test_from_x4_errors() -> None:
    scales = np.zeros((2, 1), dtype=np.uint8)
    fp8 = np.zeros((2, 8), dtype=np.uint32)
    e4m3fn = ml_dtypes.float8_e4m3fn
    cases: list[tuple[Any, Any, Any, int, type[Exception], str]] = [
        (fp8.astype(np.uint16), scales, e4m3fn, -1, TypeError, "uint16"),
        (fp8, scales, ml_dtypes.float4_e2m1fn, -1, TypeError, "uint32"),
        (fp8.astype(np.float32), scales, e4m3fn, -1, TypeError, "float32"),
        (fp8, scales, ml_dtypes.float8_e3m4, -1, TypeError, "float8_e3m4"),
        (fp8, scales.astype(np.int8), e4m3fn, -1, TypeError, "int8"),
        (fp8, scales.T, e4m3fn, -1, ValueError, "scales"),
        (fp8[:, :7], scales, e4m3fn, -1, ValueError, "28|7"),
        (fp8, scales, e4m3fn, 2, ValueError, "axis"),
    ]
    for packed, scale, dtype, axis, error, words in cases:
        with pytest.raises(error, match=words):
            MXArray.from_x4(packed, scale, dtype, axis=axis)


@EVERY_ELEMENT_FORMAT
@pytest.mark.parametrize("k_length", [128, 256, 384, 512])
@pytest.mark.parametrize("free", [1, 7, 64])
def test_trn3_layout(target: Format, k_length: int, free: int) -> None:
    elements, scale_bytes = random_parts(target, (k_length, free), 0)
    mx = MXArray.from_parts(elements, scale_bytes, axis=0)
    data, scales = mx.to_trn3_layout()
    partitions = k_length // 4
    assert data.dtype == (np.uint16 if target is E2M1 else np.uint32)
    assert scales.dtype == np.uint8
    assert data.shape == (partitions, free)
    assert scales.shape == (4 if k_length == 128 else partitions, free)
    assert (data == oracle.trn3_layout(bits(elements), target)).all()
    rows = [oracle.trn3_scale_row(block) for block in range(k_length // 32)]
    assert (scales[rows] == scale_bytes).all()

    # The rows between hold no scale: what is read back must not depend on them.
    noise = np.random.default_rng(1).integers(0, 256, scales.shape, dtype=np.uint8)
    noise[rows] = scale_bytes
    # Version 0.1.0 gave a tile of one quadrant all of its rows.
    older = np.vstack([noise, np.full((partitions - len(noise), free), 9, np.uint8)])
    for rows_given in (scales, noise, np.asfortranarray(noise), older):
        back = MXArray.from_trn3_layout(data, rows_given, target.dtype)
        assert back.shape == (k_length, free)
        assert back.axis % 2 == 0
        assert back.dtype == np.dtype(target.dtype)
        assert (bits(back.elements) == bits(elements)).all()
        assert (bits(back.scales) == scale_bytes).all()


def test_trn3_layout_feeds_the_partition_of_its_scale() -> None:
    """Partition p and lane j hold one k; the scale eight partitions share is that k's block's."""
    x = np.random.default_rng(5).standard_normal((512, 3)).astype(np.float32)
    mx = numerics.quantize_mx(x, ml_dtypes.float8_e4m3fn, axis=0)
    data, scales = mx.to_trn3_layout()
    dequantized = mx.dequantize()
    for partition in range(128):
        quadrant, row = divmod(partition, 32)
        scale = float(scales[32 * quadrant + row // 8, 1])
        for lane in range(4):
            k = 32 * (partition // 8) + 4 * (partition % 8) + lane
            code = int(data[partition, 1]) >> (8 * lane) & 0xFF
            assert to_float(decode(E4M3FN, code)) * 2.0 ** (scale - 127) == dequantized[k, 1]


@pytest.mark.parametrize(
    ("shape", "axis", "words"),
    [
        ((160, 4), 0, "160"),
        ((32, 4), 0, "32"),
        ((640, 4), 0, r"(?s)(?=.*640)(?=.*(?i:split))"),
        ((1024, 4), 0, r"(?s)(?=.*1024)(?=.*(?i:split))"),
        ((128, 128), 1, "axis"),
        ((128,), 0, "128"),
        ((128, 2, 2), 0, "2"),
    ],
)
def test_to_trn3_layout_errors(shape: tuple[int, ...], axis: int, words: str) -> None:
    mx = MXArray.from_parts(*random_parts(E4M3FN, shape, axis), axis=axis)
    with pytest.raises(ValueError, match=words):
        mx.to_trn3_layout()


def test_from_trn3_layout_errors() -> None:
    e4m3fn = ml_dtypes.float8_e4m3fn
    data = np.zeros((32, 5), dtype=np.uint32)
    scales = np.zeros((32, 5), dtype=np.uint8)
    cases: list[tuple[Any, Any, Any, type[Exception], str]] = [
        (data.astype(np.uint16), scales, e4m3fn, TypeError, "uint16"),
        (data, scales, ml_dtypes.float4_e2m1fn, TypeError, "uint32"),
        (data, scales.astype(np.int16), e4m3fn, TypeError, "int16"),
        (data, scales, ml_dtypes.bfloat16, TypeError, "bfloat16"),
        (data, scales[:3], e4m3fn, ValueError, "scales"),
        (data, scales[:5], e4m3fn, ValueError, r"it must have shape \(4, 5\)"),
        (data, scales[:, :4], e4m3fn, ValueError, "scales"),
        (data[:20], scales[:20], e4m3fn, ValueError, "20|80"),
        (
            np.zeros((160, 5), np.uint32),
            np.zeros((160, 5), np.uint8),
            e4m3fn,
            ValueError,
            "160|640",
        ),
        (data[0], scales[0], e4m3fn, ValueError, "data"),
    ]
    for tile, rows, dtype, error, words in cases:
        with pytest.raises(error, match=words):
            MXArray.from_trn3_layout(tile, rows, dtype)


def test_from_parts_errors() -> None:
    elements, scales = random_parts(E4M3FN, (64, 3), 0)
    cases: list[tuple[Any, Any, int, type[Exception], str]] = [
        (elements.astype(np.float32), scales, 0, TypeError, r"elements.*float32|float32.*elements"),
        (bits(elements), scales, 0, TypeError, r"elements.*uint8|uint8.*elements"),
        (elements.astype(ml_dtypes.float8_e4m3), scales, 0, TypeError, "float8_e4m3"),
        (elements, scales.astype(np.float32), 0, TypeError, r"scales.*float32|float32.*scales"),
        (elements, scales.astype(np.int8), 0, TypeError, r"scales.*int8|int8.*scales"),
        (elements, scales[:1], 0, ValueError, "scales"),
        (elements, scales[0], 0, ValueError, "scales"),
        (elements, scales, -1, ValueError, "axis|32"),
        (elements[:48], scales, 0, ValueError, "48"),
        (elements, scales, 2, ValueError, "axis"),
        (elements, scales, -3, ValueError, "axis"),
        (elements.tolist(), scales, 0, TypeError, "elements"),
        (elements, scales.tolist(), 0, TypeError, "scales"),
    ]
    for some_elements, some_scales, axis, error, words in cases:
        with pytest.raises(error, match=words):
            MXArray.from_parts(some_elements, some_scales, axis=axis)


def test_every_code_of_fp4_survives_the_trip() -> None:
    codes = all_codes(E2M1)
    elements = np.tile(codes, 4)
    mx = MXArray.from_parts(elements, np.array([127, 127], dtype=np.uint8))
    back = MXArray.from_x4(mx.to_x4(), mx.scales, ml_dtypes.float4_e2m1fn)
    assert (bits(back.elements) == bits(elements)).all()
    assert (mx.dequantize() == elements.astype(np.float32)).all()
