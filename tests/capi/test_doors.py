"""The same question from C gives the answer that the other doors give."""

from __future__ import annotations

import ctypes
import json
from pathlib import Path
from typing import Any

import pytest

from support.questions import PICOSECONDS, questions
from trn3.machine import arch

pytestmark = pytest.mark.timeout(1800)


@pytest.mark.parametrize("question", questions("arch"))
def test_c(question: dict[str, Any], prefix: Path) -> None:
    """What a chip does in a second takes its device a second."""
    library = ctypes.CDLL(str(next(prefix.rglob("libtrn3.so"))))
    cores = int(arch(question["arch"])["cores"])
    config = json.dumps({"arch": question["arch"], "cores": cores}).encode()
    device, picoseconds = ctypes.c_void_p(), ctypes.c_uint64()
    size = ctypes.c_size_t(len(config))
    assert library.trn3_device_create(config, size, ctypes.byref(device)) == 0
    answer = round(question["answer"])
    amounts = (answer, 0) if "peak" in question else (0, answer)
    dtype = question.get("peak", "bf16").encode()
    try:
        status = library.trn3_roofline(
            device, *map(ctypes.c_uint64, amounts), dtype, ctypes.c_size_t(len(dtype)),
            ctypes.byref(picoseconds),
        )  # fmt: skip
        assert status == 0
    finally:
        library.trn3_device_destroy(device)
    assert picoseconds.value == PICOSECONDS
