"""What a latency rests on, and the bounds that follow from it."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from rich.console import Console

import trn3.nki.isa as nisa
import trn3.nki.language as nl
from support.profiles import by_hand
from trn3 import nki
from trn3.machine import arch
from trn3.profile import Profile

#: By how much the twin of the test slows a figure: little enough that the critical path stays.
STEP = 0.02


def streamed(rows: int, columns: int, loops: int, products: int) -> Any:
    """Return a kernel that loads, adds, takes exponents, multiplies and stores."""

    def kernel(x: Any) -> Any:
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        for _ in range(loops):
            tile = nl.ndarray((rows, columns), x.dtype, buffer=nl.sbuf)
            nisa.dma_copy(dst=tile, src=x)
            nisa.tensor_tensor(tile, tile, tile, op=nl.add)
            nisa.activation(tile, op=nl.exp, data=tile)
            for _ in range(products):
                total = nl.ndarray((min(columns, 128), columns), nl.float32, buffer=nl.psum)
                nisa.nc_matmul(total, tile[:, 0 : min(columns, 128)], tile)
            nisa.dma_copy(dst=out, src=tile)
        return out

    return kernel


def profile(kernel: Any, rows: int, columns: int, machine: Any) -> Profile:
    return nki.profile(kernel, np.ones((rows, columns), np.float32), arch=machine, values=False)[1]


@settings(max_examples=25, deadline=None)
@given(
    rows=st.sampled_from([1, 32, 128]),
    columns=st.sampled_from([16, 128, 512]),
    loops=st.integers(1, 4),
    products=st.integers(0, 2),
    machine=st.sampled_from(["trn1", "trn2", "trn3"]),
)
def test_a_slower_figure_costs_its_part(
    rows: int, columns: int, loops: int, products: int, machine: str
) -> None:
    """The same kernel on a machine with that figure changed is the oracle."""
    kernel, spec = streamed(rows, columns, loops, products), arch(machine)
    run = profile(kernel, rows, columns, spec)
    basis = run.latency_basis
    assert basis is not None
    parts = basis.documented_us + basis.measured_us + basis.estimated_us
    assert parts == pytest.approx(run.latency_us)
    assert min(basis.documented_us, basis.measured_us, basis.estimated_us) >= 0
    names = {share.constant for share in basis.constants}
    for share in basis.constants:
        entry = spec.entries[share.constant]
        assert 0 < share.us <= run.latency_us
        if entry.unit not in ("ns", "bytes/ns", "elements/cycle"):
            continue
        if share.constant == "dma_engine_bytes_per_ns" and "dma_row_floor_bytes" in names:
            # What a queue is held up for is the product of the two, which share it.
            continue
        is_span = entry.unit == "ns"
        value = entry.value * (1 + STEP) if is_span else entry.value / (1 + STEP)
        slower = profile(kernel, rows, columns, spec.replace(**{share.constant: value}))
        cost = slower.latency_us - run.latency_us
        assert cost == pytest.approx(STEP * share.us, abs=STEP * 0.1 * run.latency_us)


def test_bounds_lie_around_the_latency() -> None:
    run = profile(streamed(128, 512, 2, 1), 128, 512, "trn3")
    low, high = run.latency_low_us, run.latency_high_us
    assert low is not None
    assert high is not None
    assert low < run.latency_us < high
    assert low * high == pytest.approx(run.latency_us**2)
    figures = run.figures()
    assert (figures["latency_low_us"], figures["latency_high_us"]) == (low, high)
    assert {share["evidence"] for share in figures["latency_basis"]["constants"]} <= {
        "documented",
        "measured",
        "estimated",
    }


def test_what_rests_on_guesses_is_less_sure() -> None:
    """Trainium2's figures were read off profiles, those of Trainium3 are as Trainium2's."""
    kernel = streamed(128, 512, 2, 0)
    widths = []
    for machine in ("trn2", "trn3"):
        run = profile(kernel, 128, 512, machine)
        assert run.latency_high_us is not None
        widths.append(run.latency_high_us / run.latency_us)
    assert widths[0] < widths[1]


def test_files_keep_what_a_latency_rests_on(tmp_path: Path) -> None:
    run = profile(streamed(32, 128, 1, 1), 32, 128, "trn3")
    run.to_json(tmp_path / "profile.json")
    read = Profile.from_json(tmp_path / "profile.json")
    assert read.latency_basis == run.latency_basis
    assert read.latency_high_us == run.latency_high_us
    console = Console(file=io.StringIO(), width=100)
    console.print(read.summary())
    assert "of the latency rests on estimated figures" in console.file.getvalue()  # type: ignore[attr-defined]


def test_records_that_do_not_say_have_no_bounds() -> None:
    run = by_hand()
    assert run.latency_basis is None
    assert run.latency_low_us is None
    assert run.latency_high_us is None
