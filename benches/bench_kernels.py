"""Kernels on the simulated NeuronCore: what the machine adds to the arithmetic that it calls.

Kernels with values stand beside the bare calls of `trn3.numerics` that do the same arithmetic: the
whole rest (views, checks, hazards, timeline) is what is measured. Rates of instructions stand
beside a fixed pace, their goal. SCALE-Sim 3, the best known simulator of systolic arrays in Python,
gets the same product on an array of the same size; it is measured where it is installed
(``pip install 'trn3[scalesim]'``) and gives cycles only, so our side keeps time only too.
"""

from __future__ import annotations

import contextlib
import importlib.util
import io
import warnings
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from comparison import Comparison, Normal, Rival, Work, limit, pace
from trn3 import nki, numerics
from trn3.cli import kernel_file
from trn3.nki import isa as nisa, language as nl

KERNELS = Path(__file__).resolve().parents[1] / "examples" / "kernels"
ALONE = pytest.mark.parametrize("threads", [1], ids=["1-thread"], indirect=True)


def module(name: str) -> ModuleType:
    """Return an example's module."""
    return kernel_file.import_file(KERNELS / f"{name}.py")


def timed(kernel: nki.Kernel, arguments: dict[str, Any]) -> int:
    """Run a kernel for its time alone; return how many instructions that took."""
    _, profile = nki.profile(kernel, values=False, **arguments)
    return len(profile.data.instructions)


@ALONE
def bench_kernel_matmul_with_values(compare: Comparison, quick: bool) -> None:
    size = 512 if quick else 4096
    matmul = module("matmul")
    arguments = matmul.inputs(M=size, K=size, N=size)
    left = np.ascontiguousarray(arguments["lhsT"].T)
    compare(
        f"kernel: blocked matmul bf16 with values and time, {size}^3",
        lambda: nki.profile(matmul.balanced, **arguments),
        [Rival("numerics.matmul", lambda: numerics.matmul(left, arguments["rhs"]), goal=0.5)],
        Work(2e-9 * size**3, "GFLOP/s", "fma"),
    )


@ALONE
@pytest.mark.parametrize("step", ["tiled", "balanced"])
def bench_kernel_matmul_timing_only(compare: Comparison, step: str, quick: bool) -> None:
    size = 512 if quick else 4096
    matmul = module("matmul")
    arguments = matmul.inputs(M=size, K=size, N=size)
    kernel = getattr(matmul, step)
    count = timed(kernel, arguments)
    compare(
        f"kernel: {step} matmul, timing only, {size}^3",
        lambda: timed(kernel, arguments),
        [pace(count, 150_000)],
        Work(count, "instructions/s"),
    )


@nki.jit
def one_element(x: Any, count: int) -> Any:
    """Copy one element over and over."""
    out = nl.ndarray((1, 1), nl.float32, buffer=nl.shared_hbm)
    source = nl.ndarray((1, 1), nl.float32, buffer=nl.sbuf)
    target = nl.ndarray((1, 1), nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=source, src=x)
    for _ in range(count):
        nisa.tensor_copy(target, source)
    nisa.dma_copy(dst=out, src=target)
    return out


@ALONE
@pytest.mark.parametrize("values", [True, False], ids=["values", "timing-only"])
def bench_kernel_one_element(compare: Comparison, values: bool, quick: bool) -> None:
    count = 100 if quick else 20_000
    x = np.ones((1, 1), np.float32)
    what = "with values and time" if values else "timing only"
    compare(
        f"kernel: instruction of one element, {what}",
        lambda: nki.profile(one_element, x, count, values=values),
        [pace(count, 200_000 if values else 150_000)],
        Work(count, "instructions/s"),
    )


@nki.jit
def nothing(x: Any) -> Any:
    """Do nothing: what is left is the launch."""
    return x


# What a launch of an empty kernel may take, and one on many simulated ranks.
SECONDS_OF_A_LAUNCH, RANKS, SECONDS_OF_RANKS = 40e-6, 64, 5e-3


@ALONE
def bench_kernel_launch(compare: Comparison, quick: bool) -> None:
    count = 2 if quick else 50
    x = np.ones((128, 8), np.float32)

    def launches() -> None:
        for _ in range(count):
            nothing(x)

    compare(
        "kernel: launch",
        launches,
        [limit(SECONDS_OF_A_LAUNCH * count, f"{SECONDS_OF_A_LAUNCH * 1e6:.0f} us each")],
        Work(count, "launches/s"),
    )


@ALONE
def bench_kernel_launch_on_many_ranks(compare: Comparison, quick: bool) -> None:
    ranks = 2 if quick else RANKS
    launch = nki.spmd(nothing, ranks)
    given = [(np.ones((128, 8), np.float32),)] * ranks
    compare(
        f"kernel: launch on {ranks} ranks",
        lambda: launch(given),
        [limit(SECONDS_OF_RANKS, f"{SECONDS_OF_RANKS * 1e3:.0f} ms")],
        Work(ranks, "ranks/s"),
    )


@ALONE
def bench_kernel_launch_on_two_cores(compare: Comparison, quick: bool) -> None:
    count = 2 if quick else 50
    x = np.ones((1, 1), np.float32)

    def launches(kernel: nki.Kernel) -> None:
        for _ in range(count):
            kernel(x)

    compare(
        "kernel: launch of kernel[2]",
        lambda: launches(nothing[2]),
        [Rival("launch on one core", lambda: launches(nothing), goal=0.5)],
        Work(count, "launches/s"),
    )


@nki.jit
def tile_matmuls(left: Any, right: Any, count: int) -> Any:
    """Multiply one pair of tiles over and over."""
    out = nl.ndarray((128, 512), nl.float32, buffer=nl.shared_hbm)
    stationary = nl.ndarray((128, 128), nl.bfloat16, buffer=nl.sbuf)
    moving = nl.ndarray((128, 512), nl.bfloat16, buffer=nl.sbuf)
    product = nl.ndarray((128, 512), nl.float32, buffer=nl.psum)
    result = nl.ndarray((128, 512), nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=stationary, src=left)
    nisa.dma_copy(dst=moving, src=right)
    for _ in range(count):
        nisa.nc_matmul(product, stationary, moving, accumulate=False)
    nisa.tensor_copy(result, product)
    nisa.dma_copy(dst=out, src=result)
    return out


@ALONE
def bench_kernel_tile_matmul(compare: Comparison, normal: Normal, quick: bool) -> None:
    count = 4 if quick else 400
    left, right = (normal(128, n).astype(ml_dtypes.bfloat16) for n in (128, 512))
    turned, out = np.ascontiguousarray(left.T), np.empty((128, 512), np.float32)

    def bare() -> None:
        for _ in range(count):
            numerics.matmul(turned, right, out=out)

    compare(
        "kernel: nc_matmul of [128, 128] and [128, 512] bf16, with values and time",
        lambda: nki.profile(tile_matmuls, left, right, count),
        [Rival("numerics.matmul", bare, goal=1 / 1.5)],
        Work(2e-9 * 128 * 128 * 512 * count, "GFLOP/s", "fma"),
    )


@ALONE
@pytest.mark.parametrize("values", [True, False], ids=["values", "timing-only"])
@pytest.mark.parametrize("direction", ["forward", "backward"])
def bench_kernel_flash_attention(
    compare: Comparison, direction: str, values: bool, quick: bool
) -> None:
    tokens = 256 if quick else 4096
    attention = module("flash_attention")
    make: Callable[..., dict[str, Any]] = getattr(attention, f"{direction}_inputs")
    kernel, arguments = getattr(attention, direction), make(tokens=tokens, size=128)
    count = timed(kernel, arguments)
    what = "with values and time" if values else "timing only"
    compare(
        f"kernel: flash attention {direction}, {tokens} tokens of 128, {what}",
        lambda: nki.profile(kernel, values=values, **arguments),
        [] if values else [pace(count, 150_000)],
        Work(count, "instructions/s"),
    )


@nki.jit
def heads(q: Any, k: Any, v: Any) -> Any:
    """Causal attention of many heads: the example's kernel, one head after the other."""
    forward = module("flash_attention").forward
    return [forward(q[head], k[head], v[head])[0] for head in range(q.shape[0])]


def head_inputs(count: int, tokens: int, size: int = 128) -> dict[str, Any]:
    """Return q and k [heads, size, tokens] and v [heads, tokens, size]."""
    rng = np.random.default_rng(20251202)
    shapes = {"q": (size, tokens), "k": (size, tokens), "v": (tokens, size)}
    return {
        name: rng.standard_normal((count, *shape), dtype=np.float32).astype(ml_dtypes.bfloat16)
        for name, shape in shapes.items()
    }


def numpy_attention(q: Any, k: Any, v: Any, block: int = 1024) -> None:
    """Do in float32 what :func:`heads` does, the keys after a block of queries left out."""
    for head in range(q.shape[0]):
        for start in range(0, q.shape[2], block):
            end = min(start + block, q.shape[2])
            weights = q[head, :, start:end].T @ k[head, :, :end]
            weights *= q.shape[1] ** -0.5
            weights[:, start:][np.triu_indices(end - start, 1)] = -np.inf
            weights -= weights.max(axis=1, keepdims=True)
            np.exp(weights, out=weights)
            total = weights.sum(axis=1, keepdims=True)
            (weights @ v[head, :end]) / total


# What a kernel of 100,000 instructions may take, with values and for its time alone; and what the
# one below is to take, from the call of the kernel to its result.
SECONDS_WITH_VALUES, SECONDS_TIMING_ONLY = 60.0, 3.0
BUDGET_WITH_VALUES, BUDGET_TIMING_ONLY, BUDGET_INSTRUCTIONS = 5.0, 0.5, 119_328


@pytest.mark.parametrize("threads", [2], ids=["2-threads"], indirect=True)
@pytest.mark.parametrize("values", [True, False], ids=["values", "timing-only"])
def bench_kernel_many_heads(
    compare: Comparison, values: bool, torch: ModuleType | None, quick: bool
) -> None:
    arguments = head_inputs(1, 256) if quick else head_inputs(12, 8192)
    count = timed(heads, arguments)
    assert quick or count >= 100_000
    allowed = (SECONDS_WITH_VALUES if values else SECONDS_TIMING_ONLY) * count / 100_000
    budget = BUDGET_WITH_VALUES if values else BUDGET_TIMING_ONLY
    rivals = [
        limit(allowed, f"{allowed:.1f} s"),
        limit(
            budget * count / BUDGET_INSTRUCTIONS,
            f"a budget of {budget:g} s for {BUDGET_INSTRUCTIONS:,} instructions",
        ),
    ]
    single = {name: array.astype(np.float32) for name, array in arguments.items()}
    if values:
        rivals.append(Rival("NumPy float32", lambda: numpy_attention(**single)))
    if values and torch is not None:
        q, k, v = (torch.from_numpy(array).bfloat16() for array in single.values())
        q, k = q.mT.contiguous(), k.mT.contiguous()
        attention = torch.nn.functional.scaled_dot_product_attention
        rivals.append(Rival("torch bf16", lambda: attention(q, k, v, is_causal=True)))
    what = "with values and time" if values else "timing only"
    shape = arguments["v"].shape
    compare(
        f"kernel: flash attention of {shape[0]} heads, {shape[1]} tokens of 128, {what}",
        lambda: nki.profile(heads, values=values, **arguments),
        rivals,
        Work(count, "instructions/s"),
    )


# What a causal attention of four heads over a prompt of 16,384 tokens may take for its time alone,
# and a million instructions of any library's kernel, front end included.
SECONDS_OF_A_PROMPT, SECONDS_OF_A_MILLION = 20.0, 8.0


@ALONE
def bench_kernel_prompt_timing_only(compare: Comparison, quick: bool) -> None:
    arguments = head_inputs(1, 512) if quick else head_inputs(4, 16_384)
    count = timed(heads, arguments)
    compare(
        f"kernel: causal attention of {arguments['v'].shape[0]} heads, a long prompt, timing only",
        lambda: nki.profile(heads, values=False, **arguments),
        [
            limit(SECONDS_OF_A_PROMPT, f"{SECONDS_OF_A_PROMPT:.0f} s"),
            limit(SECONDS_OF_A_MILLION * count / 1e6, f"{SECONDS_OF_A_MILLION:.0f} s a million"),
        ],
        Work(count, "instructions/s"),
    )


# An array of 128 x 128 that keeps its weights, memories of the size of SBUF.
SCALESIM_CONFIGURATION = """\
[general]
run_name = gemm
[architecture_presets]
ArrayHeight: 128
ArrayWidth: 128
IfmapSramSzkB: 12288
FilterSramSzkB: 12288
OfmapSramSzkB: 2048
IfmapOffset: 0
FilterOffset: 10000000
OfmapOffset: 20000000
Dataflow: ws
Bandwidth: 10
ReadRequestBuffer: 64
WriteRequestBuffer: 64
[layout]
IfmapCustomLayout: False
IfmapSRAMBankBandwidth: 10
IfmapSRAMBankNum: 10
IfmapSRAMBankPort: 2
FilterCustomLayout: False
FilterSRAMBankBandwidth: 10
FilterSRAMBankNum: 10
FilterSRAMBankPort: 2
[sparsity]
SparsitySupport: false
[run_presets]
InterfaceBandwidth: CALC
UseRamulatorTrace: False
"""


def run_scalesim(folder: Path, size: int) -> None:
    """Simulate a product of `size`^3 with SCALE-Sim, without traces."""
    from scalesim.memory import double_buffered_scratchpad_mem
    from scalesim.scale_sim import scalesim

    # Version 3.0.0 turns an array of one element into an int, which NumPy 2.4 refuses.
    double_buffered_scratchpad_mem.max = lambda *values: np.asarray(max(*values)).item()
    files = {
        "config": ("scale.cfg", SCALESIM_CONFIGURATION),
        "topology": ("gemm.csv", f"Layer,M,N,K,\ngemm,{size},{size},{size},\n"),
        "layout": ("layout.csv", "Layer,\n"),
    }
    for name, text in files.values():
        (folder / name).write_text(text)
    paths = {key: str(folder / name) for key, (name, _) in files.items()}
    silence = io.StringIO()
    with (
        warnings.catch_warnings(action="ignore", category=ResourceWarning),  # it leaves files open
        contextlib.redirect_stdout(silence),
        contextlib.redirect_stderr(silence),
    ):
        simulator = scalesim(save_disk_space=True, verbose=False, input_type_gemm=True, **paths)
        simulator.run_scale(top_path=str(folder))


@ALONE
@pytest.mark.skipif(
    importlib.util.find_spec("scalesim") is None,
    reason="SCALE-Sim is not installed: pip install 'trn3[scalesim]'",
)
def bench_kernel_matmul_beside_scalesim(compare: Comparison, quick: bool, tmp_path: Path) -> None:
    size = 512
    matmul = module("matmul")
    arguments = matmul.inputs(M=size, K=size, N=size)
    compare(
        f"kernel: blocked matmul, timing only, {size}^3, simulated MACs",
        lambda: timed(matmul.balanced, arguments),
        [Rival("SCALE-Sim 3", lambda: run_scalesim(tmp_path, 128 if quick else size), goal=100.0)],
        Work(1e-9 * size**3, "GMAC/s"),
    )
