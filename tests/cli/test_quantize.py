"""What ``trn3 quantize`` writes equals quantizing each tensor directly, bit for bit."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import safetensors
from hypothesis import given, strategies as st
from numpy.typing import NDArray

import trn3
from support import checkpoints
from trn3.checkpoint import quantizing as job
from trn3.checkpoint.outcomes import Rounding
from trn3.numerics import MXArray, Xorwow, quantize_mx

FORMATS = {
    "mxfp8-e4m3": (ml_dtypes.float8_e4m3fn, "F8_E4M3"),
    "mxfp8-e5m2": (ml_dtypes.float8_e5m2, "F8_E5M2"),
    "mxfp4-e2m1": (ml_dtypes.float4_e2m1fn, "F4"),
}
Run = Callable[..., Any]


def assert_same(found: MXArray, expected: MXArray) -> None:
    assert found.axis % len(found.shape) == expected.axis % len(expected.shape)
    assert found.elements.dtype == expected.elements.dtype
    assert found.scales.dtype == expected.scales.dtype
    np.testing.assert_array_equal(found.elements.view(np.uint8), expected.elements.view(np.uint8))
    np.testing.assert_array_equal(found.scales.view(np.uint8), expected.scales.view(np.uint8))


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("rule", ["default", "trn3", "ocp", "rceil"])
def test_round_trip_equals_direct_quantization(
    run: Run, model: Path, tmp_path: Path, name: str, rule: Any
) -> None:
    out = tmp_path / "out.safetensors"
    assert run("quantize", model, "--to", name, "--out", out, "--scale-rule", rule).code == 0
    source = checkpoints.some_tensors()
    with trn3.load_mx(out) as tensors:
        assert set(tensors) == set(source)
        for tensor_name, array in source.items():
            found = tensors[tensor_name]
            if tensor_name in checkpoints.MATRICES:
                assert isinstance(found, MXArray)
                scale_rule = None if rule == "default" else rule
                assert_same(found, quantize_mx(array, FORMATS[name][0], scale_rule=scale_rule))
            else:
                assert isinstance(found, np.ndarray)
                assert found.dtype == array.dtype
                np.testing.assert_array_equal(found, array)


@pytest.mark.parametrize(
    ("axis", "quantized"),
    [
        (-1, {"embed.weight", "layer.0.weight", "layer.1.weight"}),
        (-2, {"layer.0.weight", "odd.weight"}),
        (0, {"layer.0.weight", "odd.weight"}),
        (2, {"layer.1.weight"}),
    ],
)
def test_axis_chooses_what_is_quantized(
    run: Run, model: Path, tmp_path: Path, axis: int, quantized: set[str]
) -> None:
    out = tmp_path / "out.safetensors"
    outcome = run("quantize", model, "--to", "mxfp4-e2m1", "--out", out, "--axis", axis)
    assert outcome.code == 0
    source = checkpoints.some_tensors()
    with trn3.load_mx(out) as tensors:
        found = {name: t for name, t in tensors.items() if isinstance(t, MXArray)}
        assert set(found) == quantized
        for name, tensor in found.items():
            direct = quantize_mx(source[name], ml_dtypes.float4_e2m1fn, axis=axis)
            assert_same(tensor, direct)


@pytest.mark.parametrize("rounding", ["zero", "stochastic"])
def test_rounding_is_that_of_quantize_mx(
    run: Run, model: Path, tmp_path: Path, rounding: Rounding
) -> None:
    out = tmp_path / "out.safetensors"
    options = ["--rounding", rounding, *(["--seed", 5] if rounding == "stochastic" else [])]
    assert run("quantize", model, "--to", "mxfp8-e4m3", "--out", out, *options).code == 0
    source = checkpoints.some_tensors()
    with trn3.load_mx(out) as tensors:
        described = json.loads(tensors.metadata["trn3.mx"])["tensors"]
        for name in checkpoints.MATRICES:
            rng = None
            if rounding == "stochastic":
                assert described[name]["seed"] == job.tensor_seed(5, name)
                rng = Xorwow.seed(described[name]["seed"], lanes=1)
            direct = quantize_mx(source[name], ml_dtypes.float8_e4m3fn, rounding=rounding, rng=rng)
            found = tensors[name]
            assert isinstance(found, MXArray)
            assert_same(found, direct)


def test_no_tensor_depends_on_another(run: Run, model: Path, tmp_path: Path) -> None:
    common = ["--to", "mxfp4-e2m1", "--rounding", "stochastic"]
    every, one = tmp_path / "all.safetensors", tmp_path / "one.safetensors"
    assert run("quantize", model, *common, "--out", every).code == 0
    assert run("quantize", model, *common, "--out", one, "--include", "layer.1.*").code == 0
    name = "layer.1.weight"
    assert checkpoints.tensor_bytes(every, name) == checkpoints.tensor_bytes(one, name)


@pytest.mark.parametrize("rounding", ["nearest", "stochastic"])
@pytest.mark.parametrize("axis", [-1, -2])
def test_pieces_give_what_the_whole_gives(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rounding: str, axis: int
) -> None:
    rng = np.random.default_rng(3)
    shapes = [(64, 96), (3, 64, 64), (1, 4096), (4096, 32), (2, 2, 32, 32)]
    source = {
        f"w{i}": rng.standard_normal(shape).astype(np.float32) for i, shape in enumerate(shapes)
    }
    model = checkpoints.write(tmp_path / "model.safetensors", source)
    common = ["quantize", model, "--to", "mxfp4-e2m1", "--axis", axis, "--rounding", rounding]
    whole, cut = tmp_path / "whole.safetensors", tmp_path / "cut.safetensors"
    assert run(*common, "--out", whole, "--json").code == 0
    monkeypatch.setattr(job, "PIECE_VALUES", 640)
    outcome = run(*common, "--out", cut, "--json")
    assert outcome.code == 0
    assert whole.read_bytes() == cut.read_bytes()


@given(st.lists(st.integers(1, 5), min_size=1, max_size=4), st.data())
def test_pieces_cover_every_value_once(sizes: list[int], data: st.DataObject) -> None:
    axis = data.draw(st.integers(-len(sizes), len(sizes) - 1))
    sizes[axis] *= 32
    limit = data.draw(st.integers(1, 2000))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(job, "PIECE_VALUES", limit)
        position = 0
        for start, (outer, length, inner) in job.pieces(tuple(sizes), axis):
            assert start == position
            assert length % 32 == 0
            assert inner == math.prod(sizes[axis % len(sizes) + 1 :])
            assert outer * length * inner <= max(limit, 32 * inner)
            position += outer * length * inner
        assert position == math.prod(sizes)


@pytest.mark.parametrize("name", FORMATS)
def test_stored_form(run: Run, model: Path, tmp_path: Path, name: str) -> None:
    """Names, dtypes, true sizes, metadata; everything else byte for byte."""
    out = tmp_path / "out.safetensors"
    assert run("quantize", model, "--to", name, "--out", out).code == 0
    before, after = checkpoints.read(model)[0], checkpoints.read(out)[0]
    dtype, code = FORMATS[name]
    for tensor_name, array in checkpoints.some_tensors().items():
        entry = after[tensor_name]
        assert entry["shape"] == list(array.shape)
        stored = checkpoints.tensor_bytes(out, tensor_name)
        if tensor_name not in checkpoints.MATRICES:
            assert entry["dtype"] == before[tensor_name]["dtype"]
            assert stored == checkpoints.tensor_bytes(model, tensor_name)
            continue
        assert entry["dtype"] == code
        direct = quantize_mx(array, dtype)
        assert len(stored) + direct.scales.nbytes == direct.nbytes
        scales = after[f"{tensor_name}_scales"]
        assert scales["dtype"] == "F8_E8M0"
        assert scales["shape"] == [*array.shape[:-1], array.shape[-1] // 32]
        assert checkpoints.tensor_bytes(out, f"{tensor_name}_scales") == direct.scales.tobytes()
        if code == "F4":
            codes = direct.elements.view(np.uint8).ravel()
            assert stored == bytes(low + 16 * high for low, high in codes.reshape(-1, 2).tolist())
    assert after["__metadata__"]["format"] == "pt"
    described = json.loads(after["__metadata__"]["trn3.mx"])
    assert described["version"] == 1
    assert described["tensors"]["layer.0.weight"] == {
        "axis": -1,
        "scales": "layer.0.weight_scales",
        "dtype": np.dtype(dtype).name,
        "source_dtype": "BF16",
        "scale_rule": "ocp" if code == "F4" else "trn3",
        "rounding": "nearest",
    }
    assert set(described["tensors"]) == set(checkpoints.MATRICES)


@pytest.mark.parametrize("name", FORMATS)
def test_the_public_library_accepts_the_output(
    run: Run, model: Path, tmp_path: Path, name: str
) -> None:
    out = tmp_path / "out.safetensors"
    assert run("quantize", model, "--to", name, "--out", out).code == 0
    with safetensors.safe_open(out, framework="np") as opened:
        names = set(opened.keys())
        assert names == set(checkpoints.some_tensors()) | {
            f"{matrix}_scales" for matrix in checkpoints.MATRICES
        }
        assert opened.get_slice("embed.weight").get_dtype() == FORMATS[name][1]
        assert opened.get_slice("embed.weight").get_shape() == [48, 64]
        np.testing.assert_array_equal(opened.get_tensor("step"), np.array(17))


def test_wide_types_stay_aligned(run: Run, tmp_path: Path) -> None:
    source = {
        "flag": np.array([True]),
        "w": np.ones((1, 32), np.float32),
        "long": np.arange(3, dtype=np.int64),
        "half": np.ones(3, np.float16),
    }
    model = checkpoints.write(tmp_path / "model.safetensors", source)
    out = tmp_path / "out.safetensors"
    assert run("quantize", model, "--to", "mxfp4-e2m1", "--out", out).code == 0
    header, data = checkpoints.read(out)
    assert (out.stat().st_size - len(data)) % 8 == 0
    assert header["long"]["data_offsets"][0] % 8 == 0
    assert header["half"]["data_offsets"][0] % 2 == 0


def test_several_formats_give_a_file_each(run: Run, model: Path, tmp_path: Path) -> None:
    out = tmp_path / "small.safetensors"
    both = ["--to", "mxfp8-e4m3", "--to", "mxfp4-e2m1"]
    assert run("quantize", model, *both, "--out", out).code == 0
    assert not out.exists()
    for name in ("mxfp8-e4m3", "mxfp4-e2m1"):
        alone = tmp_path / f"{name}.safetensors"
        assert run("quantize", model, "--to", name, "--out", alone).code == 0
        assert (tmp_path / f"small.{name}.safetensors").read_bytes() == alone.read_bytes()


def test_formats_can_be_mixed_in_two_runs(run: Run, model: Path, tmp_path: Path) -> None:
    first, second = tmp_path / "first.safetensors", tmp_path / "second.safetensors"
    embed, rest = ["--include", "embed.*"], ["--axis", "-1"]
    assert run("quantize", model, "--to", "mxfp8-e4m3", "--out", first, *embed).code == 0
    assert run("quantize", first, "--to", "mxfp4-e2m1", "--out", second, *rest).code == 0
    source = checkpoints.some_tensors()
    with trn3.load_mx(second) as tensors:
        assert set(tensors) == set(source)
        found, other = tensors["embed.weight"], tensors["layer.0.weight"]
        assert isinstance(found, MXArray)
        assert isinstance(other, MXArray)
        assert_same(found, quantize_mx(source["embed.weight"], ml_dtypes.float8_e4m3fn))
        assert_same(other, quantize_mx(source["layer.0.weight"], ml_dtypes.float4_e2m1fn))


@pytest.mark.parametrize(
    ("options", "quantized"),
    [
        (["--include", "layer.*"], {"layer.0.weight", "layer.1.weight"}),
        (["--include", "embed*", "--include", "*.1.*"], {"embed.weight", "layer.1.weight"}),
        (["--exclude", "layer.*"], {"embed.weight"}),
        (["--include", "layer.*", "--exclude", "*.0.*"], {"layer.1.weight"}),
        (["--include", "LAYER.*", "--include", "layer.[0]*"], {"layer.0.weight"}),
    ],
)
def test_include_and_exclude(
    run: Run, model: Path, tmp_path: Path, options: list[str], quantized: set[str]
) -> None:
    out = tmp_path / "out.safetensors"
    assert run("quantize", model, "--to", "mxfp8-e5m2", "--out", out, *options).code == 0
    with trn3.load_mx(out) as tensors:
        assert {n for n, tensor in tensors.items() if isinstance(tensor, MXArray)} == quantized


def test_special_values_survive(run: Run, tmp_path: Path) -> None:
    """NaN and infinity poison their block only; signed zeros and subnormals are kept apart."""
    x = np.ones((4, 32), np.float32)
    x[0, 3], x[1, 5], x[2] = np.nan, -np.inf, -0.0
    x[3] = np.float32(2.0**-149)
    model = checkpoints.write(tmp_path / "model.safetensors", {"w": x})
    out = tmp_path / "out.safetensors"
    outcome = run("quantize", model, "--to", "mxfp8-e4m3", "--out", out, "--json")
    assert outcome.code == 0
    with trn3.load_mx(out) as tensors:
        found = tensors["w"]
        assert isinstance(found, MXArray)
        assert_same(found, quantize_mx(x, ml_dtypes.float8_e4m3fn))
    (tensor,) = json.loads(outcome.stdout)["outputs"][0]["tensors"]
    assert tensor["nonfinite"] == 64
    assert tensor["num_values"] == 128


def test_force_replaces_and_keeps_links(run: Run, model: Path, tmp_path: Path) -> None:
    out, link = tmp_path / "out.safetensors", tmp_path / "link.safetensors"
    out.write_text("old")
    link.symlink_to(out)
    assert run("quantize", model, "--to", "mxfp8-e4m3", "--out", link, "--force").code == 0
    assert link.is_symlink()
    with trn3.load_mx(out) as tensors:
        assert tensors.keys() == checkpoints.some_tensors().keys()


def test_permissions_are_those_of_any_new_file(run: Run, model: Path, tmp_path: Path) -> None:
    out, other = tmp_path / "out.safetensors", tmp_path / "other"
    other.touch()
    assert run("quantize", model, "--to", "mxfp8-e4m3", "--out", out).code == 0
    assert out.stat().st_mode == other.stat().st_mode


def test_source_is_left_alone(run: Run, model: Path, tmp_path: Path) -> None:
    before = model.read_bytes()
    model.chmod(0o444)
    out = tmp_path / "out.safetensors"
    assert run("quantize", model, "--to", "mxfp8-e4m3", "--out", out).code == 0
    assert model.read_bytes() == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model.safetensors", out.name]


def test_metadata_of_strange_names(run: Run, tmp_path: Path) -> None:
    """Names are data: markup, control characters and other scripts come through unharmed."""
    names = ["[bold]w[/bold]", "a\x1b[31mb", "Gewicht-ß-重み", 'quo"te\\', ""]
    source: dict[str, NDArray[Any]] = {name: np.ones((1, 32), np.float32) for name in names}
    model = checkpoints.write(tmp_path / "model.safetensors", source)
    out = tmp_path / "out.safetensors"
    outcome = run("quantize", model, "--to", "mxfp8-e4m3", "--out", out)
    assert outcome.code == 0
    assert "[bold]w[/bold]" in outcome.stdout
    assert "\x1b[31m" not in outcome.stdout
    with trn3.load_mx(out) as tensors:
        assert set(tensors) == set(names)
