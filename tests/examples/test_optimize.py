"""The plain kernels of examples/optimize: right, of real size, and as fast as their page says."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from support.kernel_files import EXAMPLES, kernels_of
from trn3 import nki

PLAIN = EXAMPLES / "optimize"
FILES = sorted(path.stem for path in PLAIN.glob("*.py"))
BF16, F32 = 2.0**-8, 2.0**-24
Arguments = dict[str, NDArray[Any]]
Bound = Callable[[Arguments, NDArray[Any]], Any]


def kernel_of(file: str) -> nki.Kernel:
    (kernel,) = (x for x in vars(kernels_of(file, PLAIN)).values() if isinstance(x, nki.Kernel))
    return kernel


def magnitudes(arguments: Arguments) -> dict[str, Any]:
    return {name: np.abs(array.astype(np.float64)) for name, array in arguments.items()}


def matmul_bound(arguments: Arguments, golden: NDArray[Any]) -> Any:
    size = magnitudes(arguments)
    return BF16 * np.abs(golden) + 512 * F32 * (size["lhsT"].T @ size["rhs"])


def projection_bound(arguments: Arguments, golden: NDArray[Any]) -> Any:
    size = magnitudes(arguments)
    return BF16 * np.abs(golden) + 512 * F32 * (size["xT"].T @ size["weight"] + size["bias"])


def exact(arguments: Arguments, golden: NDArray[Any]) -> Any:
    return np.zeros(golden.shape)


def add_bound(arguments: Arguments, golden: NDArray[Any]) -> Any:
    return F32 * np.abs(golden)


def rmsnorm_bound(arguments: Arguments, golden: NDArray[Any]) -> Any:
    # A sum of 256 squares, its mean's root, two products.
    return (BF16 + 300 * F32) * np.abs(golden)


def layernorm_bound(arguments: Arguments, golden: NDArray[Any]) -> Any:
    terms = np.abs(golden - arguments["bias"]) + np.abs(arguments["bias"])
    # The mean is off by a rounding a term of at most 4 sigma each.
    return BF16 * np.abs(golden) + 400 * F32 * (terms + np.abs(arguments["weight"]))


def softmax_bound(arguments: Arguments, golden: NDArray[Any]) -> Any:
    # A difference of at most 32, its exponential, a sum of 512 and two products.
    return (BF16 + (32 + 600) * F32) * golden


def attention_bound(arguments: Arguments, golden: NDArray[Any]) -> Any:
    values = np.abs(arguments["v"].astype(np.float64))
    scores = arguments["q"].T.astype(np.float64) @ arguments["k"].astype(np.float64) / 8
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    weights /= weights.sum(axis=1, keepdims=True)
    return BF16 * np.abs(golden) + (BF16 + 1e-4) * weights @ values


def mlp_bound(arguments: Arguments, golden: NDArray[Any]) -> Any:
    size = magnitudes(arguments)
    before = arguments["up"].T.astype(np.float64) @ arguments["x"].astype(np.float64)
    # GELU is no larger than its argument and nowhere steeper than 1.13.
    noise = 1.2 * 256 * F32 * (size["up"].T @ size["x"])
    middle = np.maximum(before, 0.17)
    return BF16 * np.abs(golden) + size["down"].T @ ((BF16 + 256 * F32) * middle + noise)


def pool_bound(arguments: Arguments, golden: NDArray[Any]) -> Any:
    # Sums of four bfloat16 numbers may need more bits than float32 has.
    return BF16 * np.abs(golden) + 16 * F32


def mamba_bound(arguments: Arguments, golden: NDArray[Any]) -> Any:
    size = magnitudes(arguments)
    terms = kernels_of("mamba", PLAIN).golden(
        **{**arguments, "u": size["u"], "B": size["B"], "C": size["C"]}
    )
    # Every step multiplies what was there by one more rounded exponential.
    return 8 * arguments["u"].shape[1] * F32 * terms


def rope_bound(arguments: Arguments, golden: NDArray[Any]) -> Any:
    first, second = np.split(np.abs(arguments["x"].astype(np.float64)), 2, axis=-1)
    return BF16 * np.abs(golden) + 3 * F32 * np.concatenate([first + second] * 2, axis=-1)


#: Of each file: sizes that compute in no time, and how far off an element may be.
CHECKS: dict[str, tuple[dict[str, int], Bound]] = {
    "attention": ({"tokens": 1024, "size": 64}, attention_bound),
    "average_pool": ({"pictures": 2, "channels": 256, "height": 8, "width": 12}, pool_bound),
    "layernorm": ({"tokens": 256, "features": 384}, layernorm_bound),
    "mamba": ({"channels": 256, "tokens": 64, "states": 4}, mamba_bound),
    "matmul": ({"M": 256, "K": 256, "N": 1024}, matmul_bound),
    "mlp": ({"tokens": 1024, "features": 256, "hidden": 256}, mlp_bound),
    "projection": ({"M": 256, "K": 256, "N": 1024}, projection_bound),
    "rmsnorm": ({"tokens": 256, "features": 256}, rmsnorm_bound),
    "rope": ({"tokens": 256, "heads": 3, "size": 64}, rope_bound),
    "softmax": ({"rows": 256, "columns": 512}, softmax_bound),
    "tensor_add": ({"rows": 256, "columns": 1024}, add_bound),
    "transpose": ({"rows": 256, "size": 640}, exact),
}


def test_every_file_is_checked() -> None:
    assert list(CHECKS) == FILES
    assert len(FILES) == 12


@pytest.mark.parametrize("arch", ["trn2", "trn3"])
@pytest.mark.parametrize("file", FILES)
def test_plain_kernel_is_that_of_numpy(file: str, arch: str) -> None:
    sizes, bound = CHECKS[file]
    module = kernels_of(file, PLAIN)
    arguments = module.inputs(**sizes)
    result, profile = nki.profile(kernel_of(file), arch=arch, strict=True, **arguments)
    golden = module.golden(**arguments)
    off = np.abs(result.astype(np.float64) - golden)
    assert result.shape == golden.shape
    assert (off <= bound(arguments, golden)).all(), off.max()
    assert profile.data.findings == ()


def table() -> dict[str, tuple[str, ...]]:
    """Return what the page says of each file, by its name: microseconds of trn2 and trn3."""
    text = (PLAIN / "README.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\w+)\.py` \| ([\d.]+) \| ([\d.]+) \|$", text, re.MULTILINE)
    return {name: tuple(times) for name, *times in rows}


@pytest.mark.parametrize("file", FILES)
def test_plain_kernel_takes_the_time_that_its_page_says(file: str) -> None:
    arguments = kernels_of(file, PLAIN).inputs()
    times = []
    for arch in ("trn2", "trn3"):
        _, profile = nki.profile(kernel_of(file), arch=arch, values=False, **arguments)
        assert 100 < profile.latency_us < 5000
        times.append(f"{profile.latency_us:.1f}")
    assert table()[file] == tuple(times)
