"""No result differs from what it was before kernels were made faster."""

from __future__ import annotations

import json
import os

import pytest

from support import corpus
from support.checks import run_python

RECORDED = json.loads(corpus.FILE.read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def comparable() -> None:
    """Skip where NumPy draws other operands than it drew when results were recorded."""
    if corpus.inputs() != RECORDED["inputs"]:
        pytest.skip("this NumPy draws other operands than those of the recorded results")


@pytest.mark.usefixtures("comparable")
@pytest.mark.parametrize("level", ["", "avx2", "avx512bf16"])
def test_results_are_those_that_were_recorded(level: str) -> None:
    if level == "":
        found = corpus.results()
    else:
        code = "import json; from support import corpus; print(json.dumps(corpus.results()))"
        finished = run_python(code, env={"TRN3_SIMD": level})
        if finished.returncode != 0 and "TRN3_SIMD" in finished.stderr:
            pytest.skip(f"this processor has no {level}")
        assert finished.returncode == 0, finished.stderr
        found = json.loads(finished.stdout)
    expected = RECORDED["results"]
    assert found.keys() == expected.keys()
    differing = [name for name, value in found.items() if expected[name] != value]
    assert not differing, f"at {level or os.environ.get('TRN3_SIMD', 'the best level')}"
