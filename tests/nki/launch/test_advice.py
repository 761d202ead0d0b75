"""Errors of kernels name tensors as the kernel does, the nearest name, and the idiom."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import trn3.nki.dialects.legacy.isa as legacy_isa
import trn3.nki.dialects.legacy.language as legacy_language
from trn3 import nki
from trn3.nki import collectives as ncc, isa as nisa, language as nl

X = np.ones((128, 64), np.float32)
ROW = np.ones((1, 64), np.float32)

ACCUMULATE = (
    "; a product is accumulated in PSUM by the instruction: nisa.nc_matmul(dst, stationary, "
    "moving, accumulate=True); nisa.tensor_tensor(dst, dst, product, op=nl.add) adds a finished one"
)


def raised(body: Callable[[Any, Any], Any]) -> str:
    """Return the text of what a kernel raises, without the line in front of it."""

    @nki.jit
    def kernel(x: Any, row: Any) -> Any:
        body(x, row)
        return x

    with pytest.raises((TypeError, AttributeError, ValueError, AssertionError)) as caught:
        kernel(X, ROW)
    return str(caught.value).removeprefix(f"{__file__}:").lstrip("0123456789").removeprefix(": ")


def plus_instruction(x: Any, _: Any) -> None:
    tile = nl.load(x)
    acc = nl.ndarray((64, 64), nl.float32, buffer=nl.psum)
    acc += nisa.nc_matmul(acc, tile, tile)


def plus_product(x: Any, _: Any) -> None:
    tile = nl.load(x)
    acc = nl.ndarray((64, 64), nl.float32, buffer=nl.psum)
    acc[...] += nl.matmul(tile, tile, transpose_x=True)


@pytest.mark.parametrize(
    ("body", "other"), [(plus_instruction, "NkiInstruction"), (plus_product, "NkiTensor")]
)
def test_adding_to_a_product_says_how_matmuls_accumulate(body: Any, other: str) -> None:
    operands = f"'trn3._trn3.NkiTensor' and 'trn3._trn3.{other}'"
    assert raised(body) == f"unsupported operand type(s) for +=: {operands}{ACCUMULATE}"


def test_operators_say_which_function_and_instruction_do_it() -> None:
    def times(x: Any, _: Any) -> None:
        tile = nl.load(x)
        tile * tile

    assert raised(times) == (
        "unsupported operand type(s) for *: 'trn3._trn3.NkiTensor' and 'trn3._trn3.NkiTensor'; "
        "tensors have no operators: nl.multiply(x, y) gives a new tile, nisa.tensor_tensor(dst, x, "
        "y, op=nl.multiply) writes to one"
    )
    assert raised(lambda x, _: -x) == (
        "bad operand type for unary -: 'trn3._trn3.NkiTensor'; tensors have no operators: "
        "functions of nki.language give new tiles"
    )


def tile_and_row(instruction: Callable[[Any, Any, Any], Any]) -> Callable[[Any, Any], None]:
    def body(x: Any, row: Any) -> None:
        tile, weight = nl.load(x), None
        weight = nl.load(row)
        instruction(nl.ndarray((128, 64), nl.float32), tile, weight)

    return body


ROWS = {
    "tensor_tensor data2 has 1 partitions, dst has 128; both need the same number": (
        lambda d, t, w: nisa.tensor_tensor(d, t, w, op=nl.add)
    ),
    "scalar_tensor_tensor operand1 has 1 partitions, dst has 128; both need the same number": (
        lambda d, t, w: nisa.scalar_tensor_tensor(d, t, nl.multiply, 2.0, nl.add, w)
    ),
    "tensor_scalar operand0 has shape [1, 64]; a scalar or a tile of shape [128, 1]": (
        lambda d, t, w: nisa.tensor_scalar(d, t, op0=nl.add, operand0=w)
    ),
    "activation bias has shape [1, 64]; a scalar or a tile of shape [128, 1]": (
        lambda d, t, w: nisa.activation(d, op=nl.exp, data=t, bias=w)
    ),
}


@pytest.mark.parametrize("text", ROWS)
def test_a_row_where_every_partition_needs_one_says_how_to_repeat_it(text: str) -> None:
    hint = "; nl.broadcast_to(weight, (128, 64)) repeats the row in every partition"
    assert raised(tile_and_row(ROWS[text])) == text + hint


def test_a_row_among_tiles_of_a_function_says_how_to_repeat_it() -> None:
    assert raised(tile_and_row(lambda _, t, w: nl.add(t, w))) == (
        "nl.add tiles have shapes (128, 64) and (1, 64); allowed: equal shapes, or free axes of "
        "length 1; nl.broadcast_to(row, (128, 64)) repeats a row in every partition"
    )
    # Fewer partitions that are no row are no case for it.
    assert raised(lambda x, _: nl.add(nl.load(x), nl.load(x[0:2]))) == (
        "nl.add tiles have shapes (128, 64) and (2, 64); allowed: equal shapes, or free axes of "
        "length 1"
    )


UNKNOWN = {
    "module 'trn3.nki.language' has no attribute 'matmull'; the nearest is 'matmul'": (
        lambda *_: nl.matmull  # type: ignore[attr-defined]
    ),
    "module 'trn3.nki.isa' has no attribute 'tensor_tensr'; the nearest is 'tensor_tensor'": (
        lambda *_: nisa.tensor_tensr  # type: ignore[attr-defined]
    ),
    "module 'trn3.nki.collectives' has no attribute 'allreduce'; the nearest is 'all_reduce'": (
        lambda *_: ncc.allreduce  # type: ignore[attr-defined]
    ),
    "module 'neuronxcc.nki.language' has no attribute 'arrange'; the nearest is 'arange'": (
        lambda *_: legacy_language.arrange
    ),
    "module 'neuronxcc.nki.isa' has no attribute 'activaton'; the nearest is 'activation'": (
        lambda *_: legacy_isa.activaton  # type: ignore[attr-defined]
    ),
    "module 'trn3.nki.language' has no attribute 'zzz'": (
        lambda *_: nl.zzz  # type: ignore[attr-defined]
    ),
    "nisa.engine has no 'vectr'; the nearest is 'vector'; allowed: unknown, tensor, scalar, "
    "gpsimd, dma, vector, sync": lambda *_: nisa.engine.vectr,
    "nl.tile_size has no 'pmx'; the nearest is 'pmax'; allowed: bn_stats_fmax, gemm_moving_fmax, "
    "gemm_stationary_fmax, pmax, psum_bank_fmax, psum_bank_fmax_bytes, psum_fmax, psum_fmax_bytes, "
    "psum_min_align, psum_num_banks, sbuf_fmax, sbuf_fmax_bytes, sbuf_min_align, sbuf_size_bytes, "
    "total_available_sbuf_size": lambda *_: nl.tile_size.pmx,
    "'NkiTensor' object has no attribute 'reshap'; the nearest is 'reshape'": (
        lambda x, _: x.reshap((64, 128))
    ),
    "'NkiTensor' object has no attribute 'mean'; nl.mean(tensor) is a function": (
        lambda x, _: x.mean()
    ),
    "tensor_copy() got an unexpected keyword argument 'scr'; the nearest is 'src'; allowed: dst, "
    "src, engine, name, dtype": lambda x, _: nisa.tensor_copy(x, scr=x),  # type: ignore[call-arg]
    "load() got an unexpected keyword argument 'dtyp'; the nearest is 'dtype'; allowed: src, "
    "dtype": (
        lambda x, _: nl.load(x, dtyp=nl.float32)  # type: ignore[call-arg]
    ),
}


@pytest.mark.parametrize("text", UNKNOWN)
def test_unknown_names_come_with_the_nearest(text: str) -> None:
    assert raised(UNKNOWN[text]) == text


def test_unknown_element_types_and_operators_come_with_the_nearest() -> None:
    assert raised(lambda *_: nl.ndarray((128, 4), "floot32")).startswith(
        "dtype is 'floot32', which no engine has; the nearest is 'float32'; allowed: bool, int8, "
    )
    assert raised(lambda x, _: nisa.tensor_tensor(x, x, x, op="multipy")).endswith(
        "nl.var, NumPy functions of the same meaning; the nearest is 'multiply'"
    )


def test_errors_of_a_users_own_keep_their_text() -> None:
    def own(_: Any, __: Any) -> None:
        def helper() -> None: ...

        helper(size=3)  # type: ignore[call-arg]

    assert raised(own).endswith("helper() got an unexpected keyword argument 'size'")
