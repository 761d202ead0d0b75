"""Kernels as their authors' text reads: what they compute, and how many instructions of a kind."""

from __future__ import annotations

from collections import Counter
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest

from trn3 import nki
from trn3.profile.data import ENGINES
from trn3.validation.experiments.authored import products, scan_operands
from trn3.validation.imported import authored, import_text, vendor_names

#: Tiles of a product [4096, 8192] x [8192, 8192], by dimension.
TILES_M, TILES_K, TILES_N = 32, 64, 16


def kinds(kernel: Any, hardware: str, *arrays: Any) -> Counter[str]:
    """Return how many instructions of each kind a kernel issues; those of VectorE are marked."""
    text = nki.simulate(kernel, compile="as-written")
    _, profile = nki.profile(text, *arrays, arch=hardware, values=False)
    data, found = profile.data, Counter[str]()
    for opcode, engine in zip(data.instructions.opcode, data.instructions.engine, strict=True):
        vector = "vector " if ENGINES[engine] == "vector" else ""
        found[f"{vector}{data.opcodes[opcode]}"] += 1
    return found


def scan(delta: Any, u: Any, a: Any, b: Any, c: Any) -> Any:
    """Return the scan in float64."""
    delta, u, a, b, c = (each.astype(np.float64) for each in (delta, u, a, b, c))
    state, out = np.zeros((*delta.shape[:2], a.shape[1])), np.empty(delta.shape)
    for t in range(delta.shape[2]):
        step = delta[:, :, t, None]
        state = np.exp(step * a) * state + step * u[:, :, t, None] * b[:, None, :, t]
        out[:, :, t] = (state * c[:, None, :, t]).sum(-1)
    return out


@pytest.mark.parametrize("name", ["states_outside", "channels_outside", "tokens_tiled"])
def test_scans_compute_the_scan(name: str) -> None:
    random = np.random.default_rng(0)
    arrays = [
        random.random(each.shape, np.float32) - np.float32(low)
        # Steps are positive and rates negative, so that states decay.
        for each, low in zip(
            scan_operands(256, 1024, states=2), (0, 0.5, 1.5, 0.5, 0.5), strict=True
        )
    ]
    result = getattr(authored("fused_mamba"), name)(*arrays)
    np.testing.assert_allclose(result, scan(*arrays), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        *(("matrix_products", each) for each in ("tiled", "hoisted", "blocked_free", "blocked")),
        *(("optimisation_guide", each) for each in ("tiled", "hoisted", "blocked")),
    ],
)
def test_products_compute_the_product(text: str, name: str) -> None:
    random = np.random.default_rng(1)
    left, right = (
        random.integers(-4, 5, each.shape).astype(each.dtype)
        for each in products((512, 512, 1024), "float32")
    )
    blocks = {"tiles_m": 2, "tiles_n": 1, "tiles_k": 2} if name == "blocked" else {}
    warned = (
        # The guide's results lie in private memory.
        pytest.warns(UserWarning, match="nl.private_hbm")
        if text == "optimisation_guide"
        else nullcontext()
    )
    with warned:
        result = getattr(authored(text), name)(left, right, **blocks)
    assert (result == left.T @ right).all()


@pytest.mark.parametrize(
    ("name", "published", "loads"),
    [("states_outside", 181, 5), ("channels_outside", None, 3)],
)
def test_scans_issue_what_the_steps_of_the_text_name(
    name: str, published: int | None, loads: int
) -> None:
    """Steps 3 to 6 are five instructions of VectorE for each state of each channel tile."""
    tiles, states = 2, 16
    found = kinds(getattr(authored("fused_mamba"), name), "trn1", *scan_operands(256, 512))
    assert found["activation"] == tiles * states
    assert found["vector tensor_tensor"] == 4 * tiles * states
    assert found["vector tensor_tensor_scan"] == tiles * states
    once = 3 if loads == 3 else 1
    assert found["dma_copy"] == tiles * (states * loads + once)
    # Each row of B and of C comes into all partitions for itself.
    assert found["nc_matmul"] == 2 * tiles * states
    if published is not None:
        steps = 5 * tiles * states
        # The profile's 181 have the steps, the zeroed sums, and a few that only wait.
        assert 0.85 < (steps + tiles) / published < 1


def test_the_tiled_scan_names_more_than_the_profile_of_the_compiled_one_has() -> None:
    """A product less for each step would do: the compiler multiplied delta by u once."""
    found = kinds(authored("fused_mamba").tokens_tiled, "trn1", *scan_operands(256, 1024))
    steps = 2 * 16 * 2
    assert found["vector tensor_tensor"] == 4 * steps
    assert found["vector tensor_tensor_scan"] == steps
    # 8192 tokens of 4096 channels, in the profile and in the text.
    of_profile, tiles, states, chunks = 39_695, 32, 16, 16
    steps = tiles * states * chunks
    assert 4 * steps < of_profile < 5 * steps


@pytest.mark.parametrize("name", ["tiled", "hoisted"])
def test_products_issue_as_many_instructions_as_the_guide_counts(name: str) -> None:
    found = kinds(
        getattr(authored("optimisation_guide"), name),
        "trn2",
        *products((1024, 1024, 1024), "float32"),
    )
    m, k, n = 8, 8, 2
    loads = 2 * m * k * n if name == "tiled" else m * k + m * k * n
    assert found == {"nc_matmul": m * k * n, "vector tensor_copy": m * n, "dma_copy": loads + m * n}
    # The guide's 65,536: a float32 matmul is two instructions of the array.
    assert 2 * TILES_M * TILES_K * TILES_N == 65_536


def test_blocked_products_issue_what_the_guide_counts_of_vector_e() -> None:
    found = kinds(
        authored("optimisation_guide").blocked, "trn2", *products((2048, 2048, 1024), "float32")
    )
    tiles, blocks_k = 16 * 2, 2
    assert found["vector memset"] == found["vector tensor_copy"] == tiles
    assert found["vector tensor_tensor"] == tiles * blocks_k
    assert found["dma_copy"] == blocks_k * (8 + 8) + 16
    # At full size; the profile's 5403 have those that only wait as well.
    full = TILES_M * TILES_N * (1 + TILES_K // 8 + 1)
    assert 0.9 < full / 5403 < 1


def test_the_names_of_who_installed_them_stay() -> None:
    nki.install()
    try:
        with vendor_names():
            pass
        assert import_text("kernel.py", "import nki\nfound = nki").found is nki
        import nki as installed

        assert installed is nki
    finally:
        nki.uninstall()
    with vendor_names():
        pass
    with pytest.raises(ModuleNotFoundError):
        exec("import neuronxcc.nki", {})
