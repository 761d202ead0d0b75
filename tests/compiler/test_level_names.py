"""Levels of the compiler by name."""

from __future__ import annotations

from typing import Any

import pytest

from trn3.compiler.level_names import AS_WRITTEN, LEVELS, check_level
from trn3.machine import NeuronCore


def test_a_core_takes_each_level_and_no_other() -> None:
    assert LEVELS[0] == AS_WRITTEN == NeuronCore().compile_level
    for level in LEVELS:
        assert NeuronCore(compile=check_level(level)).compile_level == level


@pytest.mark.parametrize("level", ["", "NKI", "as_written", None, 1, ["nki"]])
def test_what_is_no_level_is_refused(level: Any) -> None:
    with pytest.raises(ValueError, match=r"--compile is .*; allowed: as-written, nki, neuronx-cc"):
        check_level(level, "--compile")


def test_only_compiled_cores_keep_a_trace() -> None:
    assert [NeuronCore(compile=level).keeps_trace for level in LEVELS] == [False, True, True]
    assert not NeuronCore(compile="nki", timing=False).keeps_trace
