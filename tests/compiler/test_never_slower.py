"""Compiled kernels take at least their bound, and at most what they take as written."""

from __future__ import annotations

import importlib
from functools import partial
from typing import Any

import numpy as np
import pytest

import trn3.nki.language as nl
from support.kernel_files import EXAMPLES, kernels_of
from trn3 import nki

PLAIN = EXAMPLES / "optimize"
#: Kernels of the examples and arguments that are small enough.
RUNS = {
    "rope": {"tokens": 256},
    "softmax": {"rows": 256},
    "tensor_add": {"rows": 256},
    "rmsnorm": {"tokens": 256},
}


@pytest.fixture
def full_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    """Transfers of compiled kernels at the rate of those as written."""
    launched = importlib.import_module("trn3.nki.launch.compiled")
    constants = {"dma_share": 1.0, "dma_share_gen2": 1.0}
    monkeypatch.setattr(
        launched, "compile_cores", partial(launched.compile_cores, constants=constants)
    )


def checked(kernel: Any, *args: Any, **kwargs: Any) -> dict[str, Any]:
    """Return what a profile says of its compilation, checked."""
    _, profile = nki.profile(kernel, *args, **kwargs)
    report: dict[str, Any] = profile.compile
    assert report["compiled_us"] == profile.latency_us
    assert 0 < report["bound_us"] <= report["compiled_us"]
    return report


@pytest.mark.usefixtures("full_rate")
@pytest.mark.parametrize("level", ["nki", "neuronx-cc"])
@pytest.mark.parametrize("name", RUNS)
def test_plain_kernels_are_no_slower_than_as_written(name: str, level: str) -> None:
    module = kernels_of(name, PLAIN)
    arguments = module.inputs(**RUNS[name])
    report = checked(getattr(module, name), **arguments, arch="trn3", values=False, compile=level)
    assert report["compiled_us"] <= report["as_written_us"]


@nki.jit
def turned(x: Any) -> Any:
    """Tiles turned through PSUM, and their squares."""
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    for i in nl.affine_range(x.shape[1] // 128):
        tile = nl.load(x[:, i * 128 : (i + 1) * 128])
        nl.store(out[:, i * 128 : (i + 1) * 128], nl.square(nl.transpose(tile)))
    return out


@nki.jit
def halves(x: Any) -> Any:
    """One half of the columns on each of two cores."""
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    columns = x.shape[1] // 2
    mine = nl.ds(nl.program_id(0) * columns, columns)
    nl.store(out[:, mine], nl.multiply(nl.load(x[:, mine]), 2.0))
    return out


@pytest.mark.parametrize("level", ["nki", "neuronx-cc"])
@pytest.mark.parametrize("arch", ["trn1", "trn2", "trn3"])
@pytest.mark.parametrize("values", [False, True])
def test_every_machine_has_levels(arch: str, level: str, *, values: bool) -> None:
    x = np.ones((128, 512), np.float32)
    report = checked(turned, x, arch=arch, values=values, compile=level)
    assert report["level"] == level
    if level == "nki":
        assert report["compiled_us"] <= report["as_written_us"]


@pytest.mark.parametrize("level", ["nki", "neuronx-cc"])
@pytest.mark.parametrize("arch", ["trn2", "trn3"])
@pytest.mark.parametrize("values", [False, True])
def test_two_cores_have_levels(arch: str, level: str, *, values: bool) -> None:
    x = np.ones((128, 512), np.float32)
    result, profile = nki.profile(halves[2], x, arch=arch, values=values, compile=level)
    assert profile.compile["level"] == level
    assert 0 < profile.compile["bound_us"] <= profile.compile["compiled_us"]
    if values:
        assert (np.asarray(result) == 2).all()


def test_constants_that_there_are_not_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    launched = importlib.import_module("trn3.nki.launch.compiled")
    given = partial(launched.compile_cores, constants={"luck": 1.0})
    monkeypatch.setattr(launched, "compile_cores", given)
    with pytest.raises(ValueError, match='constant is "luck"; allowed: dma_share_gen2, '):
        nki.profile(turned, np.ones((128, 128), np.float32), compile="nki")
