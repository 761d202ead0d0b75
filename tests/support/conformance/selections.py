"""range_select, select_reduce, max8, nc_find_index8, nc_match_replace8, and GpSimdE's own."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any, Final

import numpy as np

import trn3.nki.language as nl
from support.conformance.elementwise import ARITHMETIC, ones
from support.conformance.table import Array, Call, Refusal, Row, Tile, keyword
from support.engines import FLOATS, TYPES, cast, sample, widen
from trn3.nki import isa

Generator = np.random.Generator

_COMPARISONS: Final = ("equal", "less", "less_equal", "greater", "greater_equal")
_LOWEST: Final = np.float32(np.finfo(np.float32).min)


def _range_select(op0: str, op1: str, dtype: str, start: int, place: str, rng: Generator) -> Call:
    x = sample(rng, (32, 40), dtype)
    low = rng.integers(start, start + 20, (32, 1)).astype(np.float32)
    high = low + rng.integers(0, 20, (32, 1)).astype(np.float32)
    index = (start + np.arange(40)).astype(np.float32)[np.newaxis]
    inside = ARITHMETIC[op0](index, low) & ARITHMETIC[op1](index, high)
    chosen = np.where(inside, widen(x), _LOWEST).astype(np.float32)
    largest = chosen.max(axis=1, keepdims=True)
    return Call(
        {
            "dst": Tile((32, 40), "float32", place),
            "on_true_tile": Tile(x, dtype),
            "comp_op0": getattr(nl, op0),
            "comp_op1": getattr(nl, op1),
            "bound0": Tile(low),
            "bound1": Tile(high),
            "range_start": start,
            "reduce_res": Tile((32, 1)),
        },
        {"dst": chosen, "reduce_res": largest},
    )


def _select_reduce(
    dtype: str, predicate: str, *, tile: bool, reverse: bool, rng: Generator
) -> Call:
    x = sample(rng, (32, 14), dtype)
    mask = rng.integers(0, 2, (32, 14)).astype(TYPES[predicate])
    column = rng.normal(size=(32, 1)).astype(np.float32)
    taken = (mask == 0) if reverse else (mask != 0)
    chosen = np.where(taken, widen(x), column if tile else np.float32(-2)).astype(np.float32)
    return Call(
        {
            "dst": Tile((32, 14)),
            "predicate": Tile(mask, predicate),
            "on_true": Tile(x, dtype),
            "on_false": Tile(column) if tile else -2.0,
            "reduce_res": Tile((32, 1)),
            "reduce_cmd": isa.reduce_cmd.reset_reduce,
            "reverse_pred": reverse,
        },
        {"dst": chosen, "reduce_res": chosen.max(axis=1, keepdims=True)},
    )


def _max8(dtype: str, shape: tuple[int, ...], place: str, rng: Generator) -> Call:
    x = sample(rng, shape, dtype)
    flat = x.reshape(shape[0], -1)
    order = np.sort(widen(flat), axis=1)[:, ::-1][:, :8]
    return Call(
        {"dst": Tile((shape[0], 8), dtype), "src": Tile(x, dtype, place)},
        {"dst": cast(np.ascontiguousarray(order), dtype)},
    )


def _places(data: Array, vals: Array, missing: int) -> Array:
    found = np.full(vals.shape, missing, np.int64)
    for p in range(data.shape[0]):
        used: set[int] = set()
        for slot in range(8):
            for i in np.flatnonzero(data[p] == vals[p, slot]):
                if int(i) not in used:
                    used.add(int(i))
                    found[p, slot] = i
                    break
    return found


def _find_index8(dtype: str, out: str, length: int, rng: Generator) -> Call:
    data = cast(rng.integers(0, 12, (16, length)).astype(np.float32), dtype)
    vals = cast(rng.integers(0, 14, (16, 8)).astype(np.float32), dtype)
    missing = int(np.iinfo(TYPES[out]).max)
    return Call(
        {"dst": Tile((16, 8), out), "data": Tile(data, dtype), "vals": Tile(vals, dtype)},
        {"dst": _places(widen(data), widen(vals), missing).astype(TYPES[out])},
    )


def _documented_find(rng: Generator) -> Call:
    data = np.array([[1, 2, 3, 4, 8, 8, 8, 8, 8, 8, 8]], np.float32)
    vals = np.array([[3, 8, 8, 8, 8, 8, 8, 8]], np.float32)
    return Call(
        {"dst": Tile((1, 8), "uint32"), "data": Tile(data), "vals": Tile(vals)},
        {"dst": np.array([[2, 4, 5, 6, 7, 8, 9, 10]], np.uint32)},
    )


def _match_replace(rng: Generator) -> Call:
    data = np.array([[1, 2, 3, 4, 8, 8, 8, 8, 8, 8, 8]], np.float32)
    vals = np.array([[3, 8, 8, 8, 8, 8, 8, 8]], np.float32)
    wanted = np.array([[1, 2, -5, 4, -5, -5, -5, -5, -5, -5, -5]], np.float32)
    return Call(
        {
            "dst": Tile(data.shape),
            "data": Tile(data),
            "vals": Tile(vals),
            "imm": -5.0,
            "dst_idx": Tile((1, 8), "uint32"),
        },
        {"dst": wanted, "dst_idx": np.array([[2, 10, 9, 8, 7, 6, 5, 4]], np.uint32)},
    )


def _match_random(dtype: str, length: int, rng: Generator) -> Call:
    data = cast(rng.integers(0, 12, (16, length)).astype(np.float32), dtype)
    vals = cast(rng.integers(0, 14, (16, 8)).astype(np.float32), dtype)
    wanted = data.copy()
    found = np.full((16, 8), 2**32 - 1, np.uint64)
    for p in range(16):
        used: set[int] = set()
        for slot in range(7, -1, -1):
            for i in np.flatnonzero(widen(data)[p] == widen(vals)[p, slot]):
                if int(i) not in used:
                    used.add(int(i))
                    wanted[p, i] = cast(np.array(-2, np.float32), dtype)
                    found[p, slot] = i
                    break
    return Call(
        {
            "dst": Tile(data.shape, dtype),
            "data": Tile(data, dtype),
            "vals": Tile(vals, dtype),
            "imm": -2.0,
            "dst_idx": Tile((16, 8), "uint32"),
        },
        {"dst": wanted, "dst_idx": found.astype(np.uint32)},
    )


def _affine(pattern: list[list[int]], offset: int, multiplier: int, partitions: int) -> Array:
    value = np.zeros([num for _, num in pattern], np.int64)
    for axis, (step, num) in enumerate(pattern):
        shape = [1] * len(pattern)
        shape[axis] = num
        value = value + (np.arange(num) * step).reshape(shape)
    rows = offset + multiplier * np.arange(partitions)
    result: Array = rows[:, np.newaxis] + value.reshape(1, -1)
    return result


def _iota(
    dtype: str, pattern: list[list[int]], offset: int, multiplier: int, rng: Generator
) -> Call:
    value = _affine(pattern, offset, multiplier, 64)
    wanted = (
        cast(value.astype(np.float32), dtype) if "float" in dtype else value.astype(TYPES[dtype])
    )
    return Call(
        {
            "dst": Tile(value.shape, dtype),
            "pattern": pattern,
            "offset": offset,
            "channel_multiplier": multiplier,
        },
        {"dst": wanted},
    )


def _affine_select(
    dtype: str, cmp: str, pattern: list[list[int]], offset: int, multiplier: int, rng: Generator
) -> Call:
    value = _affine(pattern, offset, multiplier, 32)
    x = sample(rng, value.shape, dtype)
    chosen = np.where(ARITHMETIC[cmp](value, 0), x, cast(np.array(-1, np.float32), dtype))
    return Call(
        {
            "dst": Tile(x.shape, dtype),
            "pattern": pattern,
            "channel_multiplier": multiplier,
            "on_true_tile": Tile(x, dtype),
            "on_false_value": -1.0,
            "cmp_op": getattr(nl, cmp),
            "offset": offset,
        },
        {"dst": chosen},
    )


def _local_gather(dtype: str, partitions: int, width: int, valid: int, rng: Generator) -> Call:
    x = sample(rng, (partitions, 64), dtype)
    index = rng.integers(0, 64 // width, (partitions, 2)) * width
    index = index.astype(np.uint16)
    wanted = np.empty((partitions, valid * width), x.dtype)
    for start in range(0, partitions, 16):
        order = index[start : start + 16].flatten(order="F")[:valid]
        for p in range(start, start + 16):
            wanted[p] = np.concatenate([x[p, i : i + width] for i in order])
    return Call(
        {
            "dst": Tile(wanted.shape, dtype),
            "src_buffer": Tile(x, dtype),
            "index": Tile(index, "uint16"),
            "num_elem_per_idx": width,
            "num_valid_indices": valid,
        },
        {"dst": wanted},
    )


def _n_gather(dtype: str, shape: tuple[int, ...], count: int, rng: Generator) -> Call:
    x = sample(rng, shape, dtype)
    flat = x.reshape(shape[0], -1)
    index = rng.integers(0, flat.shape[1], (shape[0], count)).astype(np.uint32)
    return Call(
        {"dst": Tile(index.shape, dtype), "data": Tile(x, dtype), "indices": Tile(index, "uint32")},
        {"dst": np.take_along_axis(flat, index.astype(np.int64), axis=1)},
    )


def _nonzero(dtype: str, length: int, offset: int, padding: int, rng: Generator) -> Call:
    x = rng.integers(0, 2, (128, length)).astype(TYPES[dtype])
    before = rng.integers(-9, 9, (128, length + 1)).astype(np.int32)
    wanted = before.copy()
    for p in range(0, 128, 16):
        places = np.flatnonzero(x[p]) + offset
        wanted[p, :length] = padding
        wanted[p, : len(places)] = places
        wanted[p, length] = len(places)
    return Call(
        {
            "dst": Tile(before, "int32"),
            "src": Tile(x, dtype),
            "index_offset": offset,
            "padding_val": padding,
        },
        {"dst": wanted},
    )


def _documented_nonzero(rng: Generator) -> Call:
    x = np.array([[0, 1, 1, 0, 0, 1, 0, 0]], np.int32)
    return Call(
        {"dst": Tile((1, 9), "int32"), "src": Tile(x, "int32"), "index_offset": 16},
        {"dst": np.array([[17, 18, 21, -1, -1, -1, -1, -1, 3]], np.int32)},
    )


def _sequence_bounds(dtype: str, rng: Generator) -> Call:
    ids = np.array([[0, 1, 1, 2, 2, 2, 0, 3, 3]], TYPES[dtype])
    wanted = np.array([[9, 1, 1, 3, 3, 3, 9, 7, 7], [-1, 3, 3, 6, 6, 6, -1, 9, 9]], TYPES[dtype])
    return Call(
        {"dst": Tile((1, 2, 9), dtype), "segment_ids": Tile(ids, dtype)},
        {"dst": wanted.reshape(1, 2, 9)},
    )


def _topk(n: int, k: int, rng: Generator) -> Call:
    columns = -(-n // 16)
    # Values without ties, whole numbers that bfloat16 holds.
    values = rng.permutation(256)[:n].astype(np.float32)
    snake = np.zeros((16, columns), np.float32)
    for e in range(n):
        snake[e % 16, e // 16] = values[e]
    order = np.argsort(values)[-k:]
    return Call(
        {
            "val_dst": Tile((16, k), "bfloat16"),
            "idx_dst": Tile((16, k), "uint32"),
            "src": Tile(cast(snake, "bfloat16"), "bfloat16"),
            "n": n,
        },
        {
            "val_dst": cast(np.tile(values[order], (16, 1)), "bfloat16"),
            "idx_dst": np.tile(order.astype(np.uint32), (16, 1)),
        },
    )


def rows() -> Iterator[Row]:
    """Yield the rows of this module's functions."""
    row = partial(Row, "range_select")
    for op0 in _COMPARISONS:
        for op1 in _COMPARISONS:
            yield row(f"{op0}-{op1}", partial(_range_select, op0, op1, "float32", 5, "sbuf"))
    for dtype in FLOATS:
        yield row(dtype, partial(_range_select, "greater_equal", "less", dtype, 0, "sbuf"))
    yield row("psum", partial(_range_select, "greater_equal", "less", "float32", -7, "psum"))
    row = partial(Row, "select_reduce")
    for dtype in (*FLOATS, "int8", "uint8", "int16", "uint16"):
        for predicate in ("int8", "uint8", "int16", "uint16"):
            build = partial(_select_reduce, dtype, predicate, tile=True, reverse=False)
            yield row(f"{dtype}-{predicate}", keyword(build))
    for tile in (False, True):
        build = partial(_select_reduce, "float32", "uint8", tile=tile, reverse=True)
        yield row(f"reverse-{'tile' if tile else 'number'}", keyword(build))

    row = partial(Row, "max8")
    for dtype in TYPES:
        yield row(dtype, partial(_max8, dtype, (32, 40), "sbuf"))
    for shape in ((128, 8), (4, 16384), (8, 4, 30)):
        yield row(f"shape-{shape}", partial(_max8, "float32", shape, "sbuf"))
    yield row("psum", partial(_max8, "float32", (128, 512), "psum"))
    row = partial(Row, "nc_find_index8")
    for dtype in FLOATS:
        for out in ("uint16", "uint32"):
            yield row(f"{dtype}-{out}", partial(_find_index8, dtype, out, 30))
    for length in (8, 16384):
        yield row(f"length-{length}", partial(_find_index8, "float32", "uint32", length))
    yield row("documented", _documented_find)
    row = partial(Row, "nc_match_replace8")
    yield row("documented", _match_replace)
    for dtype in FLOATS:
        yield row(dtype, partial(_match_random, dtype, 30))
    for length in (8, 16384):
        yield row(f"length-{length}", partial(_match_random, "float32", length))

    row = partial(Row, "iota")
    patterns = ([[1, 12]], [[-2, 5]], [[12, 3], [1, 4]], [[0, 2], [3, 2], [1, 3]],
                [[24, 2], [-6, 2], [2, 3], [1, 2]])  # fmt: skip
    for dtype in ("float32", "bfloat16", "float16", "int32", "uint32", "int16", "uint16"):
        yield row(dtype, partial(_iota, dtype, [[1, 12]], 0, 1))
    for pattern in patterns:
        yield row(f"{pattern}", partial(_iota, "int32", pattern, 100, -3))
    row = partial(Row, "affine_select")
    for cmp in (*_COMPARISONS, "not_equal"):
        yield row(cmp, partial(_affine_select, "float32", cmp, [[-1, 32]], 3, 1))
    for dtype in ("bfloat16", "float16", "int32", "int8"):
        yield row(dtype, partial(_affine_select, dtype, "greater_equal", [[-1, 32]], 0, 1))
    for pattern in patterns:
        yield row(f"{pattern}", partial(_affine_select, "float32", "greater", pattern, -4, 2))

    row = partial(Row, "local_gather")
    for dtype in TYPES:
        yield row(dtype, partial(_local_gather, dtype, 32, 1, 32))
    for width in (1, 2, 4, 8, 16, 32):
        yield row(f"width-{width}", partial(_local_gather, "float32", 128, width, 32))
    yield row("valid-9", partial(_local_gather, "float32", 16, 4, 9))
    row = partial(Row, "nc_n_gather")
    for dtype in TYPES:
        yield row(dtype, partial(_n_gather, dtype, (32, 40), 7))
    for shape, count in (((128, 1), 5), ((16, 4, 12), 30), ((8, 2000), 1025)):
        yield row(f"{shape}-{count}", partial(_n_gather, "float32", shape, count))
    row = partial(Row, "nonzero_with_count")
    for dtype in ("float32", "int32"):
        for length, offset, padding in ((1, 0, -1), (40, 16, -1), (128, 3, 99)):
            yield row(f"{dtype}-{length}", partial(_nonzero, dtype, length, offset, padding))
    yield row("documented", _documented_nonzero)
    for dtype in ("float32", "int32"):
        yield Row("sequence_bounds", dtype, partial(_sequence_bounds, dtype))
    for n, k in ((8, 1), (16, 16), (100, 7), (256, 64)):
        yield Row("topk", f"{n}-{k}", partial(_topk, n, k))


def refusals() -> Iterator[Refusal]:
    """Yield the calls that this module's functions refuse."""
    column = ones((8, 1))

    def ranged(**changed: Any) -> dict[str, Any]:
        names = {
            "dst": Tile((8, 4)),
            "on_true_tile": ones((8, 4)),
            "comp_op0": nl.greater_equal,
            "comp_op1": nl.less,
            "bound0": column,
            "bound1": ones((8, 1)),
        }
        return {**names, **changed}

    no = partial(Refusal, "range_select")
    yield no("fill", lambda: ranged(on_false_value=0.0), "on_false_value")
    yield no("comparison", lambda: ranged(comp_op0=nl.not_equal), "comp_op0")
    yield no("bound-type", lambda: ranged(bound0=ones((8, 1), "bfloat16")), "bound0")
    yield no("bound-shape", lambda: ranged(bound1=ones((8, 2))), "bound1")
    yield no("integers", lambda: ranged(on_true_tile=ones((8, 4), "int32")), "on_true_tile")
    yield no("reduce_op", lambda: ranged(reduce_op=nl.add), "reduce_op")
    yield no("trn1", ranged, "gen3", arch="trn1")

    def selected(**changed: Any) -> dict[str, Any]:
        names = {
            "dst": Tile((8, 4)),
            "predicate": ones((8, 4), "uint8"),
            "on_true": ones((8, 4)),
            "on_false": 0.0,
        }
        return {**names, **changed}

    no = partial(Refusal, "select_reduce")
    yield no("predicate", lambda: selected(predicate=ones((8, 4))), "predicate")
    yield no("predicate-32", lambda: selected(predicate=ones((8, 4), "uint32")), "predicate")
    yield no("on_true", lambda: selected(on_true=ones((8, 4), "int32")), "on_true")
    yield no("on_false", lambda: selected(on_false=ones((8, 2))), "on_false")
    yield no("reduce_op", lambda: selected(reduce_op=nl.add), "reduce_op")
    yield no(
        "both-in-psum",
        lambda: selected(
            on_true=ones((8, 4), buffer="psum"), predicate=ones((8, 4), "uint8", "psum")
        ),
        "PSUM",
    )

    no = partial(Refusal, "max8")
    yield no("7", lambda: {"dst": Tile((8, 8)), "src": ones((8, 7))}, "8")
    yield no("16385", lambda: {"dst": Tile((1, 8)), "src": ones((1, 16385), "bfloat16")}, "16384")
    yield no("dst", lambda: {"dst": Tile((8, 9)), "src": ones((8, 12))}, "dst")
    no = partial(Refusal, "nc_find_index8")

    def found(**changed: Any) -> dict[str, Any]:
        return {
            "dst": Tile((8, 8), "uint32"),
            "data": ones((8, 12)),
            "vals": ones((8, 8)),
            **changed,
        }

    yield no("vals", lambda: found(vals=ones((8, 7))), "vals")
    yield no("dst-type", lambda: found(dst=Tile((8, 8))), "dst")
    yield no("7", lambda: found(data=ones((8, 7))), "8")
    no = partial(Refusal, "nc_match_replace8")

    def replaced(**changed: Any) -> dict[str, Any]:
        return {
            "dst": Tile((8, 12)),
            "data": ones((8, 12)),
            "vals": ones((8, 8)),
            "imm": 0.0,
            **changed,
        }

    yield no("vals", lambda: replaced(vals=ones((8, 9))), "vals")
    yield no("dst_idx", lambda: replaced(dst_idx=Tile((8, 8))), "dst_idx")
    yield no("elements", lambda: replaced(dst=Tile((8, 11))), "elements")

    def iota(**changed: Any) -> dict[str, Any]:
        return {"dst": Tile((8, 4), "int32"), "pattern": [[1, 4]], **changed}

    no = partial(Refusal, "iota")
    yield no("count", lambda: iota(pattern=[[1, 5]]), "elements|pattern")
    yield no("pairs", lambda: iota(pattern=[[1, 2, 3]]), "pairs", ValueError)
    yield no("psum", lambda: iota(dst=Tile((8, 4), "int32", "psum")), "psum")
    yield no(
        "five-axes",
        lambda: iota(pattern=[[1, 1]] * 4 + [[1, 4]]),
        "pattern",
        (ValueError, AssertionError),
    )
    yield no("offset", lambda: iota(offset=1.5), "offset", TypeError)

    def masked(**changed: Any) -> dict[str, Any]:
        names = {
            "dst": Tile((8, 4)),
            "pattern": [[1, 4]],
            "channel_multiplier": 0,
            "on_true_tile": ones((8, 4)),
            "on_false_value": 0.0,
            "cmp_op": nl.greater,
        }
        return {**names, **changed}

    no = partial(Refusal, "affine_select")
    yield no("cmp_op", lambda: masked(cmp_op=nl.add), "cmp_op")
    yield no("elements", lambda: masked(on_true_tile=ones((8, 5))), "on_true_tile")
    yield no("psum", lambda: masked(on_true_tile=ones((8, 4), buffer="psum")), "psum")

    def local(**changed: Any) -> dict[str, Any]:
        names = {
            "dst": Tile((16, 16)),
            "src_buffer": ones((16, 8)),
            "index": ones((16, 1), "uint16"),
        }
        return {**names, **changed}

    no = partial(Refusal, "local_gather")
    yield no(
        "partitions",
        lambda: local(dst=Tile((8, 16)), src_buffer=ones((8, 8)), index=ones((8, 1), "uint16")),
        "16",
    )
    yield no("index-type", lambda: local(index=ones((16, 1), "int32")), "index")
    yield no("width", lambda: local(num_elem_per_idx=3), "num_elem_per_idx")
    yield no("valid", lambda: local(num_valid_indices=17), "num_valid_indices")
    yield no("dst", lambda: local(dst=Tile((16, 15))), "dst|16")
    yield no(
        "4097",
        lambda: local(
            dst=Tile((16, 4112), "uint8"),
            src_buffer=ones((16, 8), "uint8"),
            index=ones((16, 257), "uint16"),
        ),
        "4096",
    )
    yield no("psum", lambda: local(src_buffer=ones((16, 8), buffer="psum")), "psum")
    no = partial(Refusal, "nc_n_gather")
    taken: dict[str, Any] = {
        "dst": Tile((8, 4)),
        "data": ones((8, 9)),
        "indices": ones((8, 4), "uint32"),
    }
    yield no("indices-type", lambda: taken | {"indices": ones((8, 4))}, "indices")
    yield no("dtype", lambda: taken | {"dst": Tile((8, 4), "bfloat16")}, "dtype")
    yield no(
        "beyond",
        lambda: taken | {"indices": Tile(np.full((8, 4), 9, np.uint32), "uint32")},
        "index 9",
        IndexError,
    )
    yield no("psum", lambda: taken | {"data": ones((8, 9), buffer="psum")}, "psum")
    no = partial(Refusal, "nonzero_with_count")
    yield no("dst", lambda: {"dst": Tile((8, 4), "int32"), "src": ones((8, 4))}, "dst")
    yield no("dst-type", lambda: {"dst": Tile((8, 5)), "src": ones((8, 4))}, "dst")
    yield no(
        "src-type", lambda: {"dst": Tile((8, 5), "int32"), "src": ones((8, 4), "bfloat16")}, "src"
    )
    yield no(
        "trn1", lambda: {"dst": Tile((8, 5), "int32"), "src": ones((8, 4))}, "gen3", arch="trn1"
    )
    no = partial(Refusal, "sequence_bounds")
    yield no(
        "partitions", lambda: {"dst": Tile((2, 2, 4)), "segment_ids": ones((2, 4))}, "partition|1"
    )
    yield no("shape", lambda: {"dst": Tile((1, 8)), "segment_ids": ones((1, 4))}, r"\[1, 2, 4\]")
    no = partial(Refusal, "topk")

    def topk(**changed: Any) -> dict[str, Any]:
        names = {
            "val_dst": Tile((16, 4), "bfloat16"),
            "idx_dst": Tile((16, 4), "uint32"),
            "src": ones((16, 4), "bfloat16"),
            "n": 50,
        }
        return {**names, **changed}

    yield no("type", lambda: topk(src=ones((16, 4))), "src")
    yield no("n-small", lambda: topk(n=7), "n")
    yield no("n-beyond-src", lambda: topk(n=65), "n|src")
    yield no(
        "k-beyond-n",
        lambda: topk(val_dst=Tile((16, 9), "bfloat16"), idx_dst=Tile((16, 9), "uint32"), n=8),
        "k|n",
    )
    yield no(
        "partitions",
        lambda: topk(
            val_dst=Tile((8, 4), "bfloat16"),
            idx_dst=Tile((8, 4), "uint32"),
            src=ones((8, 8), "bfloat16"),
        ),
        "16",
    )
