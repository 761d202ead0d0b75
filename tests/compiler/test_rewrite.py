"""Kernels' texts rewritten: what moves, what stays, and what is left to people."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from textwrap import dedent
from typing import Any

import pytest

from trn3.compiler.rewrite import ByHandError, KernelText, lines_that_name, rewritten


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


def test_a_named_engine_is_exchanged() -> None:
    source = LOOP.replace("op=nl.add,", "op=nl.add, engine=nisa.gpsimd_engine,")
    found = after(source, kind="engine", lines=[8], engines=[["vector"]])
    assert found == after(LOOP, kind="engine", lines=[8], engines=[["vector"]])


@pytest.mark.parametrize(
    ("head", "turn"),
    [
        ("nl.affine_range(n)", "i % 2"),
        ("range(2, n)", "(i - 2) % 2"),
        ("range(0, n, P)", "i // P % 2"),
        ("range(first, n, 2 * P)", "(i - first) // (2 * P) % 2"),
    ],
)
def test_transfers_take_turns_between_queues(head: str, turn: str) -> None:
    source = LOOP.replace("nl.affine_range(n)", head)
    found = after(source, kind="queue", lines=[5], engines=[["sync", "scalar"]])
    engines = f"engine=(nisa.sync_engine, nisa.scalar_engine)[{turn}]"
    assert f"src=x[i], dge_mode=nisa.dge_mode.hwdge, {engines})" in found


def test_lines_that_take_turns_stand_in_loops_that_count() -> None:
    text = text_of(LOOP.replace("return out", "nisa.memset(tile, 0.0)"))
    assert lines_that_name(text, of_isa) == {5: True, 7: True, 8: True, 13: True, 14: False}


def test_what_goes_one_behind_takes_the_turn_before() -> None:
    text = rewritten(text_of(LOOP), change("ahead", tensors=[2], lines=[5, 7], before=8), of_isa)
    place = next(at for at, (line, _) in enumerate(text.lines, 1) if "tensor_tensor" in line)
    given = change("engine", lines=[place], engines=[["vector", "gpsimd"]])
    source = rewritten(text, given, of_isa).source
    assert "engine=(nisa.gpsimd_engine, nisa.vector_engine)[i % 2]" in source


def test_loops_with_a_start_and_a_step_go_ahead_too() -> None:
    source = LOOP.replace("nl.affine_range(n)", "range(first, n, P)")
    found = after(source, kind="ahead", tensors=[2], lines=[5, 7], before=8)
    assert "    for i in range(first, n + P, P):\n        if i > first:\n" in found
    assert "        if i < n:\n            # From memory.\n" in found
    assert "            i_before = i - P\n" in found


JOINED = """
    def kernel(x, out):
        for j in nl.affine_range(n // 64):
            columns = slice(j * 64, (j + 1) * 64)
            nisa.dma_copy(dst=tile[:, columns], src=x[rows, columns])
            nisa.dma_copy(dst=bias[j : j + 1], src=y[nl.ds(j + first, 1)])
            nisa.tensor_tensor(result[:, columns], tile[:, columns], bias, op=nl.add)
            nisa.dma_copy(dst=out[j], src=result[j])
"""


@pytest.mark.parametrize(
    ("line", "words", "place"),
    [
        (4, "nisa.dma_copy(dst=tile[:, 0:n // 64 * 64], src=x[rows, 0:n // 64 * 64])", 1),
        (5, "nisa.dma_copy(dst=bias[0:n // 64], src=y[first:n // 64 - 1 + first + 1])", 1),
        (7, "nisa.dma_copy(dst=out[0:n // 64], src=result[0:n // 64])", 6),
    ],
)
def test_transfers_of_a_loop_become_one_outside_of_it(line: int, words: str, place: int) -> None:
    lines = after(JOINED, kind="join", lines=[line]).splitlines()
    assert len(lines) == len(dedent(JOINED).strip().splitlines())
    assert lines[place] == f"    {words}"


def test_a_loop_of_one_transfer_goes_altogether() -> None:
    source = """
        def kernel(x):
            for start in range(0, 512, 128):
                nisa.dma_copy(dst=tile[:, start : start + 128], src=x[:, start : start + 128])
            return x
    """
    found = after(source, kind="join", lines=[3])
    (line,) = found.splitlines()[1:-1]
    assert line.startswith("    nisa.dma_copy(dst=tile[:, 0:")
    tile, x = list(range(512)), list(range(512))
    (place,) = {eval(each, {}) for each in re.findall(r"\[:, 0:([^\]]*)\]", line)}
    assert tile[:place] == x


COPIED = """
    def kernel(x):
        acc = nl.ndarray((128, 512), nl.float32, buffer=nl.psum)
        nisa.nc_matmul(acc, left, right)
        res = nl.ndarray((128, 512), nl.float32, buffer=nl.sbuf)
        nisa.tensor_copy(res, acc)
        nisa.activation(out, op=nl.exp, data=res)
        return out
"""


def test_the_source_of_a_copy_is_read_instead() -> None:
    found = after(COPIED, kind="direct", lines=[5, 6])
    assert found.splitlines()[3:] == [
        "    nisa.activation(out, op=nl.exp, data=acc)",
        "    return out",
    ]
    copy = "    nisa.tensor_copy"
    elsewhere = COPIED.replace(copy, f"    nisa.memset(res, 0.0)\n    {copy}")
    with pytest.raises(ByHandError, match="`res` is used elsewhere"):
        after(elsewhere, kind="direct", lines=[6, 7])


def test_what_makes_and_fills_at_once_is_hoisted_at_once() -> None:
    source = """
        def kernel(x, w):
            for i in range(0, n, P):
                weight = nl.load(w[0:128])
                nl.store(out[i : i + P], nl.multiply(nl.load(x[i : i + P]), weight))
    """
    found = after(source, kind="hoist", tensors=[3], lines=[3])
    assert found.splitlines()[1:3] == [
        "    weight = nl.load(w[0:128])",
        "    for i in range(0, n, P):",
    ]
    again = source.replace("nl.store", "weight = nl.exp(weight)\n                nl.store")
    with pytest.raises(ByHandError, match="`weight` is not filled in the loop"):
        after(again, kind="hoist", tensors=[3], lines=[3])


def test_fills_of_what_is_made_filled_go() -> None:
    source = """
        def kernel(x):
            acc = nl.zeros((128, 512), nl.float32, buffer=nl.psum)
            nisa.nc_matmul(acc, left, right)
    """
    found = after(source, kind="dead", lines=[2])
    assert "acc = nl.ndarray((128, 512), nl.float32, buffer=nl.psum)" in found


def test_files_indented_by_other_steps_keep_theirs() -> None:
    source = "\n".join(line.replace("    ", "\t") for line in dedent(LOOP).strip().splitlines())
    found = rewritten(
        KernelText.of(source, "kernel"),
        change("ahead", tensors=[2], lines=[5, 7], before=8),
        of_isa,
    ).source
    ast.parse(found)
    assert not [line for line in found.splitlines() if line.startswith(" ")]


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
            LOOP.replace("nl.affine_range(n)", "range(n, 2, -1)"),
            {"kind": "ahead", "lines": [5, 7], "before": 8},
            "does not count upwards",
        ),
        (
            LOOP.replace("op=nl.add,", "op=nl.add, **others,"),
            {"kind": "engine", "lines": [8], "engines": [["scalar"]]},
            "names its engine otherwise",
        ),
        (
            LOOP.replace("src=x[i])", "src=x[i], dge_mode=nisa.dge_mode.none)"),
            {"kind": "queue", "lines": [5], "engines": [["sync"]]},
            "names its engine otherwise",
        ),
        (LOOP, {"kind": "join", "lines": [7]}, "`weight` is of each iteration"),
        (LOOP, {"kind": "join", "lines": [8]}, "is no dma_copy alone"),
        (LOOP, {"kind": "direct", "lines": [8, 13]}, "is no tensor_copy alone"),
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
