"""Result bits depend on nothing but the inputs: SIMD level, threads, floating-point modes, fork."""

from __future__ import annotations

import ctypes
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import trn3
from oracle import operands
from oracle.operands import BFLOAT16, E4M3FN, FLOAT32
from support import battery
from support.checks import SIMD_LEVELS, run_python
from trn3.numerics import matmul

PRINT = "import json; from support import battery; print(json.dumps({}))"
FULL_RUN = "battery.run(battery.make_inputs())"

# What the kernel must report for a level to be usable.
CPU_FLAGS = {
    "scalar": set[str](),
    "portable": set[str](),
    "avx2": {"avx2", "fma", "f16c", "bmi1", "bmi2"},
    "avx512": {"avx2", "fma", "f16c", "avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"},
    "avx512bf16": {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl", "avx512_bf16"},
}


def cpu_flags() -> set[str]:
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return set()
    lines = [line for line in text.splitlines() if line.startswith("flags")]
    return set(lines[0].split(":")[1].split()) if lines else set()


def is_available(level: str) -> bool:
    return cpu_flags() >= CPU_FLAGS[level]


def evaluate(expression: str, env: Mapping[str, str] | None = None) -> Any:
    """Evaluate an expression over `battery` in another process."""
    finished = run_python(PRINT.format(expression), env=env)
    assert finished.returncode == 0, finished.stderr
    return json.loads(finished.stdout)


@pytest.fixture(scope="module")
def reference() -> dict[str, str]:
    """Run in this process: on the best SIMD level and all cores."""
    return battery.run(battery.make_inputs())


def assert_same(results: Mapping[str, str], reference: Mapping[str, str]) -> None:
    assert results.keys() == reference.keys()
    differing = [name for name, value in results.items() if reference[name] != value]
    assert not differing


def test_the_battery_is_whole(reference: Mapping[str, str]) -> None:
    """It covers each function, different calls give different results, and inputs stay the same."""
    words = {name.split()[0] for name in reference}
    assert words == {
        "cast",
        "quantize_mx",
        "matmul",
        "matmul_mx",
        "sparse",
        "exp",
        "activation",
        "xorwow",
    }
    assert len(set(reference.values())) > 0.8 * len(reference)
    inputs, untouched = battery.make_inputs(), battery.make_inputs()
    assert_same(battery.run(inputs), reference)
    for name, array in untouched.items():
        assert array.tobytes() == inputs[name].tobytes(), f"{name} was modified"


@pytest.mark.parametrize("level", SIMD_LEVELS)
def test_every_simd_level(level: str, reference: Mapping[str, str]) -> None:
    """A level this machine lacks is an error that says so."""
    env = {"TRN3_SIMD": level}
    if is_available(level):
        assert evaluate("__import__('trn3').simd_level()", env) == level
        assert_same(evaluate(FULL_RUN, env), reference)
        return
    finished = run_python("import trn3; trn3.simd_level()", env=env)
    assert finished.returncode != 0
    assert "TRN3_SIMD" in finished.stderr
    assert level in finished.stderr
    assert "panicked" not in finished.stderr


@pytest.mark.parametrize("level", ["avx1024", "AVX2", "scaler", " scalar"])
def test_a_misspelt_simd_level(level: str) -> None:
    """The error names the variable, the value and the allowed ones, and is not a panic."""
    code = "import trn3, numpy; trn3.numerics.cast(numpy.zeros(3, 'float32'), 'float16')"
    finished = run_python(code, env={"TRN3_SIMD": level})
    assert finished.returncode == 1, finished.stderr
    for word in ("TRN3_SIMD", level, *filter(is_available, SIMD_LEVELS)):
        assert word in finished.stderr
    assert "panicked" not in finished.stderr


def test_the_default_is_the_best_level() -> None:
    """The BF16 dot product is left alone where the processor issues it slowly."""
    best = [level for level in SIMD_LEVELS if is_available(level)][-1]
    allowed = {best, "avx512"} if best == "avx512bf16" else {best}
    assert evaluate("__import__('trn3').simd_level()") in allowed


@pytest.mark.parametrize("module", ["test_matmul.py", "test_matmul_mx.py", "test_matmul_sparse.py"])
def test_the_bf16_dot_product_against_the_oracle(module: str) -> None:
    """Its hazards need the exact oracle, whether or not it is this machine's default."""
    if not is_available("avx512bf16"):
        pytest.skip("this processor has no BF16 dot product")
    if trn3.simd_level() == "avx512bf16":
        pytest.skip("the tests of this module ran at that level already")
    path = Path(__file__).parent / module
    hazards = "small or subnormal or codes or tiles or bytes or zero or patterns or overflow"
    options = ["-q", "-p", "no:cacheprovider", "-k", hazards, str(path)]
    code = f"import pytest, sys; sys.exit(pytest.main({options!r}))"
    finished = run_python(code, env={"TRN3_SIMD": "avx512bf16"})
    assert finished.returncode == 0, finished.stdout


@pytest.mark.parametrize("threads", [1, 2, 3, 8])
def test_every_thread_count(threads: int, reference: Mapping[str, str]) -> None:
    before = trn3.get_num_threads()
    try:
        trn3.set_num_threads(threads)
        assert trn3.get_num_threads() == threads
        assert_same(battery.run(battery.make_inputs()), reference)
    finally:
        trn3.set_num_threads(before)


@pytest.mark.parametrize("dtype", [FLOAT32, BFLOAT16, E4M3FN], ids=lambda dtype: dtype.name)
def test_large_products_at_every_thread_count(dtype: Any) -> None:
    """Big enough that every thread gets a part, whose borders depend on how many there are."""
    random = np.random.default_rng(1)
    a, b = operands.normal(random, (700, 513), dtype), operands.normal(random, (513, 611), dtype)
    tall, wide = operands.normal(random, (9000, 513), dtype), a[:3]
    before = trn3.get_num_threads()
    results = set()
    try:
        for threads in (1, 2, 3, 8):
            trn3.set_num_threads(threads)
            products = (matmul(a, b), matmul(tall, b[:, :5]), matmul(wide, tall.T))
            results.add(battery.digest(products))
    finally:
        trn3.set_num_threads(before)
    assert len(results) == 1


def test_thread_count_from_the_environment(reference: Mapping[str, str]) -> None:
    env = {"TRN3_NUM_THREADS": "3"}
    assert evaluate("__import__('trn3').get_num_threads()", env) == 3
    assert_same(evaluate(FULL_RUN, env), reference)


@pytest.mark.parametrize("value", ["0", "-1", "two", "1.5"])
def test_a_bad_thread_count_in_the_environment(value: str) -> None:
    code = "import trn3, numpy; trn3.get_num_threads(); trn3.numerics.exp(numpy.zeros(3, 'f4'))"
    finished = run_python(code, env={"TRN3_NUM_THREADS": value})
    assert finished.returncode == 1, finished.stderr
    assert "TRN3_NUM_THREADS" in finished.stderr
    assert value in finished.stderr
    assert "panicked" not in finished.stderr


MODES = {
    "flush to zero": 0x8000,
    "denormals are zero": 0x0040,
    "both": 0x8040,
    "round down": 0x2000,
    "round up": 0x4000,
    "round toward zero": 0x6000,
    "all of it": 0xE040,
}


@pytest.mark.parametrize("name", MODES)
def test_a_mode_set_before_loading(
    name: str, mode_library: str, reference: Mapping[str, str]
) -> None:
    """The caller's mode reaches no result, not through the pool's threads either, and stays set."""
    mode = battery.DEFAULT_MODE | MODES[name]
    results = evaluate(f"battery.run_under_mode({mode_library!r}, {mode})")
    assert_same(results, reference)


def test_a_mode_set_after_loading(mode_library: str, reference: Mapping[str, str]) -> None:
    """The pool's threads, started in the usual mode, stay in it; single-threaded work as well."""
    before = trn3.get_num_threads()
    mode = battery.DEFAULT_MODE | MODES["all of it"]
    try:
        for threads in (1, 2):
            trn3.set_num_threads(threads)
            assert_same(battery.run_under_mode(mode_library, mode), reference)
    finally:
        trn3.set_num_threads(before)


def test_the_mode_helper_works(mode_library: str) -> None:
    """Under flush-to-zero plain arithmetic does lose subnormals, so the tests above can fail."""
    processor = ctypes.CDLL(mode_library)
    before = processor.get_mode()
    values = [2.0**-1000, 2.0**-60]
    processor.set_mode(battery.DEFAULT_MODE | MODES["both"])
    product = values[0] * values[1]
    processor.set_mode(before)
    assert product == 0.0
    assert values[0] * values[1] != 0.0


def test_several_python_threads_at_once(reference: Mapping[str, str]) -> None:
    for results in evaluate("battery.run_in_threads(3)"):
        assert_same(results, reference)


def test_in_a_forked_child(reference: Mapping[str, str]) -> None:
    """A child has none of its parent's threads, and works all the same."""
    code = "import warnings; warnings.simplefilter('ignore')\n" + PRINT
    finished = run_python(code.format("battery.run_in_fork()"), timeout=60)
    assert finished.returncode == 0, finished.stderr
    assert_same(json.loads(finished.stdout), reference)
