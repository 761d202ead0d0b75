"""``print``, ``breakpoint`` and ``device_print`` within kernels, on cores and ranks."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import trn3.nki.isa as nisa
import trn3.nki.language as nl
from trn3 import nki

X = np.arange(8, dtype=np.float32).reshape(2, 4)


def shown(x: Any, each: Any) -> Any:
    """Give `each` a tile that holds x plus the number of its core and, times ten, its rank."""
    tile = nl.ndarray(x.shape, nl.bfloat16, name="tile")
    nisa.dma_copy(tile, x)
    nisa.tensor_scalar(tile, tile, nl.add, float(nl.program_id(0)))
    each(tile)
    return x


@nki.jit
def printing(x: Any) -> Any:
    return shown(x, print)


@nki.jit
def device_printing(x: Any) -> Any:
    return shown(x, lambda tile: nl.device_print("tile", tile))


def test_print_shows_layout_and_values(capsys: pytest.CaptureFixture[str]) -> None:
    @nki.jit
    def kernel(x: Any) -> Any:
        tile = nl.ndarray(x.shape, nl.float32, name="tile")
        nisa.dma_copy(tile, x)
        print(tile[:, 1:3])  # noqa: T201
        return x

    kernel(X)
    text = capsys.readouterr().out
    for part in ("tile", "(2, 2)", "float32", "sbuf", "strides", "offset", "[[1. 2.]\n [5. 6.]]"):
        assert part in text


@pytest.mark.parametrize("lnc", [1, 2])
def test_print_works_on_cores(lnc: int, capsys: pytest.CaptureFixture[str]) -> None:
    printing[lnc](X)
    text = capsys.readouterr().out
    for core in range(lnc):
        assert str((X + core).astype(np.int64)).splitlines()[0].strip("[] ") in text
    assert text.count("tile") == lnc


@pytest.mark.parametrize("lnc", [1, 2])
def test_print_works_on_ranks(lnc: int, capsys: pytest.CaptureFixture[str]) -> None:
    nki.simulate_ranks(printing[lnc], [(X,), (X + 10,), (X + 20,)])
    text = capsys.readouterr().out
    assert text.count("tile") == 3 * lnc
    for rank in range(3):
        assert f"[[{10 * rank} " in text.replace("[[ ", "[[")


@pytest.mark.parametrize("lnc", [1, 2])
def test_breakpoint_stops_in_the_kernel(lnc: int, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []

    def hook() -> None:
        frame = sys._getframe(1)
        seen.append((frame.f_code.co_name, repr(frame.f_locals["tile"])))

    monkeypatch.setattr(sys, "breakpointhook", hook)

    @nki.jit
    def stopping(x: Any) -> Any:
        tile = nl.ndarray(x.shape, nl.float32, name="tile")
        nisa.dma_copy(tile, x)
        nisa.tensor_scalar(tile, tile, nl.add, float(nl.program_id(0)))
        breakpoint()  # noqa: T100
        return x

    stopping[lnc](X)
    assert [name for name, _ in seen] == ["stopping"] * lnc
    for core, (_, text) in enumerate(sorted(seen, key=lambda each: each[1])):
        assert f"[[{core}. {core + 1}." in text
    seen.clear()
    nki.simulate_ranks(stopping[lnc], [(X,), (X,)])
    assert len(seen) == 2 * lnc


def saved(folder: Path) -> dict[str, float]:
    files = sorted(folder.rglob("*.npy"))
    return {str(file.relative_to(folder).parent): float(np.load(file)[0, 0]) for file in files}


def test_files_of_cores_and_ranks_stay_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NEURON_RT_DEBUG_OUTPUT_DIR", str(tmp_path))
    nki.simulate_ranks(device_printing[2], [(X,), (X + 10,)])
    assert saved(tmp_path) == {
        "tile/core_0/0": 0.0,
        "tile/core_1/0": 1.0,
        "tile/core_2/0": 10.0,
        "tile/core_3/0": 11.0,
    }


def test_files_of_a_grid_are_counted_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NEURON_RT_DEBUG_OUTPUT_DIR", str(tmp_path))
    device_printing[3, 1](X)
    assert saved(tmp_path) == {f"tile/core_0/{i}": float(i) for i in range(3)}


@pytest.mark.parametrize("prefix", ["../outside", "/outside", "..", "a/b"])
def test_files_stay_in_their_folder(
    prefix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "dumps"
    monkeypatch.setenv("NEURON_RT_DEBUG_OUTPUT_DIR", str(folder))

    @nki.jit
    def kernel(x: Any) -> Any:
        return shown(x, lambda tile: nl.device_print(prefix, tile))

    kernel(X)
    (file,) = tmp_path.rglob("*.npy")
    assert file.is_relative_to(folder)
    assert len(file.relative_to(folder).parts) == 4


def test_printing_without_values_shows_no_values(capsys: pytest.CaptureFixture[str]) -> None:
    nki.profile(printing, X, values=False)
    nki.profile(device_printing, X, values=False)
    text = capsys.readouterr().out
    assert text.count("tile") == 3
    assert "[[" not in text
