"""Reads and writes the files of Chakra traces."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from trn3.files import write_bytes
from trn3.interchange.chakra.schema import messages
from trn3.interchange.chakra.trace import Attribute, IOInfo, Node, NodeType, Trace, TraceError

VARINT_BYTES = 10


def dumps(trace: Trace) -> bytes:
    """Return a trace as the bytes of its file.

    Raises
    ------
    TraceError
        If nodes contradict each other.
    ImportError
        If protobuf is not installed.
    """
    return b"".join(_pieces(trace))


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
    write_bytes(path, _pieces(trace))


def loads(data: bytes, what: str = "trace") -> Trace:
    """Return the trace that the bytes of a file hold; `what` names them in messages.

    Raises
    ------
    TraceError
        If they are no trace, or its nodes contradict each other; the text has the offset.
    """
    return _read(io.BytesIO(data), what)


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
    with Path(path).open("rb") as file:
        return _read(file, os.fspath(path))


def _pieces(trace: Trace) -> Iterator[bytes]:
    trace.check()
    schema = messages()
    metadata = schema.GlobalMetadata(version=trace.version)
    for attribute in trace.attributes:
        _set_attribute(metadata.attr.add(), attribute)
    yield _delimited(metadata)
    for node in trace.nodes:
        message = schema.Node(
            id=node.id,
            name=node.name,
            type=int(node.type),
            ctrl_deps=node.ctrl_deps,
            data_deps=node.data_deps,
            start_time_micros=node.start_time_micros,
            duration_micros=node.duration_micros,
        )
        for name in ("inputs", "outputs"):
            info = getattr(node, name)
            if info is not None:
                getattr(message, name).SetInParent()
                for part in ("values", "shapes", "types"):
                    setattr(getattr(message, name), part, getattr(info, part))
        for attribute in node.attributes:
            _set_attribute(message.attr.add(), attribute)
        if node.storage is not None:
            message.storage = node.storage
        yield _delimited(message)


def _delimited(message: Any) -> bytes:
    body: bytes = message.SerializeToString(deterministic=True)
    return _varint(len(body)) + body


def _varint(number: int) -> bytes:
    parts = bytearray()
    while number > 0x7F:
        parts.append(number & 0x7F | 0x80)
        number >>= 7
    parts.append(number)
    return bytes(parts)


def _set_attribute(message: Any, attribute: Attribute) -> None:
    message.name = attribute.name
    if attribute.doc:
        message.doc_string = attribute.doc
    if isinstance(attribute.value, tuple):
        values = getattr(message, f"{attribute.kind}_list")
        values.SetInParent()
        values.values.extend(attribute.value)
    else:
        setattr(message, f"{attribute.kind}_val", attribute.value)


def _read(file: BinaryIO, what: str) -> Trace:
    schema = messages()
    size = file.seek(0, os.SEEK_END)
    file.seek(0)
    metadata = _message(file, size, schema.GlobalMetadata, what)
    if metadata is None:
        message = f"{what}: is empty; a trace begins with its metadata"
        raise TraceError(message)
    nodes: list[Node] = []
    while (message := _message(file, size, schema.Node, what)) is not None:
        nodes.append(_node(message, what))
    trace = Trace(tuple(nodes), metadata.version, tuple(_attribute(m, what) for m in metadata.attr))
    trace.check(what)
    return trace


def _message(file: BinaryIO, size: int, class_: Any, what: str) -> Any:
    from google.protobuf.message import DecodeError

    start = file.tell()
    if start == size:
        return None
    length = 0
    for place in range(VARINT_BYTES + 1):
        byte = file.read(1)
        if not byte or place == VARINT_BYTES:
            message = f"{what}: byte {start}: a length that does not end"
            raise TraceError(message)
        length |= (byte[0] & 0x7F) << (7 * place)
        if byte[0] < 0x80:
            break
    if length > size - file.tell():
        message = (
            f"{what}: byte {start}: a {class_.DESCRIPTOR.name} of {length} bytes, but only "
            f"{size - file.tell()} bytes follow: the file is cut off or is no trace"
        )
        raise TraceError(message)
    try:
        return class_.FromString(file.read(length))
    except DecodeError as error:
        message = f"{what}: byte {start}: no {class_.DESCRIPTOR.name}: {error}"
        raise TraceError(message) from error


def _node(message: Any, what: str) -> Node:
    try:
        type_ = NodeType(message.type)
    except ValueError:
        text = (
            f"{what}: node {message.id} ({message.name!r}) has type {message.type}; "
            f"known: {', '.join(f'{t.value} {t.name}' for t in NodeType)}"
        )
        raise TraceError(text) from None
    return Node(
        message.id,
        message.name,
        type_,
        tuple(message.ctrl_deps),
        tuple(message.data_deps),
        message.start_time_micros,
        message.duration_micros,
        _io(message, "inputs"),
        _io(message, "outputs"),
        tuple(_attribute(attribute, what) for attribute in message.attr),
        message.storage if message.HasField("storage") else None,
    )


def _io(message: Any, name: str) -> IOInfo | None:
    if not message.HasField(name):
        return None
    info = getattr(message, name)
    return IOInfo(info.values, info.shapes, info.types)


def _attribute(message: Any, what: str) -> Attribute:
    which = message.WhichOneof("value")
    if which is None:
        text = f"{what}: attribute {message.name!r} has no value"
        raise TraceError(text)
    kind, form = which.rsplit("_", 1)
    value = getattr(message, which)
    return Attribute(
        message.name, tuple(value.values) if form == "list" else value, kind, message.doc_string
    )
