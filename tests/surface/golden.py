"""Programs and snapshots of version 0.1.0, kept as they were written: what they must still do.

``golden/everything.json`` is the program of `golden_kernel.everything`; ``golden/rounding.json``
was written by hand; what it gives changed once, when each engine got draws of its own (CHANGELOG,
"Bits changed"). ``golden/device.snapshot`` is a device in the middle of the second; tests of
the Rust crate `trn3` read it, and the programs too.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

FOLDER = Path(__file__).parent / "golden"
NAMES = ("everything", "rounding")


def inputs() -> dict[str, NDArray[Any]]:
    """Make the inputs of all programs, without a generator: its draws might change."""
    mixed = np.arange(32 * 64, dtype=np.uint64) * np.uint64(2654435761) % np.uint64(2**16)
    x = (mixed.astype(np.float32) / np.float32(2**13) - np.float32(4)).reshape(32, 64)
    return {
        "x": x,
        "y": np.ascontiguousarray(x[::-1]) * np.float32(0.375),
        "words": mixed.astype(np.uint32).reshape(32, 64) + np.uint32(1),
    }


def outcome(program: Any) -> dict[str, Any]:
    """Run a program (`trn3.nki.record` makes them) and return its time and its outputs' hashes."""
    given = inputs()
    replay = program.run({each.name: given[each.name] for each in program.inputs})
    return {
        "picoseconds": replay.picoseconds,
        "outputs": {
            name: {
                "dtype": value.dtype.name,
                "shape": list(value.shape),
                "sha256": hashlib.sha256(value.tobytes()).hexdigest(),
                "fnv1a64": f"{_fnv1a64(value.tobytes()):016x}",
            }
            for name, value in replay.outputs.items()
        },
    }


def expected(name: str) -> dict[str, Any]:
    """Return what a program gave when it was recorded."""
    found: dict[str, Any] = json.loads(
        (FOLDER / f"{name}.expected.json").read_text(encoding="utf-8")
    )
    return found


def _fnv1a64(content: bytes) -> int:
    """Hash as a test in another language does in three lines."""
    found = 0xCBF29CE484222325
    for byte in content:
        found = (found ^ byte) * 0x100000001B3 % 2**64
    return found
