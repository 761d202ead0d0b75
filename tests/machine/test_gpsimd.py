"""GpSimdE runs functions of the user: NumPy functions and C function pointers, on SBUF tiles."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

from trn3.machine import NeuronCore, NkiValidationError


def tile(core: NeuronCore, shape: tuple[int, ...], dtype: str = "float32", buffer: int = 0):
    return core.allocate(shape, dtype, buffer, "tile", None)


def test_function_reads_and_writes_tiles() -> None:
    core = NeuronCore("trn3")
    source, target = tile(core, (128, 2, 8)), tile(core, (128, 8))
    values = np.random.default_rng(0).standard_normal((128, 2, 8), dtype=np.float32)
    core.write(source, values)
    add_rows = core.gpsimd.register(
        "add_rows", lambda x: x.sum(axis=1), cycles=lambda s: s[1] * s[2]
    )
    add_rows(target, source)
    assert np.array_equal(core.values_of(target), values.sum(axis=1))


def test_declared_cost_is_what_the_timeline_shows() -> None:
    core = NeuronCore("trn3")
    target = tile(core, (128, 4), "int32")
    constant = core.gpsimd.register("constant", lambda: np.ones((128, 4), np.int32), cycles=1050)
    constant(target)
    instructions = core.to_profile().data.instructions
    held = int(instructions.slot_end_ps[0] - instructions.start_ps[0])
    # 150 cycles of start and 1050 declared ones at 1.2 GHz.
    assert held == 1_000_000


def test_several_outputs_of_narrow_types() -> None:
    import ml_dtypes

    core = NeuronCore("trn3")
    source, low, high = tile(core, (32, 6), "bfloat16"), tile(core, (32, 1)), tile(core, (32, 1))
    values = np.arange(192, dtype=np.float32).reshape(32, 6).astype(ml_dtypes.bfloat16)
    core.write(source, values)

    def extremes(x):
        wide = x.astype(np.float32)
        return wide.min(axis=1, keepdims=True), wide.max(axis=1, keepdims=True)

    core.gpsimd.register("extremes", extremes, cycles=10)((low, high), source)
    assert np.array_equal(core.values_of(low)[:, 0], values.astype(np.float32).min(axis=1))
    assert np.array_equal(core.values_of(high)[:, 0], values.astype(np.float32).max(axis=1))


def test_c_function_pointer_gets_addresses_and_partitions() -> None:
    core = NeuronCore("trn3")
    source, target = tile(core, (128, 4)), tile(core, (128, 4))
    core.write(source, np.full((128, 4), 2.5, np.float32))
    seen = []

    @ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)
    def double(source_address, target_address, partitions):
        seen.append(partitions)
        count = partitions * 4
        inputs = (ctypes.c_float * count).from_address(source_address)
        outputs = (ctypes.c_float * count).from_address(target_address)
        for i in range(count):
            outputs[i] = 2 * inputs[i]

    core.gpsimd.register("double", double, cycles=1)(target, source)
    assert seen == [128]
    assert np.array_equal(core.values_of(target), np.full((128, 4), 5.0, np.float32))


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda x: x[:, :2], r"shrink returned float32 \(128, 2\); its output tile is float32"),
        (lambda x: x.astype(np.float64), r"shrink returned float64"),
        (lambda _: 1 / 0, "ZeroDivisionError"),
    ],
)
def test_a_wrong_result_names_the_function(function, message: str) -> None:
    core = NeuronCore("trn3")
    source = tile(core, (128, 4))
    core.write(source, np.ones((128, 4), np.float32))
    with pytest.raises(ValueError, match=message):
        core.gpsimd.register("shrink", function, cycles=1)(source, source)
    # The tile keeps what it held.
    assert np.array_equal(core.values_of(source), np.ones((128, 4), np.float32))


def test_psum_is_out_of_its_reach() -> None:
    core = NeuronCore("trn3")
    source, target = tile(core, (128, 4), buffer=1), tile(core, (128, 4))
    with pytest.raises(NkiValidationError, match=r"inputs must be in \['sbuf'\], got psum"):
        core.gpsimd.register("copy", lambda x: x, cycles=1)(target, source)


def test_a_function_cannot_use_the_core_that_runs_it() -> None:
    core = NeuronCore("trn3")
    source = tile(core, (128, 4))
    core.write(source, np.ones((128, 4), np.float32))

    def sneaky(x):
        core.values_of(source)
        return x

    with pytest.raises(ValueError, match="cannot use the core"):
        core.gpsimd.register("sneaky", sneaky, cycles=1)(source, source)


@pytest.mark.parametrize(
    ("name", "function", "cycles", "error", "message"),
    [
        ("two words", abs, 1, ValueError, "is no identifier"),
        ("absolute", 3, 1, TypeError, "function is of type int"),
        ("absolute", abs, -1, ValueError, "cycles is -1"),
    ],
)
def test_registration_refuses(name, function, cycles, error, message: str) -> None:
    with pytest.raises(error, match=message):
        NeuronCore("trn3").gpsimd.register(name, function, cycles=cycles)


def test_a_name_is_taken_once() -> None:
    core = NeuronCore("trn3")
    core.gpsimd.register("twice", abs, cycles=1)
    with pytest.raises(ValueError, match="registered already"):
        core.gpsimd.register("twice", abs, cycles=1)
