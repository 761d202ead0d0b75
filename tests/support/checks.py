"""What several test modules need: comparing bits, errors by message, other Python processes."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest

TESTS = Path(__file__).resolve().parents[1]
SIMD_LEVELS = ("scalar", "portable", "avx2", "avx512", "avx512bf16")


def assert_bits(got: Any, expected: npt.NDArray[np.float32], note: str = "") -> None:
    """Compare a float32 or bfloat16 result with expected values held in float32, bit for bit."""
    assert isinstance(got, np.ndarray)
    assert got.shape == expected.shape, f"{note}: shape {got.shape}, expected {expected.shape}"
    assert got.flags.c_contiguous
    wanted: npt.NDArray[Any] = np.ascontiguousarray(expected).view(np.uint32)
    actual: npt.NDArray[Any]
    if got.dtype == ml_dtypes.bfloat16:
        assert not np.any(wanted & 0xFFFF), "the expected values are not bfloat16"
        actual, wanted = got.view(np.uint16).astype(np.uint32), wanted >> 16
    else:
        assert got.dtype == np.float32
        actual = got.view(np.uint32)
    differs = np.argwhere(actual != wanted)
    if len(differs):
        lines = [
            f"  {tuple(map(int, place))}: expected {int(wanted[tuple(place)]):#x}, "
            f"got {int(actual[tuple(place)]):#x}"
            for place in differs[:6]
        ]
        heading = f"{note}: {len(differs)} of {actual.size} elements differ"
        raise AssertionError("\n".join([heading, *lines]))


def plain_shapes(text: str) -> str:
    """Write every shape with round brackets and without a trailing comma."""
    return text.replace("[", "(").replace("]", ")").replace(",)", ")")


@contextmanager
def error(kind: type[Exception], *words: str) -> Iterator[None]:
    """Expect exactly this kind of error, whose message has each of the words as a whole word.

    A shape may be written `(2, 3)` or `[2, 3]`.
    """
    with pytest.raises(kind) as caught:
        yield
    assert caught.type is kind, f"{caught.type.__name__} instead of {kind.__name__}"
    message = plain_shapes(str(caught.value))
    for word in map(plain_shapes, words):
        pattern = rf"(?<![A-Za-z0-9_]){re.escape(word)}(?![A-Za-z0-9_])"
        assert re.search(pattern, message), f"no {word!r} in the message: {message}"


def run_python(
    code: str, *arguments: str, env: Mapping[str, str] | None = None, timeout: float = 120
) -> subprocess.CompletedProcess[str]:
    """Run code in a new interpreter that finds what this one finds, and wait for it."""
    return subprocess.run(
        [sys.executable, "-c", code, *arguments],
        env=environment(env),
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )


def environment(changes: Mapping[str, str] | None = None) -> dict[str, str]:
    """Copy this process's environment with changes, and without settings meant for this process."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("TRN3_")}
    path = os.pathsep.join([str(TESTS), *filter(None, [os.environ.get("PYTHONPATH")])])
    return {**kept, "PYTHONPATH": path, **(changes or {})}


def available_memory() -> int:
    """Bytes that could be allocated without swapping, as the kernel estimates it; 0 if unknown."""
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    except OSError:
        return 0
    values = dict(line.split(":", 1) for line in lines)
    return int(values["MemAvailable"].split()[0]) << 10


def need_memory(gigabytes: int) -> None:
    """Skip the test unless this much memory is free."""
    free = available_memory() >> 30
    if free < gigabytes:
        pytest.skip(f"needs {gigabytes} GB of free memory, {free} GB are free")
