"""Collectives of a device that C drives are those of every other door: bits and picoseconds."""

from __future__ import annotations

import ctypes
from ctypes import POINTER, byref, c_char, c_char_p, c_int32, c_size_t, c_uint32, c_uint64
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from support import doors
from support.ranks import same

pytestmark = pytest.mark.timeout(1800)

COLLECTIVE, NEVER, MESSAGE_BYTES = 4, 2**64 - 1, 256


class Command(ctypes.Structure):
    """`trn3_command` of the header."""

    _fields_ = (
        ("size", c_size_t),
        ("kind", c_uint32),
        ("core", c_uint32),
        ("program", c_uint64),
        ("step", c_uint64),
        ("dst_space", c_uint32),
        ("src_space", c_uint32),
        ("dst_address", c_uint64),
        ("src_address", c_uint64),
        ("rows", c_uint64),
        ("row_bytes", c_uint64),
        ("operation", c_uint32),
        ("reduction", c_uint32),
        ("group", POINTER(c_uint32)),
        ("group_count", c_size_t),
        ("key", c_uint64),
        ("count", c_uint64),
        ("dtype", c_char_p),
        ("dtype_length", c_size_t),
    )


class Completion(ctypes.Structure):
    """`trn3_completion` of the header."""

    _fields_ = (
        ("size", c_size_t),
        ("tag", c_uint64),
        ("core", c_uint32),
        ("status", c_int32),
        ("start_ps", c_uint64),
        ("end_ps", c_uint64),
        ("message", c_char * MESSAGE_BYTES),
    )


def by_device(library: ctypes.CDLL, operation: str, arrays: doors.Arrays) -> doors.Answer:
    """Ask a device whose cores are the ranks."""

    def call(name: str, *arguments: Any) -> None:
        assert getattr(library, name)(*arguments) == 0, name

    ranks, dtype = len(arrays), str(arrays[0].dtype)
    config = f'{{"cores": {ranks}, "system": "trn3_gen2"}}'.encode()
    device = ctypes.c_void_p()
    call("trn3_device_create", config, c_size_t(len(config)), byref(device))
    group = (c_uint32 * ranks)(*range(ranks))
    got = int(arrays[0].nbytes * doors.GROWTH[operation](ranks))
    for core, array in enumerate(arrays):
        place, spent = c_uint64(core << 24), c_uint64()
        given, length = array.tobytes(), c_size_t(array.nbytes)
        call("trn3_memory_write", device, 0, core, place, given, length, byref(spent))
    for core, array in enumerate(arrays):
        command = Command(
            size=ctypes.sizeof(Command),
            kind=COLLECTIVE,
            core=core,
            src_address=core << 24,
            dst_address=(1 << 30) | (core << 24),
            operation=doors.OPERATIONS.index(operation),
            group=group,
            group_count=ranks,
            key=7,
            count=array.size,
            dtype=dtype.encode(),
            dtype_length=len(dtype),
        )
        call("trn3_submit", device, byref(command), c_uint64(core))
    ends = set()
    while True:
        next_event = c_uint64()
        call("trn3_next_event", device, byref(next_event))
        if next_event.value == NEVER:
            break
        call("trn3_advance", device, next_event)
        done, count = Completion(size=ctypes.sizeof(Completion)), c_size_t()
        call("trn3_poll", device, byref(done), c_size_t(1), byref(count))
        while count.value:
            assert done.status == 0, done.message
            ends.add(done.end_ps - done.start_ps)
            call("trn3_poll", device, byref(done), c_size_t(1), byref(count))
    outputs = []
    for core in range(ranks):
        buffer, spent = ctypes.create_string_buffer(got), c_uint64()
        place = c_uint64((1 << 30) | (core << 24))
        call("trn3_memory_read", device, 0, core, place, buffer, c_size_t(got), byref(spent))
        outputs.append(np.frombuffer(buffer.raw, arrays[0].dtype))
    call("trn3_device_destroy", device)
    (took,) = ends
    return outputs, took


@pytest.fixture(scope="module")
def library(prefix: Path) -> ctypes.CDLL:
    """Load the C library and say of what types are the arguments that are no int."""
    loaded = ctypes.CDLL(str(prefix / "lib" / "libtrn3.so"))
    pointer = ctypes.c_void_p
    loaded.trn3_device_create.argtypes = [c_char_p, c_size_t, pointer]
    loaded.trn3_device_destroy.argtypes = [pointer]
    for name in ("trn3_memory_write", "trn3_memory_read"):
        arguments = [pointer, c_uint32, c_uint32, c_uint64, pointer, c_size_t, pointer]
        getattr(loaded, name).argtypes = arguments
    loaded.trn3_submit.argtypes = [pointer, pointer, c_uint64]
    loaded.trn3_next_event.argtypes = [pointer, pointer]
    loaded.trn3_advance.argtypes = [pointer, c_uint64]
    loaded.trn3_poll.argtypes = [pointer, pointer, c_size_t, pointer]
    return loaded


@pytest.mark.parametrize("ranks", [2, 8])
@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16, np.int32])
@pytest.mark.parametrize("operation", doors.OPERATIONS)
def test_a_device_answers_as_systems_and_kernels_do(
    library: ctypes.CDLL, operation: str, dtype: Any, ranks: int
) -> None:
    arrays = doors.arrays_of(ranks, dtype)
    wanted, took = doors.by_function(operation, arrays)
    assert wanted is not None
    outputs, time = by_device(library, operation, arrays)
    assert outputs is not None
    assert time == took
    for output, expected in zip(outputs, wanted, strict=True):
        same(output.reshape(expected.shape), expected)
