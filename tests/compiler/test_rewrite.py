"""Kernels' texts rewritten: what moves, what stays, and what is left to people."""

from __future__ import annotations

import ast
from collections.abc import Callable
from textwrap import dedent
from typing import Any

import pytest

from trn3.compiler.rewrite import ByHandError, KernelText, rewritten


def text_of(source: str) -> KernelText:
    return KernelText.of(dedent(source).lstrip("\n"), "kernel")


def of_isa(function: ast.expr) -> bool:
    return ast.unparse(function).startswith("nisa.")


def change(kind: str, **fields: Any) -> dict[str, Any]:
    tensors = [{"name": "", "line": line} for line in fields.pop("tensors", [])]
    empty: dict[str, Any] = {"lines": [], "engines": [], "before": None}
    return {**empty, "kind": kind, "tensors": tensors, **fields}


def after(source: str, **fields: Any) -> str:
    return rewritten(text_of(source), change(**fields), of_isa).source


LOOP = """
    def kernel(x, w):
        tile = nl.ndarray((128, 512))  # one for all
        for i in nl.affine_range(n):
            # From memory.
            nisa.dma_copy(dst=tile, src=x[i])
            weight = nl.ndarray((128, 512))
            nisa.dma_copy(dst=weight, src=w)
            nisa.tensor_tensor(
                tile,
                tile, weight,
                op=nl.add,
            )
            nisa.dma_copy(dst=out[i], src=tile)
        return out
"""


def test_a_tensor_is_made_in_the_loop_that_uses_it() -> None:
    found = after(LOOP, kind="double-buffer", tensors=[2], lines=[5])
    assert found.splitlines()[:5] == [
        "def kernel(x, w):",
        "    for i in nl.affine_range(n):",
        "        # From memory.",
        "        tile = nl.ndarray((128, 512))  # one for all",
        "        nisa.dma_copy(dst=tile, src=x[i])",
    ]
    assert len(found.splitlines()) == len(dedent(LOOP).strip().splitlines())


def test_what_is_the_same_in_every_iteration_goes_before_the_loop() -> None:
    found = after(LOOP, kind="hoist", tensors=[6], lines=[7])
    assert "nl.ndarray((128, 512))\n    nisa.dma_copy(dst=weight, src=w)\n    for i in" in found
    assert found.count("weight = ") == 1


@pytest.mark.parametrize(
    ("engines", "words"),
    [
        ([["gpsimd"]], "op=nl.add, engine=nisa.gpsimd_engine,"),
        ([["vector", "scalar"]], "engine=(nisa.vector_engine, nisa.scalar_engine)[i % 2],"),
    ],
)
def test_an_engine_is_the_last_argument(engines: list[list[str]], words: str) -> None:
    found = after(LOOP, kind="engine", lines=[8], engines=engines)
    assert words in found
    ast.parse(found)


def test_an_iteration_goes_ahead_with_what_the_rest_needs() -> None:
    found = after(LOOP, kind="ahead", tensors=[2], lines=[5, 7], before=8)
    wanted = """
        def kernel(x, w):
            for i in nl.sequential_range(n + 1):
                if i > 0:
                    tile_before, weight_before = tile, weight
                if i < n:
                    # From memory.
                    tile = nl.ndarray((128, 512))  # one for all
                    nisa.dma_copy(dst=tile, src=x[i])
                    weight = nl.ndarray((128, 512))
                    nisa.dma_copy(dst=weight, src=w)
                if i > 0:
                    i_before = i - 1
                    nisa.tensor_tensor(
                        tile_before,
                        tile_before, weight_before,
                        op=nl.add,
                    )
                    nisa.dma_copy(dst=out[i_before], src=tile_before)
            return out
    """
    assert found == dedent(wanted).lstrip("\n")


NEST = """
    def kernel(x, w):
        for m in range(M // 128):
            for n in nl.affine_range(N):
                for k in nl.affine_range(K // 128):
                    at = (k * 128, n)
                    tile = nl.ndarray((128, 512))
                    nisa.dma_copy(dst=tile, src=w[at])
                    nisa.nc_matmul(acc, left[m, k], tile)
"""


def test_what_inner_loops_choose_is_kept_in_a_list() -> None:
    wanted = """
        def kernel(x, w):
            tile_of = []
            for m in range(M // 128):
                for n in nl.affine_range(N):
                    for k in nl.affine_range(K // 128):
                        at = (k * 128, n)
                        if m == 0:
                            tile = nl.ndarray((128, 512))
                            nisa.dma_copy(dst=tile, src=w[at])
                            tile_of.append(tile)
                        tile = tile_of[n * (K // 128) + k]
                        nisa.nc_matmul(acc, left[m, k], tile)
    """
    found = after(NEST, kind="hoist", tensors=[6], lines=[7])
    assert found == dedent(wanted).lstrip("\n")


def test_lists_have_an_entry_for_every_choice_of_inner_loops() -> None:
    made: dict[str, Any] = {}
    loads: list[tuple[int, int]] = []
    products: list[tuple[int, int, tuple[int, int]]] = []
    source = after(NEST, kind="hoist", tensors=[6], lines=[7])

    class Isa:
        @staticmethod
        def dma_copy(dst: list[Any], src: tuple[int, int]) -> None:
            loads.append(src)
            dst.append(src)

        @staticmethod
        def nc_matmul(_: object, left: tuple[int, int], tile: list[Any]) -> None:
            products.append((*left, tile[0]))

    class Language:
        affine_range = range

        @staticmethod
        def ndarray(_: object) -> list[Any]:
            return []

    class Same:
        def __getitem__(self, at: tuple[int, int]) -> tuple[int, int]:
            return at

    space = {"nisa": Isa, "nl": Language, "M": 256, "N": 3, "K": 256, "left": Same(), "acc": None}
    exec(source, space, made)
    made["kernel"].__globals__.update(space)
    made["kernel"](None, Same())
    assert (
        sorted(loads)
        == sorted(set(loads))
        == sorted((128 * k, n) for n in range(3) for k in (0, 1))
    )
    assert products == [(m, k, (128 * k, n)) for m in range(2) for n in range(3) for k in range(2)]


def test_dead_lines_go_and_leave_no_empty_loop() -> None:
    source = """
        def kernel(x):
            for i in range(4):
                nisa.memset(scratch, 0.0)
            return x
    """
    found = after(source, kind="dead", lines=[3])
    assert found.splitlines()[2] == "        pass"


def test_lines_know_where_they_come_from() -> None:
    text = rewritten(text_of(LOOP), change("ahead", tensors=[2], lines=[5, 7], before=8), of_isa)
    place = next(at for at, (line, _) in enumerate(text.lines, 1) if "tensor_tensor" in line)
    assert (place != 8, text.origin(place)) == (True, 8)


CARRIED = """
    def kernel(x):
        state = first
        for i in nl.affine_range(n):
            tile = nl.ndarray((128, 512))
            nisa.tensor_tensor(tile, state, x[i])
            state = tile
"""


@pytest.mark.parametrize(
    ("source", "fields", "why"),
    [
        (LOOP, {"kind": "hoist", "tensors": [2], "lines": [5]}, "fills `tile`|another one"),
        (LOOP, {"kind": "double-buffer", "tensors": [6], "lines": [7]}, "more than one place"),
        (LOOP, {"kind": "engine", "lines": [1], "engines": [["scalar"]]}, "no statement"),
        (LOOP, {"kind": "engine", "lines": [14], "engines": [["scalar"]]}, "no one instruction"),
        (CARRIED, {"kind": "ahead", "lines": [4, 5], "before": 6}, "`state` is of both parts"),
        (
            LOOP.replace("nl.affine_range(n)", "range(2, n)"),
            {"kind": "ahead", "lines": [5, 7], "before": 8},
            "does not count from 0",
        ),
        (
            LOOP.replace("op=nl.add,", "op=nl.add, engine=nisa.vector_engine,"),
            {"kind": "engine", "lines": [8], "engines": [["scalar"]]},
            "names its engine",
        ),
        (
            LOOP.replace("        tile = nl", "        tile = other = nl"),
            {"kind": "double-buffer", "tensors": [2], "lines": [5]},
            "does not give one tensor a name",
        ),
    ],
)
def test_what_names_do_not_tell_is_left_to_people(
    source: str, fields: dict[str, Any], why: str
) -> None:
    with pytest.raises(ByHandError, match=why):
        after(source, **fields)


def test_a_file_without_the_kernel_is_refused() -> None:
    with pytest.raises(ByHandError, match="defines no function kernel"):
        _ = text_of("x = 1").function


@pytest.mark.parametrize("name", ["tile", "größe"])
def test_names_are_exchanged_by_their_bytes(name: str) -> None:
    source = LOOP.replace("tile", name).replace("x[i]", "x[f('ä'), i]")
    make: Callable[..., str] = after
    found = make(source, kind="ahead", tensors=[2], lines=[5, 7], before=8)
    assert f"nisa.dma_copy(dst=out[i_before], src={name}_before)" in found
