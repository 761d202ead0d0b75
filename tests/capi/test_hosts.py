"""Simulators that embed the library: each host is built from its sources and run."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

import numpy as np
import pytest

from support.commands import ROOT, output
from trn3 import nki
from trn3.cli import kernel_file

HOSTS = ROOT / "rust" / "capi" / "hosts"
PROGRAM = HOSTS / "programs" / "matmul.json"

pytestmark = pytest.mark.timeout(1800)


def run(host: str, prefix: Path, build: Path, *words: str) -> str:
    """Build a host with its own Makefile and run it; return what it says."""
    paths = [f"PREFIX={prefix}", f"BUILD={build}"]
    return output(["make", "--no-print-directory", "-C", HOSTS / host, "run", *paths, *words])


def test_verilator_column_equals_the_golden_model(prefix: Path, tmp_path: Path) -> None:
    """A million random sums of each format, all special operands, and whole products."""
    if shutil.which("verilator") is None:
        pytest.skip("not installed: verilator")
    said = run("verilator", prefix, tmp_path)
    for name in ("bf16", "mxfp8"):
        (counts,) = re.findall(
            rf"^{name}: (\d+) sums checked, (\d+) differ; (\d+) products", said, re.MULTILINE
        )
        checked, differ, products_differ = map(int, counts)
        assert checked > 1_000_000
        assert differ == products_differ == 0


def test_verilator_bench_finds_a_wrong_column(prefix: Path, tmp_path: Path) -> None:
    """A column that truncates instead of rounding to even does not pass."""
    if shutil.which("verilator") is None:
        pytest.skip("not installed: verilator")
    sources = tmp_path / "verilator"
    shutil.copytree(HOSTS / "verilator", sources)
    element = sources / "trn3_pe.sv"
    right = "if (guard && (sticky || rounded[0]))"
    assert right in element.read_text()
    element.write_text(element.read_text().replace(right, "if (guard && sticky)"))
    with pytest.raises(AssertionError, match=r"bf16: \d+ sums checked, [1-9]\d* differ"):
        output(
            ["make", "-C", sources, "run", f"PREFIX={prefix}", f"BUILD={tmp_path}", "STEPS=1000"]
        )


def test_systemc_core_runs_a_product_at_every_quantum(prefix: Path, tmp_path: Path) -> None:
    """Values, times and interrupts do not depend on how far the host runs ahead."""
    if not Path("/usr/include/systemc").exists() and "SYSTEMC_HOME" not in os.environ:
        pytest.skip("not installed: SystemC")
    said = run("systemc", prefix, tmp_path)
    runs = re.findall(r"run (\d): (\d+) to (\d+) ps; interrupt seen at (\d+) ps", said)
    assert [tag for tag, *_ in runs] == ["7", "8"] * 4
    assert len(set(runs)) == 2
    assert all(end == seen for _, _, end, seen in runs)
    # What a kernel costs here and there is one figure; a device has no start and end of its own.
    module = kernel_file.import_file(HOSTS / "programs" / "matmul.py")
    _, profile = nki.profile(module.matmul, **module.inputs())
    assert {int(end) - int(start) for _, start, end, _ in runs} == {profile.data.latency_ps}


@pytest.mark.parametrize("host", ["astrasim", "sst", "gem5"])
def test_adapters_run_over_stubs(host: str, prefix: Path, tmp_path: Path) -> None:
    """Simulators that are not here: their adapters compile without a warning and drive a device."""
    said = output(
        ["make", "--no-print-directory", "-C", HOSTS, host, f"PREFIX={prefix}", f"BUILD={tmp_path}"]
    )
    assert said.splitlines()[-1] == "ok"


def test_the_program_of_the_hosts_is_its_kernel(tmp_path: Path) -> None:
    module = kernel_file.import_file(HOSTS / "programs" / "matmul.py")
    arguments = module.inputs()
    program = nki.record(module.matmul, **arguments)
    program.save(tmp_path / "matmul.json")
    assert (tmp_path / "matmul.json").read_text() == PROGRAM.read_text()
    golden = arguments["lhsT"].astype(np.float64).T @ arguments["rhs"].astype(np.float64)
    np.testing.assert_allclose(module.matmul(**arguments), golden, rtol=1e-5, atol=1e-4)
