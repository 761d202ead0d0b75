"""What a Chakra execution trace holds, as Python objects."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from functools import cached_property
from typing import Any, Final, TypeAlias

from trn3.system import execution_traces
from trn3.system.execution_traces import TraceError

__all__ = [
    "KINDS",
    "VERSION",
    "Attribute",
    "CollectiveType",
    "IOInfo",
    "Node",
    "NodeType",
    "Trace",
    "TraceError",
]

Scalar: TypeAlias = bool | int | float | str | bytes

#: The schema version that files of ours name.
VERSION: Final = "0.0.4"

# What a kind of attribute holds, and for whole numbers from where to where.
KINDS: Final[Mapping[str, tuple[type, tuple[int, int] | None]]] = {
    "double": (float, None),
    "float": (float, None),
    "int32": (int, (-(2**31), 2**31 - 1)),
    "int64": (int, (-(2**63), 2**63 - 1)),
    "uint32": (int, (0, 2**32 - 1)),
    "uint64": (int, (0, 2**64 - 1)),
    "sint32": (int, (-(2**31), 2**31 - 1)),
    "sint64": (int, (-(2**63), 2**63 - 1)),
    "fixed32": (int, (0, 2**32 - 1)),
    "fixed64": (int, (0, 2**64 - 1)),
    "sfixed32": (int, (-(2**31), 2**31 - 1)),
    "sfixed64": (int, (-(2**63), 2**63 - 1)),
    "bool": (bool, None),
    "string": (str, None),
    "bytes": (bytes, None),
}


class NodeType(IntEnum):
    """What a node does."""

    INVALID_NODE = 0
    METADATA_NODE = 1
    MEM_LOAD_NODE = 2
    MEM_STORE_NODE = 3
    COMP_NODE = 4
    COMM_SEND_NODE = 5
    COMM_RECV_NODE = 6
    COMM_COLL_NODE = 7
    STORAGE_NODE = 8
    BATCH_NODE = 9
    CHECKPOINT_NODE = 10


class CollectiveType(IntEnum):
    """Which collective a node of that type is: its attribute ``comm_type``."""

    ALL_REDUCE = 0
    REDUCE = 1
    ALL_GATHER = 2
    GATHER = 3
    SCATTER = 4
    BROADCAST = 5
    ALL_TO_ALL = 6
    REDUCE_SCATTER = 7
    REDUCE_SCATTER_BLOCK = 8
    BARRIER = 9


@dataclass(frozen=True, slots=True)
class Attribute:
    """A named value of a node or of a trace.

    Parameters
    ----------
    name
        What it is called; replay tools look for ``num_ops``, ``tensor_size``, ``comm_type``,
        ``comm_size``, ``comm_src``, ``comm_dst``, ``comm_tag``, ``pg_name``, ``is_cpu_op``.
    value
        A number, text, bytes or truth value, or a tuple of one sort of them.
    kind
        Its type in the file, such as ``"uint64"``; by default ``"bool"``, ``"int64"`` (``"uint64"``
        for what only that holds), ``"double"``, ``"string"`` or ``"bytes"`` after the value.
    doc
        A text for readers.

    Raises
    ------
    TypeError, ValueError
        If the value does not suit the kind.
    """

    name: str
    value: Scalar | tuple[Scalar, ...]
    kind: str = ""
    doc: str = ""

    def __post_init__(self) -> None:
        values = self.value if isinstance(self.value, tuple) else (self.value,)
        kind = self.kind or _kind_of(values, self.name)
        object.__setattr__(self, "kind", kind)
        if kind not in KINDS:
            message = f"attribute {self.name}: kind is {kind!r}; allowed: {', '.join(KINDS)}"
            raise ValueError(message)
        type_, limits = KINDS[kind]
        for value in values:
            suits = isinstance(value, type_) or (type_ is float and isinstance(value, int))
            if not suits or (isinstance(value, bool) and type_ is not bool):
                message = f"attribute {self.name}: {value!r} is no {kind}"
                raise TypeError(message)
            if limits and isinstance(value, int) and not limits[0] <= value <= limits[1]:
                message = (
                    f"attribute {self.name}: {value} is outside {kind}, {limits[0]} to {limits[1]}"
                )
                raise ValueError(message)


def _kind_of(values: tuple[Scalar, ...], name: str) -> str:
    if not values:
        message = f"attribute {name}: an empty tuple needs a kind; allowed: {', '.join(KINDS)}"
        raise ValueError(message)
    first = values[0]
    if isinstance(first, bool):
        return "bool"
    if isinstance(first, int):
        return "int64" if all(not isinstance(v, int) or v < 2**63 for v in values) else "uint64"
    for type_, kind in ((float, "double"), (str, "string"), (bytes, "bytes")):
        if isinstance(first, type_):
            return kind
    message = (
        f"attribute {name}: {first!r} is of type {type(first).__name__}; "
        "allowed: a number, text, bytes, a truth value or a tuple of them"
    )
    raise TypeError(message)


@dataclass(frozen=True, slots=True)
class IOInfo:
    """Inputs or outputs of a node: three texts, each a list in the writer's notation."""

    values: str = ""
    shapes: str = ""
    types: str = ""


@dataclass(frozen=True)
class Node:
    """One piece of work.

    Parameters
    ----------
    id
        From 0, unlike any other of the trace.
    name
        For readers.
    type
        What it does.
    ctrl_deps, data_deps
        The nodes that must end before it starts, for reasons of order and of data.
    start_time_micros, duration_micros
        When and how long it was measured to run, in whole microseconds.
    inputs, outputs
        What it reads and writes.
    attributes
        Everything else.
    storage
        The content of the newer field for storage nodes, kept as it came.
    """

    id: int
    name: str
    type: NodeType
    ctrl_deps: tuple[int, ...] = ()
    data_deps: tuple[int, ...] = ()
    start_time_micros: int = 0
    duration_micros: int = 0
    inputs: IOInfo | None = None
    outputs: IOInfo | None = None
    attributes: tuple[Attribute, ...] = ()
    storage: bytes | None = None

    def __post_init__(self) -> None:
        for name in ("id", "start_time_micros", "duration_micros"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int):
                message = f"node {self.name!r}: {name} is {value!r}, must be a whole number"
                raise TypeError(message)
            if not 0 <= value < 2**64:
                message = f"node {self.name!r}: {name} is {value}, must be from 0 to {2**64 - 1}"
                raise ValueError(message)

    @property
    def deps(self) -> Iterator[int]:
        """All nodes that must end before it starts."""
        yield from self.ctrl_deps
        yield from self.data_deps

    def get(self, name: str, default: Any = None) -> Any:
        """Return the value of an attribute; `default` if it has none of that name."""
        return next((each.value for each in self.attributes if each.name == name), default)


@dataclass(frozen=True)
class Trace:
    """What one rank does.

    Parameters
    ----------
    nodes
        In any order; see `check`.
    version
        Of the schema.
    attributes
        Of the trace as a whole.
    """

    nodes: tuple[Node, ...] = ()
    version: str = VERSION
    attributes: tuple[Attribute, ...] = field(default=())

    @cached_property
    def by_id(self) -> Mapping[int, Node]:
        """The nodes by their ids."""
        return {node.id: node for node in self.nodes}

    def check(self, what: str = "trace") -> None:
        """Check that ids are unlike each other, that what nodes wait for exists, and no cycle.

        Raises
        ------
        TraceError
            If not; the text names `what` and the node.
        """
        execution_traces.order(self, what)

    def order(self, what: str = "trace") -> tuple[Node, ...]:
        """Return the nodes so that each stands after those it waits for, else by place in the file.

        Raises
        ------
        TraceError
            As `check`.
        """
        return tuple(self.nodes[at] for at in execution_traces.order(self, what))
