"""The stub against the extension, and the types a user's checker sees."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from support.sandbox import ROOT

USER = """
import ml_dtypes
import numpy as np
from typing import Any, assert_type

import trn3
from trn3 import numerics
from trn3.numerics import MXArray, SparseArray, Xorwow

x = np.ones((32, 64), np.float32)
rng = Xorwow.seed(1)
mx = numerics.quantize_mx(x, ml_dtypes.float8_e4m3fn, axis=-1, scale_rule="trn3")
sparse = numerics.compress(x, "4:16")

assert_type(trn3.__version__, str)
assert_type(trn3.simd_level(), str)
assert_type(trn3.get_num_threads(), int)
assert_type(rng, Xorwow)
assert_type(mx, MXArray)
assert_type(mx.axis, int)
assert_type(mx.nbytes, int)
assert_type(sparse, SparseArray)
product: np.ndarray[Any, Any] = numerics.matmul_mx(mx, numerics.quantize_mx(x.T, mx.dtype, axis=-2))
draws: np.ndarray[Any, np.dtype[np.uint32]] = rng.uint32(4)
rounded: np.ndarray[Any, Any] = numerics.cast(x, ml_dtypes.bfloat16, rounding="zero")
"""

WRONG = {
    'numerics.cast(x, np.float16, rounding="up")': "arg-type",
    'numerics.quantize_mx(x, np.float32, scale_rule="best")': "arg-type",
    "trn3.set_num_threads()": "call-arg",
    "numerics.Xorwow.seed()": "call-arg",
}


def mypy(code: str, tmp_path: Path) -> str:
    """Return what mypy --strict says of `code`; the cache is that of the other runs."""
    file = tmp_path / "user.py"
    file.write_text(code)
    options = ["--strict", "--config-file", "", "--cache-dir", str(ROOT / ".mypy_cache" / "user")]
    run = subprocess.run(
        [sys.executable, "-m", "mypy", *options, file.name],
        cwd=tmp_path,
        env={"MYPYPATH": str(ROOT / "python")},
        capture_output=True,
        text=True,
        check=False,
    )
    return run.stdout + run.stderr


def test_user_code_is_typed(tmp_path: Path) -> None:
    """A program that uses each class passes mypy --strict, with the types that it expects."""
    assert mypy(USER, tmp_path).startswith("Success")


@pytest.mark.parametrize("line", WRONG)
def test_wrong_use_is_found(tmp_path: Path, line: str) -> None:
    """Options are literal types: a misspelt one is found before the program runs."""
    head = "import numpy as np\nimport trn3\nfrom trn3 import numerics\nx = np.ones(32)\n"
    assert f"[{WRONG[line]}]" in mypy(head + line, tmp_path)


def test_stub_matches_the_extension() -> None:
    """The stub names what the extension has, with the same signatures, and nothing more."""
    run = subprocess.run(
        [sys.executable, "-m", "mypy.stubtest", "trn3._trn3"],
        cwd=ROOT,
        env={"MYPYPATH": str(ROOT / "python")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stdout + run.stderr
