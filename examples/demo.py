"""The main job: quantize the weights of a real model, check the files, measure the effect.

Runs what a user would type, ``trn3 quantize``, on all-MiniLM-L6-v2; reads the outputs back and
compares them, bit for bit, with quantizing the weights directly; then runs `minilm.py`, the model
itself, and `minilm_layer.py`, one layer of it as NKI kernels on a simulated NeuronCore. The files
stay in ``build/demo``. Last, ``trn3 plan`` says what a model of 120 billion parameters takes on an
UltraServer, and `jax_step.py` trains a small decoder for a step, where JAX is there. Needs what
`minilm.py` needs; ``make demo`` installs it.
"""

from __future__ import annotations

import sys
import time
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file

import minilm
import minilm_layer
import trn3
from trn3.__main__ import main as trn3_command
from trn3.numerics import MXArray, quantize_mx

EXAMPLES = Path(__file__).resolve().parent
OUTPUT = EXAMPLES.parent / "build" / "demo"
FORMATS = ("mxfp8-e4m3", "mxfp4-e2m1")
PLAN = ["plan", "gpt-oss-120b", "--system", "gen2", "--in", "10000", "--out", "3000"]


def same_bits(left: np.ndarray, right: np.ndarray) -> bool:
    """Whether two arrays agree in dtype, shape and every bit."""
    return (
        left.dtype == right.dtype
        and left.shape == right.shape
        and np.array_equal(
            np.ascontiguousarray(left).view(np.uint8), np.ascontiguousarray(right).view(np.uint8)
        )
    )


def check(path: Path, weights: dict[str, np.ndarray]) -> tuple[int, int]:
    """Compare a written file with the weights; return how many tensors were MX and how many not."""
    num_quantized = 0
    with trn3.load_mx(path) as tensors:
        assert set(tensors) == set(weights)
        for name, tensor in tensors.items():
            if isinstance(tensor, MXArray):
                direct = quantize_mx(weights[name], tensor.dtype)
                assert same_bits(tensor.elements, direct.elements), name
                assert same_bits(tensor.scales, direct.scales), name
                num_quantized += 1
            else:
                assert same_bits(tensor, weights[name]), name
        return num_quantized, len(tensors) - num_quantized


def main() -> int:
    """Run the six steps and print a summary; return the exit code."""
    started = time.perf_counter()
    source = minilm.model_directory() / "model.safetensors"
    OUTPUT.mkdir(parents=True, exist_ok=True)
    outputs = [OUTPUT / f"minilm.{name}.safetensors" for name in FORMATS]

    arguments = ["quantize", str(source), "--out", str(OUTPUT / "minilm.safetensors"), "--force"]
    for name in FORMATS:
        arguments += ["--to", name]
    print("$ trn3 quantize model.safetensors", *arguments[4:], "--out minilm.safetensors\n")
    if code := trn3_command(arguments):
        return code

    weights = load_file(source)
    print()
    ((num_quantized, num_kept),) = {check(path, weights) for path in outputs}
    minilm.main()
    print()
    minilm_layer.main()

    print("\nSummary")
    original = source.stat().st_size
    print(f"  model.safetensors               {original / 1e6:6.1f} MB  float32")
    for path in outputs:
        size = path.stat().st_size
        print(f"  {path.name:<31} {size / 1e6:6.1f} MB  {original / size:.2f} times smaller")
    print(
        f"  read back, each: {num_quantized} matrices as quantized directly, every bit; "
        f"{num_kept} other tensors unchanged"
    )
    print(
        f"  in {OUTPUT.relative_to(EXAMPLES.parent)}; {time.perf_counter() - started:.1f} s in all"
    )
    print("\n$ trn3", *PLAN, "\n")
    if code := trn3_command(PLAN):
        return code
    print()
    if find_spec("jax") is None:
        print("a step of JAX is left out: pip install 'trn3[jax]'")
        return 0
    import jax_step

    jax_step.main()
    return 0


if __name__ == "__main__":
    sys.exit(main())
