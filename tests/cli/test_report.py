"""What the command tells: statistics against exact arithmetic, tables, JSON, the plot, info."""

from __future__ import annotations

import json
import math
import os
import pty
import re
import struct
import subprocess
import sys
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, strategies as st

import trn3
from support import checkpoints
from trn3.checkpoint.outcomes import ScaleRule
from trn3.checkpoint.statistics import HISTOGRAM_BINS, HISTOGRAM_LIMIT, ErrorStatistics
from trn3.numerics import quantize_mx
from trn3.text import printable, size

Run = Callable[..., Any]
LARGEST = {"float8_e4m3fn": 448, "float8_e5m2": 57344, "float4_e2m1fn": 6}
DTYPES = [ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2, ml_dtypes.float4_e2m1fn]


@given(
    st.sampled_from(DTYPES),
    st.sampled_from(["trn3", "ocp", "rceil"]),
    st.integers(0, 2**32 - 1),
    st.sampled_from([-1, 0]),
)
def test_statistics_against_fractions(dtype: Any, rule: ScaleRule, seed: int, axis: int) -> None:
    """Each sum is formed value by value in exact arithmetic, from the definitions alone."""
    rng = np.random.default_rng(seed)
    x = (rng.standard_normal((32, 32)) * 2.0 ** rng.integers(-30, 9, (32, 32))).astype(np.float32)
    x[rng.random((32, 32)) < 0.1] = 0
    quantized = quantize_mx(x, dtype, axis=axis, scale_rule=rule)
    largest = LARGEST[np.dtype(dtype).name]
    statistics = ErrorStatistics()
    statistics.update(x, quantized, largest=float(largest), with_histogram=True)

    signal = noise = worst = Fraction(0)
    saturated = flushed = 0
    for (i, j), value in np.ndenumerate(x):
        scale = Fraction(float(quantized.scales[(i, 0) if axis == -1 else (0, j)]))
        exact, found = Fraction(float(value)), Fraction(float(quantized.elements[i, j])) * scale
        signal += exact**2
        noise += (exact - found) ** 2
        saturated += abs(exact) > largest * scale
        if exact and not found:
            flushed += 1
        elif exact:
            worst = max(worst, abs(exact - found) / abs(exact))
    assert statistics.num_values == 1024
    assert statistics.num_saturated == saturated
    assert statistics.num_flushed == flushed
    assert statistics.signal == pytest.approx(float(signal), rel=1e-13)
    assert statistics.noise == pytest.approx(float(noise), rel=1e-13)
    assert statistics.max_relative_error == pytest.approx(float(worst), rel=1e-14)
    assert statistics.sqnr_db == pytest.approx(10 * math.log10(signal / noise), rel=1e-12)
    assert statistics.histogram is not None
    assert statistics.histogram.sum() == 1024


def test_statistics_of_what_is_exact() -> None:
    x = np.full((2, 32), 0.5, np.float32)
    statistics = ErrorStatistics()
    assert math.isnan(statistics.sqnr_db)
    statistics.update(x, quantize_mx(x, ml_dtypes.float8_e4m3fn), largest=448.0)
    assert statistics.sqnr_db == math.inf
    assert statistics.max_relative_error == 0


def test_nonfinite_blocks_count_nowhere_else() -> None:
    rng = np.random.default_rng(1)
    x = rng.standard_normal((4, 64)).astype(np.float32)
    poisoned = x.copy()
    poisoned[0, 0], poisoned[3, 63] = np.nan, np.inf
    clean, mixed = ErrorStatistics(), ErrorStatistics()
    kept = np.concatenate([x[0, 32:], x[1], x[2], x[3, :32]])
    clean.update(kept, quantize_mx(kept, ml_dtypes.float4_e2m1fn), largest=6.0)
    mixed.update(poisoned, quantize_mx(poisoned, ml_dtypes.float4_e2m1fn), largest=6.0)
    assert (mixed.num_values, mixed.num_nonfinite) == (256, 64)
    assert (mixed.num_saturated, mixed.num_flushed) == (clean.num_saturated, clean.num_flushed)
    assert mixed.noise == pytest.approx(clean.noise, rel=1e-13)
    assert mixed.max_relative_error == clean.max_relative_error
    only = ErrorStatistics()
    only.update(poisoned[:1, :32], quantize_mx(poisoned[:1, :32], DTYPES[0]), largest=448.0)
    assert math.isnan(only.sqnr_db)


def test_largest_inputs_do_not_overflow_the_sums() -> None:
    x = np.full((1, 32), np.finfo(np.float32).max, np.float32)
    x[0, ::3] /= 3
    statistics = ErrorStatistics()
    statistics.update(x, quantize_mx(x, ml_dtypes.float8_e5m2), largest=57344.0)
    assert 5 < statistics.sqnr_db < 60


def test_merge_adds_up() -> None:
    rng = np.random.default_rng(2)
    x = rng.standard_normal((8, 32)).astype(np.float32)
    whole, first, second = ErrorStatistics(), ErrorStatistics(), ErrorStatistics()
    for statistics, part in ((whole, x), (first, x[:3]), (second, x[3:])):
        quantized = quantize_mx(part, ml_dtypes.float4_e2m1fn)
        statistics.update(part, quantized, largest=6.0, with_histogram=True)
    first.merge(second)
    assert first.num_values == whole.num_values
    assert first.num_saturated == whole.num_saturated
    assert first.noise == pytest.approx(whole.noise, rel=1e-13)
    assert first.max_relative_error == whole.max_relative_error
    np.testing.assert_array_equal(first.histogram, whole.histogram)


def test_histogram_places_errors() -> None:
    """Next to 4, scale 1, 2.5 becomes 2: half a unit down, an eighth of the block's largest."""
    x = np.zeros((1, 32), np.float32)
    x[0, :2] = 4, 2.5
    statistics = ErrorStatistics()
    quantized = quantize_mx(x, ml_dtypes.float4_e2m1fn)
    assert quantized.dequantize()[0, :2].tolist() == [4, 2]
    statistics.update(x, quantized, largest=6.0, with_histogram=True)
    assert statistics.histogram is not None
    middle = HISTOGRAM_BINS // 2
    place = middle + round(-0.125 / (2 * HISTOGRAM_LIMIT) * (HISTOGRAM_BINS - 1))
    assert statistics.histogram[place] == 1
    assert statistics.histogram[middle] == 31


def test_json(run: Run, model: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.st"
    both = ["--to", "mxfp8-e4m3", "--to", "mxfp4-e2m1"]
    outcome = run("quantize", model, *both, "--out", out, "--json")
    assert (outcome.code, outcome.stderr) == (0, "")
    document = json.loads(outcome.stdout)
    assert set(document) == {
        "trn3_version",
        "source",
        "source_bytes",
        "seconds",
        "axis",
        "rounding",
        "seed",
        "passed_through",
        "outputs",
    }
    assert document["trn3_version"] == trn3.__version__
    assert document["source"] == str(model)
    assert document["source_bytes"] == model.stat().st_size
    assert (document["axis"], document["rounding"], document["seed"]) == (-1, "nearest", None)
    reasons = {found["name"]: found["reason"] for found in document["passed_through"]}
    assert reasons == {
        "layer.0.bias": "not a matrix (1-d)",
        "odd.weight": "axis -1 is 33 long, no multiple of 32",
        "double.weight": "dtype F64 (only F32, BF16, F16 are quantized)",
        "ids": "dtype I64 (only F32, BF16, F16 are quantized)",
        "step": "not a matrix (0-d)",
        "empty": "empty",
        "flags": "not a matrix (1-d)",
    }
    assert [o["format"] for o in document["outputs"]] == ["mxfp8-e4m3", "mxfp4-e2m1"]
    for output, bits, rule in zip(document["outputs"], (8.25, 4.25), ("trn3", "ocp"), strict=True):
        path = tmp_path / f"out.{output['format']}.st"
        assert output["path"] == str(path)
        assert output["bytes"] == path.stat().st_size
        assert output["scale_rule"] == rule
        assert [tensor["name"] for tensor in output["tensors"]] == list(checkpoints.MATRICES)
        for tensor in (*output["tensors"], output["total"]):
            assert set(tensor) == {
                "name",
                "shape",
                "source_dtype",
                "source_bytes",
                "stored_bytes",
                "num_values",
                "bits_per_value",
                "sqnr_db",
                "max_relative_error",
                "saturated",
                "flushed",
                "nonfinite",
                "seconds",
            }
            assert tensor["bits_per_value"] == bits
            assert tensor["seconds"] > 0
        total = output["total"]
        assert total["num_values"] == 48 * 64 + 32 * 96 + 3 * 5 * 32
        for key in ("source_bytes", "stored_bytes", "saturated", "flushed"):
            assert total[key] == sum(tensor[key] for tensor in output["tensors"])
        assert total["max_relative_error"] == max(
            tensor["max_relative_error"] for tensor in output["tensors"]
        )


def test_json_says_null_for_an_exact_tensor(run: Run, tmp_path: Path) -> None:
    model = checkpoints.write(tmp_path / "m", {"w": np.ones((1, 32), np.float32)})
    outcome = run("quantize", model, "--to", "mxfp8-e4m3", "--out", tmp_path / "o", "--json")
    assert json.loads(outcome.stdout)["outputs"][0]["total"]["sqnr_db"] is None


def test_table(run: Run, model: Path, tmp_path: Path) -> None:
    """In a pipe every row stands on a line of its own, however long."""
    out = tmp_path / "out"
    outcome = run("quantize", model, "--to", "mxfp4-e2m1", "--out", out)
    assert (outcome.code, outcome.stderr) == (0, "")
    lines = outcome.stdout.splitlines()
    assert lines[0].rstrip() == "mxfp4-e2m1, 4.25 bits per value, scale rule ocp"
    (row,) = [line.split() for line in lines if line.startswith("embed.weight")]
    assert row[1:4] == ["48x64", "mxfp4-e2m1", "4.25"]
    assert len(row) == 11
    (total,) = [line.split() for line in lines if line.startswith("3 matrices")]
    assert total[3:6] == ["6,624", "mxfp4-e2m1", "4.25"]
    text = outcome.stdout
    for heading in ("SQNR", "dB", "max", "saturated", "flushed", "time", "ms", "GB/s"):
        assert heading in text
    assert "axis -1 is 33 long, no multiple of 32" in text
    assert f"{out}: {size(out.stat().st_size)}" in text
    assert "NaN or an infinity" not in text


def test_table_mentions_poisoned_blocks(run: Run, tmp_path: Path) -> None:
    x = np.ones((2, 32), np.float32)
    x[0, 0] = np.nan
    model = checkpoints.write(tmp_path / "m", {"w": x})
    outcome = run("quantize", model, "--to", "mxfp8-e4m3", "--out", tmp_path / "o")
    assert "32 values stand in blocks with a NaN or an infinity" in outcome.stdout


@pytest.mark.parametrize("columns", [80, 132])
def test_table_fits_a_terminal(model: Path, tmp_path: Path, columns: int) -> None:
    """On a narrow terminal columns that the title repeats give way; no line is longer than it."""
    primary, secondary = pty.openpty()
    environment = {**os.environ, "COLUMNS": str(columns), "TERM": "xterm"}
    words = [sys.executable, "-m", "trn3", "quantize", str(model), "--to", "mxfp4-e2m1"]
    with subprocess.Popen(
        [*words, "--out", str(tmp_path / "o")], stdout=secondary, env=environment
    ) as running:
        os.close(secondary)
        raw = b""
        while True:
            try:
                part = os.read(primary, 65536)
            except OSError:  # Linux says EIO once the other end is closed
                break
            if not part:
                break
            raw += part
    os.close(primary)
    assert running.returncode == 0
    lines = re.sub(r"\x1b\[[0-9;]*m|\r", "", raw.decode()).splitlines()
    assert max(map(len, lines)) <= max(columns, len(str(tmp_path)) + 60)
    (row,) = [line for line in lines if line.startswith("embed.weight")]
    assert len(row) <= columns
    assert ("mxfp4-e2m1" in row) is (columns == 132)


def test_plot(run: Run, model: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="the extra `plot` is not installed")
    plot = tmp_path / "errors.png"
    both = ["--to", "mxfp8-e4m3", "--to", "mxfp4-e2m1"]
    command = ["quantize", model, *both, "--out", tmp_path / "o", "--plot", plot]
    assert run(*command).code == 0
    raw = plot.read_bytes()
    assert raw.startswith(b"\x89PNG")
    assert struct.unpack(">II", raw[16:24]) == (1200, 750)
    outcome = run(*command)
    assert outcome.code == 2
    assert "exists; --force replaces it" in outcome.stderr
    assert len(list(tmp_path.iterdir())) == 4


def test_info(run: Run) -> None:
    outcome = run("info")
    assert (outcome.code, outcome.stderr) == (0, "")
    found = dict(line.rstrip().split("  ", 1) for line in outcome.stdout.splitlines())
    assert found["trn3"].strip() == trn3.__version__
    assert found["SIMD level"].strip() == trn3.simd_level()
    assert found["threads"].strip() == str(trn3.get_num_threads())
    assert found["numpy"].strip() == np.__version__
    assert len(outcome.stdout.splitlines()) <= 24


def test_help(run: Run) -> None:
    outcome = run("quantize", "--help")
    assert outcome.code == 0
    for option in ("--to", "--out", "--scale-rule", "--axis", "--include", "--json", "--plot"):
        assert option in outcome.stdout
    assert "[out, in]" in outcome.stdout


def test_no_arguments_show_the_commands(run: Run) -> None:
    outcome = run()
    assert (outcome.code, outcome.stderr) == (0, "")
    assert "quantize" in outcome.stdout
    assert "info" in outcome.stdout


@pytest.mark.parametrize(
    ("text", "shown"),
    [("plain.weight", "plain.weight"), ("a\nb\x1b[1m", r"a\nb\x1b[1m"), ("重み", "重み")],
)
def test_printable(text: str, shown: str) -> None:
    assert printable(text) == shown


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0, "0 bytes"),
        (1000, "1.0 kB"),
        (999_949, "999.9 kB"),
        (999_950, "1.0 MB"),
        (5 * 10**12, "5.0 TB"),
        (5 * 10**15, "5000.0 TB"),
    ],
)
def test_size(number: int, text: str) -> None:
    assert size(number) == text
