"""A program of each instruction, recorded from one valid call."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any, Final

import numpy as np

from support.conformance.suite import ROWS
from support.conformance.table import Call, Tiles
from support.core import Machine
from trn3.machine.instructions import REQUIRED, InstructionDescription, instructions
from trn3.nki import isa

_STATE: Final = np.ones((128, 6), np.uint32)

#: Calls of what the suite's tables call in scripts of their own.
_CALLS: Final[dict[str, Callable[[Machine], dict[str, Any]]]] = {
    "register_move": lambda _: {"dst": isa.register_alloc(), "src": 5},
    "register_load": lambda machine: {
        "dst": isa.register_alloc(),
        "src": machine.tile(np.zeros((1, 1), np.int32), "int32"),
    },
    "register_store": lambda machine: {
        "dst": machine.empty((1, 1), "int32"),
        "src": isa.register_alloc(3),
    },
    "rng": lambda machine: {"dst": machine.empty((128, 4), "uint32")},
    "rand2": lambda machine: {"dst": machine.empty((128, 4)), "min": 0.0, "max": 1.0},
    "rand_get_state": lambda machine: {"dst": machine.empty((128, 6), "uint32")},
    "rand_set_state": lambda machine: {"src_seeds": machine.tile(_STATE, "uint32")},
    "set_rng_seed": lambda machine: {
        "src_seeds": machine.tile(np.ones((1, 1), np.uint32), "uint32")
    },
    "dropout": lambda machine: {
        "dst": machine.empty((128, 4)),
        "data": machine.tile(np.ones((128, 4), np.float32), "float32"),
        "prob": 0.5,
    },
    "nc_matmul_sparse": lambda machine: {
        "dst": machine.empty((4, 8), "float32", "psum"),
        "stationary": machine.tile(np.ones((4, 4), np.float32), "bfloat16"),
        "moving": machine.tile(np.ones((4, 4, 8), np.float32), "bfloat16"),
        "tags": machine.tile(np.array([[0], [0x1111], [0x2222], [0x3333]], np.uint16), "uint16"),
        "pattern": "4:16",
    },
}


def rows() -> Iterator[InstructionDescription]:
    """Yield the instructions that programs hold."""
    return (row for row in instructions().values() if row.keys)


def _arguments(name: str, machine: Machine) -> dict[str, Any]:
    if name in _CALLS:
        return _CALLS[name](machine)
    for row in ROWS:
        if row.function == name and row.arch == "trn3":
            call = row.build(np.random.default_rng(0))
            if isinstance(call, Call) and not call.before:
                return Tiles(machine).all(call.arguments)
    message = f"no row of the suite calls {name}"
    raise AssertionError(message)


def recorded(name: str) -> dict[str, Any]:
    """Return a program of one call of an instruction."""
    with Machine() as machine:
        arguments = _arguments(name, machine)
        machine.core.start_recording(name)
        getattr(isa, name)(**arguments)
        program: dict[str, Any] = json.loads(machine.core.recorded([], []))
    assert name in [step["op"] for step in program["steps"]]
    return program


def shortened(program: dict[str, Any], row: InstructionDescription) -> dict[str, Any]:
    """Return a program whose step leaves out what the table would put there."""
    defaults = {
        argument.name: argument.default
        for argument in row.arguments
        if argument.default is not REQUIRED and argument.name in row.keys
    }

    def is_kept(step: dict[str, Any], key: str) -> bool:
        return step["op"] != row.name or key not in defaults or step[key] != defaults[key]

    steps = [
        {key: value for key, value in step.items() if is_kept(step, key)}
        for step in program["steps"]
    ]
    return {**program, "steps": steps}
