"""Loops, registers, and what stands around them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import trn3.nki.isa as nisa
import trn3.nki.language as nl
from support.core import get, put, run
from trn3 import nki
from trn3.machine import SkippedValueError


@pytest.mark.parametrize("iterator", [nl.affine_range, nl.sequential_range, nl.static_range])
def test_static_ranges_iterate_like_range(iterator: Any) -> None:
    assert list(iterator(4)) == [0, 1, 2, 3]
    assert list(iterator(1, 8, 3)) == [1, 4, 7]
    assert list(iterator(2, 4, precise_schedule=True, directives=None)) == [2, 3]
    assert list(iterator(0)) == []
    with pytest.raises(TypeError, match=r"bound is VirtualRegister.*nl.dynamic_range"):
        iterator(nisa.VirtualRegister(3))
    assert nl.range is range


def test_static_ranges_are_slices_too() -> None:
    def kernel() -> Any:
        tile = put(np.arange(12, dtype=np.float32).reshape(2, 6))
        return tile[nl.affine_range(2), nl.affine_range(1, 6, 2)].get_pattern()

    assert run(kernel) == [[6, 2], [2, 3]]


def test_dynamic_range_yields_frozen_registers() -> None:
    def kernel() -> Any:
        seen = []
        for i in nl.dynamic_range(nisa.VirtualRegister(1), 8, 3):
            given: Any = i
            assert not isinstance(given, int)
            assert isinstance(given, nisa.VirtualRegister)
            assert i.frozen
            with pytest.raises(AssertionError):
                i.check_writable()
            seen.append(i)
        return [i.state for i in seen]

    assert run(kernel) == [1, 4, 7]
    assert run(lambda: list(nl.dynamic_range(0))) == []
    assert run(lambda: list(nl.dynamic_range(nisa.VirtualRegister(0)))) == []
    assert len(run(lambda: list(nl.dynamic_range(3, stop=5)))) == 2


def test_dynamic_range_reads_its_bounds_once() -> None:
    def kernel() -> int:
        bound, count = nisa.VirtualRegister(2), 0
        for _ in nl.dynamic_range(bound):
            bound.set(100)
            count += 1
        return count

    assert run(kernel) == 2


@pytest.mark.parametrize("step", [0, -1, 1.0, True, nisa.VirtualRegister(1)])
def test_dynamic_range_wants_a_known_step(step: Any) -> None:
    with pytest.raises(AssertionError, match="dynamic_range step is"):
        run(lambda: nl.dynamic_range(0, 4, step))


def test_dynamic_bounds_are_numbers_or_written_registers() -> None:
    wrong: Any = 2.5
    with pytest.raises(TypeError, match="dynamic_range stop is of type float"):
        run(lambda: nl.dynamic_range(wrong))
    with pytest.raises(RuntimeError, match=r"test_control.py:.*nothing was written to"):
        run(lambda: nl.dynamic_range(nisa.VirtualRegister()))

    def kernel() -> None:
        nl.dynamic_range(nisa.VirtualRegister())

    with pytest.raises(SkippedValueError, match="whose value this run skipped"):
        nki.profile(kernel, values=False)


def test_dynamic_slices_follow_the_register() -> None:
    def kernel() -> Any:
        source = put(np.arange(8, dtype=np.float32).reshape(1, 8))
        out = nl.zeros((1, 8), nl.float32)
        for i in nl.dynamic_range(0, 8, 2):
            nisa.tensor_copy(out[:, nl.ds(i, 2)], source[:, nl.ds(i, 2)])
        return get(out)

    assert run(kernel).tolist() == [list(range(8))]


def test_register_truth_follows_its_value() -> None:
    def kernel() -> int:
        register, count = nisa.VirtualRegister(3), 0
        while register:
            register.set((register.state or 0) - 1)
            count += 1
        return count

    assert run(kernel) == 3
    with pytest.raises(TypeError, match="register"):
        int(nisa.VirtualRegister(3))
    with pytest.raises(TypeError):
        range(nisa.VirtualRegister(3))  # type: ignore[call-overload]
    assert repr(nisa.VirtualRegister(3)) == "VirtualRegister(3)"


def test_fori_loop() -> None:
    seen: list[Any] = []

    def body(i: Any) -> None:
        seen.append(i.state)

    assert run(lambda: nl.fori_loop(2, nisa.VirtualRegister(7), body, step=2)) is None
    assert seen == [2, 4, 6]
    run(lambda: nl.fori_loop(3, 3, body))
    assert seen == [2, 4, 6]
    with pytest.raises(TypeError, match="fori_loop body returned int"):
        run(lambda: nl.fori_loop(0, 1, lambda _: 5))


def test_while_loop() -> None:
    seen: list[Any] = []

    def body(register: Any) -> Any:
        seen.append(register.state)
        return nisa.VirtualRegister(register.state - 1)

    run(lambda: nl.while_loop(nisa.VirtualRegister(3), body))
    assert seen == [3, 2, 1]
    run(lambda: nl.while_loop(nisa.VirtualRegister(0), body))
    assert seen == [3, 2, 1]
    wrong: Any = lambda _: 1  # noqa: E731
    with pytest.raises(TypeError, match="body returned is of type int; allowed: VirtualRegister"):
        run(lambda: nl.while_loop(nisa.VirtualRegister(1), wrong))
    bad: Any = 3
    with pytest.raises(TypeError, match="while_loop init is of type int"):
        run(lambda: nl.while_loop(bad, body))


def test_no_reorder_refuses_dynamic_loops() -> None:
    def kernel() -> Any:
        with nl.no_reorder():
            assert list(nl.affine_range(2)) == [0, 1]
            for loop in (
                lambda: nl.dynamic_range(2),
                lambda: nl.fori_loop(0, 2, lambda _: None),
                lambda: nl.while_loop(nisa.VirtualRegister(0), lambda r: r),
            ):
                with pytest.raises(
                    RuntimeError, match=r"test_control.py:\d+: .*inside nl.no_reorder"
                ):
                    loop()
        return [i.state for i in nl.dynamic_range(2)]

    assert run(kernel) == [0, 1]


def test_program_queries_refuse_unknown_axes() -> None:
    assert run(lambda: (nl.program_id(), nl.num_programs(), nl.num_programs(axes=None))) == (
        0,
        1,
        1,
    )
    assert nki.jit(lambda: nl.num_programs((0,)))[1]() == (1,)
    with pytest.raises(ValueError, match="axis is 1; the launch grid has 1 axes"):
        nki.jit(lambda: nl.program_id(axis=1))[1]()
    with pytest.raises(RuntimeError, match="no kernel runs"):
        nl.program_id(0)


def test_device_print(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NEURON_RT_DEBUG_OUTPUT_DIR", str(tmp_path))

    def kernel() -> None:
        for value in (1.0, 2.0):
            nl.device_print("tile:", nl.full((1, 2), value, nl.bfloat16))
        nl.device_print("register", nisa.VirtualRegister(5))

    run(kernel)
    text = capsys.readouterr().out
    assert "tile:" in text
    assert "[[2 2]]" in text
    assert "register VirtualRegister(5)" in text
    for i, value in enumerate((1.0, 2.0)):
        saved = np.load(tmp_path / "tile:" / "core_0" / str(i) / "tensor.npy")
        assert saved.tolist() == [[value, value]]


def test_device_print_takes_the_older_keyword(capsys: pytest.CaptureFixture[str]) -> None:
    run(lambda: nl.device_print(print_prefix="old", tensor=nisa.VirtualRegister(5)))
    assert capsys.readouterr().out == "old VirtualRegister(5)\n"
    with pytest.raises(TypeError, match="both of prefix and print_prefix"):
        run(lambda: nl.device_print("new", nisa.VirtualRegister(5), print_prefix="old"))
    with pytest.raises(TypeError, match="neither of prefix and print_prefix"):
        run(lambda: nl.device_print(tensor=nisa.VirtualRegister(5)))


def test_register_move_takes_the_older_keyword() -> None:
    register = nisa.VirtualRegister(0)
    run(lambda: nisa.register_move(register, imm=4))
    assert register.state == 4
    with pytest.raises(TypeError, match="both of src and imm"):
        run(lambda: nisa.register_move(register, 1, imm=4))
