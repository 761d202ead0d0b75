"""Programs of every instruction, loaded by the C library."""

from __future__ import annotations

import ctypes
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.instructions import recorded, rows, shortened
from trn3.machine.instructions import InstructionDescription

pytestmark = pytest.mark.timeout(1800)


class Library:
    """A device of the installed library."""

    def __init__(self, path: Path) -> None:
        self._library = ctypes.CDLL(str(path))
        self._device = ctypes.c_void_p()
        spec = json.dumps({"arch": "trn3"}).encode()
        self._do(self._library.trn3_device_create(spec, len(spec), ctypes.byref(self._device)))

    def _do(self, status: int) -> None:
        if status:
            size = ctypes.c_size_t()
            self._library.trn3_last_error_size(ctypes.byref(size))
            text = ctypes.create_string_buffer(size.value)
            self._library.trn3_last_error(text, size)
            raise ValueError(text.value.decode())

    def load(self, program: Any) -> None:
        """Load a program and let it go again."""
        text = json.dumps(program).encode()
        number = ctypes.c_uint64()
        self._do(
            self._library.trn3_device_load(self._device, text, len(text), ctypes.byref(number))
        )
        self._do(self._library.trn3_device_unload(self._device, number))

    def close(self) -> None:
        """Let the device go."""
        self._library.trn3_device_destroy(self._device)


@pytest.fixture(scope="module")
def library(prefix: Path) -> Iterator[Library]:
    device = Library(prefix / "lib" / "libtrn3.so")
    yield device
    device.close()


@pytest.mark.parametrize("row", list(rows()), ids=lambda row: row.name)
def test_every_instruction_is_loaded(library: Library, row: InstructionDescription) -> None:
    """As it was recorded, and with what the table says left out; a key of none is refused."""
    program = recorded(row.name)
    library.load(program)
    library.load(shortened(program, row))
    steps = [
        {**step, "nonsense": 1} if step["op"] == row.name else step for step in program["steps"]
    ]
    with pytest.raises(ValueError, match="it takes " + ", ".join(row.keys)):
        library.load({**program, "steps": steps})
