"""Chakra execution traces: the graphs of work that ASTRA-sim and other replay tools read.

A trace is a file for each rank, ``NAME.RANK.et``: a stream of protobuf messages, first one of
metadata, then a node for each piece of work: computation, memory access, send, receive,
collective. `read` and `write` them, make them from what a kernel's run recorded (`from_profile`)
or from a plan (`from_plan`), and `replay` them on a simulated system.

Examples
--------
>>> from trn3.interchange import chakra
>>> trace = chakra.Trace(nodes=(
...     chakra.Node(0, "matmul", chakra.NodeType.COMP_NODE, duration_micros=5),
...     chakra.Node(1, "sum", chakra.NodeType.COMM_COLL_NODE, data_deps=(0,), attributes=(
...         chakra.Attribute("comm_type", chakra.CollectiveType.ALL_REDUCE),
...         chakra.Attribute("comm_size", 1 << 20),
...     )),
... ))
>>> chakra.loads(chakra.dumps(trace)) == trace
True
"""

from __future__ import annotations

from trn3.interchange.chakra.codec import dumps, loads, read, write
from trn3.interchange.chakra.machine import from_profile
from trn3.interchange.chakra.ranks import rank_files, read_ranks, write_ranks
from trn3.interchange.chakra.replayed import (
    NodeSpan,
    PathStep,
    RankUse,
    Replay,
    TraceReplay,
)
from trn3.interchange.chakra.replaying import replay
from trn3.interchange.chakra.steps import from_plan, write_plan
from trn3.interchange.chakra.trace import (
    Attribute,
    CollectiveType,
    IOInfo,
    Node,
    NodeType,
    Trace,
    TraceError,
)

__all__ = [
    "Attribute",
    "CollectiveType",
    "IOInfo",
    "Node",
    "NodeSpan",
    "NodeType",
    "PathStep",
    "RankUse",
    "Replay",
    "Trace",
    "TraceError",
    "TraceReplay",
    "dumps",
    "from_plan",
    "from_profile",
    "loads",
    "rank_files",
    "read",
    "read_ranks",
    "replay",
    "write",
    "write_plan",
    "write_ranks",
]
