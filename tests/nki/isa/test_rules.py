"""Rules of the hardware that hold for every instruction or view, and the words that say so."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import trn3.nki.isa as nisa
import trn3.nki.language as nl
from support.core import run
from trn3 import nki


def _zeros(*shape: int, dtype: Any = nl.float32, buffer: Any = nl.sbuf) -> Any:
    return nl.zeros(shape, dtype, buffer=buffer)


@pytest.mark.parametrize(
    "step",
    [
        lambda: nisa.tensor_copy(_zeros(64, 4), _zeros(128, 4)[0:128:2]),
        lambda: nisa.tensor_tensor(_zeros(128, 4)[::4], _zeros(32, 4), _zeros(32, 4), nl.add),
        lambda: nisa.activation(_zeros(128, 4)[::2], nl.exp, _zeros(64, 4)),
        lambda: nisa.nc_matmul(_zeros(4, 4, buffer=nl.psum), _zeros(64, 4)[::2], _zeros(32, 4)),
        lambda: nisa.memset(_zeros(128, 4)[::2], 1.0),
    ],
)
def test_engines_refuse_a_step_between_partitions(step: Callable[[], Any]) -> None:
    with pytest.raises(nisa.NkiValidationError, match=r"takes every \dth partition; consecutive"):
        run(step)


def test_dma_takes_a_step_between_partitions() -> None:
    @nki.jit
    def kernel(x: Any) -> Any:
        out = nl.ndarray((32, x.shape[1]), x.dtype, buffer=nl.shared_hbm)
        nisa.dma_copy(out, nl.load(x)[::4])
        return out

    x = np.arange(512, dtype=np.float32).reshape(128, 4)
    assert (kernel(x) == x[::4]).all()


def _columns(dtype: Any = nl.float32, buffer: Any = nl.sbuf) -> Any:
    return _zeros(16, 16, dtype=dtype, buffer=buffer).indirect(_zeros(16, 1, dtype=nl.uint16))


def test_tensor_copy_takes_indirect_views_on_gen4_alone() -> None:
    @nki.jit(platform_target="trn2")
    def older(x: Any) -> Any:
        nisa.tensor_copy(_zeros(16, 16), _columns())
        return x

    x = np.zeros((1, 1), np.float32)
    with pytest.raises(
        nisa.NkiValidationError, match=r"tensor_copy src is an indirect view on trn2"
    ):
        older(x)
    run(lambda: nisa.tensor_copy(_zeros(16, 16), _columns()))


@pytest.mark.parametrize(
    ("step", "words"),
    [
        (
            lambda: nisa.tensor_copy(_zeros(16, 16), _columns(), engine=nisa.gpsimd_engine),
            r"tensor_copy src is an indirect view",
        ),
        (
            lambda: nisa.tensor_copy(
                _columns(buffer=nl.psum), _zeros(16, 16), engine=nisa.scalar_engine
            ),
            r"tensor_copy dst is an indirect view in psum",
        ),
        (lambda: nisa.memset(_columns(), 0.0), r"memset dst is an indirect view"),
    ],
)
def test_operands_that_take_no_indirect_view_refuse_it(step: Callable[[], Any], words: str) -> None:
    with pytest.raises(nisa.NkiValidationError, match=words):
        run(step)


@pytest.mark.parametrize(("axis", "text"), [((2, 4), r"\(2, 4\)"), (1, r"\(1,\)")])
def test_tensor_reduce_says_which_axes_it_got(axis: Any, text: str) -> None:
    words = rf"axis must be the last contiguous dim\(s\) of the tile\. Got axis={text}"
    with pytest.raises(nisa.NkiValidationError, match=f"tensor_reduce {words}"):
        run(lambda: nisa.tensor_reduce(_zeros(4, 6), nl.add, _zeros(4, 2, 3, 2, 2), axis=axis))


@pytest.mark.parametrize(
    ("x", "y", "words"),
    [((4, 129), (4, 4), r"nl.matmul x has shape \(4, 129\)"), ((4, 4), (4, 513), "513")],
)
def test_matmul_names_the_operand_that_is_too_large(x: Any, y: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        run(lambda: nl.matmul(_zeros(*x), _zeros(*y), transpose_x=True))
