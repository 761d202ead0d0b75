"""One question about collectives, asked at each door of the package."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import trn3.nki.collectives as ncc
import trn3.nki.language as nl
from support.ranks import on_hbm, whole
from trn3 import collectives, nki, systems
from trn3.__main__ import main
from trn3.interchange import chakra

Arrays = list[NDArray[Any]]
#: What each rank gets, if the door has values; and picoseconds.
Answer = tuple[Arrays | None, int]

#: One physical core a rank, as devices and kernels of one core have.
SYSTEM = systems.load("gen2", lnc=1)
OPERATIONS = ["all_reduce", "all_gather", "reduce_scatter", "all_to_all"]
#: Their short names in nccom-test.
SHORT = {
    "all_reduce": "allr",
    "all_gather": "allg",
    "reduce_scatter": "redsct",
    "all_to_all": "alltoall",
    "permute": "permute",
}
#: Elements that ranks get for each that they bring, by how many ranks there are.
GROWTH: dict[str, Callable[[int], float]] = {
    "all_reduce": lambda n: 1,
    "all_gather": lambda n: n,
    "reduce_scatter": lambda n: 1 / n,
    "all_to_all": lambda n: 1,
    "permute": lambda n: 1,
}


def picoseconds(seconds: float) -> int:
    return round(seconds * 1e12)


def arrays_of(ranks: int, dtype: Any, rows: int = 64) -> Arrays:
    """Values whose float32 sums depend on the order of the additions."""
    rng = np.random.default_rng(ranks)
    scale = np.exp2(rng.integers(-12, 12, (ranks, rows * 8, 16)))
    values = (rng.standard_normal((ranks, rows * 8, 16)) * scale).astype(np.float32)
    return [value.astype(dtype) for value in values]


def size_of(operation: str, arrays: Arrays) -> int:
    """Bytes of an operation, as costs count them."""
    return arrays[0].nbytes * (len(arrays) if operation == "all_gather" else 1)


def ring(ranks: int) -> list[tuple[int, int]]:
    return [(rank, (rank + 1) % ranks) for rank in range(ranks)]


def by_function(operation: str, arrays: Arrays, order: str = "index") -> Answer:
    """Ask `trn3.collectives`."""
    group = range(len(arrays))
    if operation == "permute":
        result = collectives.permute(arrays, ring(len(arrays)), SYSTEM, group)
    else:
        result = getattr(collectives, operation)(arrays, SYSTEM, group, **_order(operation, order))
    return list(result.outputs), picoseconds(result.time)


def by_method(operation: str, arrays: Arrays, order: str = "index") -> Answer:
    """Ask the methods of systems."""
    group = range(len(arrays))
    if operation == "permute":
        result = SYSTEM.permute(arrays, ring(len(arrays)), group)
    else:
        result = getattr(SYSTEM, operation)(arrays, group, **_order(operation, order))
    return list(result.outputs), picoseconds(result.time)


def _order(operation: str, order: str) -> dict[str, str]:
    return {"order": order} if operation in {"all_reduce", "reduce_scatter"} else {}


def by_kernel(operation: str, arrays: Arrays) -> Answer:
    """Ask a kernel of as many ranks."""
    n = len(arrays)
    name = "collective_permute" if operation == "permute" else operation

    def run(srcs: Any, dsts: Any, group: Any) -> None:
        if operation == "permute":
            ncc.collective_permute(srcs, dsts, ring(n))
        elif operation == "all_to_all":
            ncc.all_to_all(srcs, dsts, group, collective_dim=0)
        elif operation == "all_gather":
            ncc.all_gather(srcs, dsts, group, collective_dim=0)
        elif operation == "reduce_scatter":
            ncc.reduce_scatter(srcs, dsts, group, collective_dim=0, op=nl.add)
        else:
            ncc.all_reduce(srcs, dsts, group, nl.add)

    kernel = on_hbm(run, GROWTH[operation](n))
    results, profiles = nki.profile_ranks(
        kernel, [(array, whole(n)) for array in arrays], system=SYSTEM
    )
    data = profiles[0].data
    rows = np.flatnonzero(data.instructions.opcode == data.opcodes.index(name))
    (row,) = rows.tolist()
    took = int(data.instructions.end_ps[row]) - int(data.instructions.start_ps[row])
    return [np.asarray(result) for result in results], took


def by_command(operation: str, arrays: Arrays, capsys: pytest.CaptureFixture[str]) -> Answer:
    """Ask ``trn3 nccom-test``, which times without data, of a call in a program."""
    size = size_of(operation, arrays)
    words = f"nccom-test -r {len(arrays)} -b {size} -e {size} {SHORT[operation]} --system gen2"
    assert main([*words.split(), "--launch", "program", "--lnc", "1", "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)["results"]
    return None, picoseconds(row["time(us)"] * 1e-6)


def by_replay(operation: str, arrays: Arrays) -> Answer:
    """Ask the replay of a Chakra trace with that node alone in every rank."""
    kind = chakra.CollectiveType[operation.upper()]
    given = {"comm_type": kind, "comm_size": arrays[0].nbytes}
    attributes = tuple(chakra.Attribute(name, value) for name, value in given.items())
    node = chakra.Node(0, operation, chakra.NodeType.COMM_COLL_NODE, attributes=attributes)
    result = chakra.replay([chakra.Trace(nodes=(node,))] * len(arrays), SYSTEM)
    return None, picoseconds(result.finish)
