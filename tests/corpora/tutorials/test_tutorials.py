"""Some two hundred small kernels in the style of public tutorials, against NumPy."""

from __future__ import annotations

import importlib.util
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.tutorials import CASES, TutorialCase
from trn3 import nki
from trn3.nki.dialects import legacy

FILES = (
    "functions",
    "instructions",
    "ranks_of_views",
    "addresses",
    "legacy_forms",
    "legacy_indexing",
)


def cases() -> Iterator[object]:
    for file in FILES:
        name = f"tutorial_{file}"
        spec = importlib.util.spec_from_file_location(name, Path(__file__).with_name(f"{file}.py"))
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        CASES.pop(name, None)
        spec.loader.exec_module(module)
        for each in CASES[name]:
            yield pytest.param(each, file, id=f"{file}-{each.kernel.__name__}")


@pytest.mark.parametrize(("case", "file"), [*cases()])
def test_tutorials_kernels(case: TutorialCase, file: str) -> None:
    with warnings.catch_warnings():
        # Kernels and goldens of tutorials divide by small numbers and round to narrow types.
        warnings.simplefilter("ignore")
        case.check(legacy.jit if file.startswith("legacy") else nki.jit)
