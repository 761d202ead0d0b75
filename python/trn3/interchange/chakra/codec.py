"""Reads and writes the files of Chakra traces."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

from trn3.files import read_bytes, write_bytes
from trn3.interchange.chakra.trace import Attribute, IOInfo, Node, NodeType, Trace, TraceError
from trn3.system import execution_traces


def dumps(trace: Trace) -> bytes:
    """Return a trace as the bytes of its file.

    Raises
    ------
    TraceError
        If nodes contradict each other.
    """
    return execution_traces.encode(trace)


def write(trace: Trace, path: str | os.PathLike[str]) -> None:
    """Write a trace; the file appears when it is complete.

    Parameters
    ----------
    trace
        What to write.
    path
        Where to; replay tools expect names like ``NAME.0.et``.

    Raises
    ------
    TraceError
        If nodes contradict each other.
    OSError
        If the file cannot be written.
    """
    write_bytes(path, [dumps(trace)])


def loads(data: bytes, what: str = "trace") -> Trace:
    """Return the trace that the bytes of a file hold; `what` names them in messages.

    Raises
    ------
    TraceError
        If they are no trace, or its nodes contradict each other; the text has the offset.
    """
    return made(*execution_traces.decode(bytes(data), what))


def made(version: str, attributes: Iterable[Any], nodes: Iterable[Any]) -> Trace:
    """Return a trace as the core gives it."""
    return Trace(
        tuple(
            Node(
                number, name, NodeType(type_), tuple(ctrl), tuple(deps), start, duration,
                inputs and IOInfo(*inputs), outputs and IOInfo(*outputs),
                tuple(Attribute(*each) for each in own), storage,
            )
            for number, name, type_, ctrl, deps, start, duration, inputs, outputs, own, storage
            in nodes
        ),
        version,
        tuple(Attribute(*each) for each in attributes),
    )  # fmt: skip


def read(path: str | os.PathLike[str]) -> Trace:
    """Read a trace.

    Fields that newer schemas may have are skipped; unknown attributes are kept.

    Raises
    ------
    TraceError
        If the file is no trace, or its nodes contradict each other; the text has the offset.
    OSError
        If it cannot be read.
    """
    return loads(read_bytes(path, "trace", TraceError), os.fspath(path))
