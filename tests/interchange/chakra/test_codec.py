"""Chakra traces: the schema, files back and forth, and files that are wrong."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from google.protobuf.unknown_fields import UnknownFieldSet
from hypothesis import given, strategies as st

from support.commands import ROOT
from trn3.files import write_bytes
from trn3.interchange import chakra
from trn3.interchange.chakra.trace import KINDS

PROTO = ROOT / "rust/system/src/chakra/execution_trace.proto"
NAMES = st.text(st.characters(codec="utf-8"), max_size=12)


def values(kind: str) -> st.SearchStrategy[Any]:
    type_, limits = KINDS[kind]
    if limits is not None:
        return st.integers(*limits)
    if kind in {"double", "float"}:
        return st.floats(width=64 if kind == "double" else 32, allow_nan=False)
    return {bool: st.booleans(), str: NAMES, bytes: st.binary(max_size=9)}[type_]


@st.composite
def attributes(draw: st.DrawFn) -> chakra.Attribute:
    kind = draw(st.sampled_from(sorted(KINDS)))
    value = draw(values(kind) | st.lists(values(kind), max_size=3).map(tuple))
    return chakra.Attribute(draw(NAMES), value, kind, draw(NAMES))


@st.composite
def traces(draw: st.DrawFn) -> chakra.Trace:
    ids = draw(st.lists(st.integers(0, 2**64 - 1), unique=True, max_size=6))
    nodes = []
    infos = st.none() | st.builds(chakra.IOInfo, NAMES, NAMES, NAMES)
    for place, number in enumerate(ids):
        deps = (
            st.lists(st.sampled_from(ids[:place]), max_size=3).map(tuple) if place else st.just(())
        )
        nodes.append(
            chakra.Node(
                number,
                draw(NAMES),
                draw(st.sampled_from(list(chakra.NodeType))),
                draw(deps),
                draw(deps),
                draw(st.integers(0, 2**64 - 1)),
                draw(st.integers(0, 2**64 - 1)),
                draw(infos),
                draw(infos),
                draw(st.lists(attributes(), max_size=3).map(tuple)),
                draw(st.none() | st.binary(max_size=5)),
            )
        )
    order = draw(st.permutations(nodes))
    return chakra.Trace(
        tuple(order), draw(NAMES), draw(st.lists(attributes(), max_size=2).map(tuple))
    )


@given(traces())
def test_codec_returns_what_it_wrote(trace: chakra.Trace) -> None:
    assert chakra.loads(chakra.dumps(trace)) == trace


@cache
def compiled() -> dict[str, Any]:
    """Return the classes and enums that Google's compiler makes of the schema."""
    protoc = pytest.importorskip("grpc_tools.protoc")
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    with TemporaryDirectory() as folder:
        words = ["protoc", f"-I{PROTO.parent}", f"--descriptor_set_out={folder}/set"]
        assert protoc.main([*words, PROTO.name]) == 0
        files = descriptor_pb2.FileDescriptorSet.FromString(Path(folder, "set").read_bytes())
    pool = descriptor_pool.DescriptorPool()
    pool.Add(files.file[0])
    package = files.file[0].package
    found = {
        name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{package}.{name}"))
        for name in ("GlobalMetadata", "Node")
    }
    return found | {
        name: dict(pool.FindEnumTypeByName(f"{package}.{name}").values_by_name)
        for name in ("NodeType", "CollectiveCommType")
    }


def messages_of(data: bytes) -> Iterator[bytes]:
    while data:
        length = shift = 0
        while True:
            byte, data = data[0], data[1:]
            length |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                break
        yield data[:length]
        data = data[length:]


def values_of(message: Any) -> list[tuple[str, str, Any]]:
    found = []
    for attribute in message.attr:
        kind, form = attribute.WhichOneof("value").rsplit("_", 1)
        value = getattr(attribute, f"{kind}_{form}")
        found.append((attribute.name, kind, tuple(value.values) if form == "list" else value))
    return found


def assert_read_by_others(trace: chakra.Trace) -> None:
    first, *rest = messages_of(chakra.dumps(trace))
    metadata = compiled()["GlobalMetadata"].FromString(first)
    assert (metadata.version, metadata.SerializeToString(deterministic=True)) == (
        trace.version,
        first,
    )
    for node, data in zip(trace.nodes, rest, strict=True):
        read = compiled()["Node"].FromString(data)
        assert (read.id, read.name, read.type) == (node.id, node.name, node.type)
        assert (tuple(read.ctrl_deps), tuple(read.data_deps)) == (node.ctrl_deps, node.data_deps)
        assert read.start_time_micros == node.start_time_micros
        assert read.duration_micros == node.duration_micros
        for name in ("inputs", "outputs"):
            info = getattr(read, name) if read.HasField(name) else None
            assert (info and (info.values, info.shapes, info.types)) == (
                (own := getattr(node, name)) and (own.values, own.shapes, own.types)
            )
        assert values_of(read) == [(each.name, each.kind, each.value) for each in node.attributes]
        assert [each.doc_string for each in read.attr] == [each.doc for each in node.attributes]
        assert not list(UnknownFieldSet(read))
        assert read.SerializeToString(deterministic=True) == data


@given(traces())
def test_files_are_read_and_written_alike_by_code_compiled_from_the_schema(
    trace: chakra.Trace,
) -> None:
    assert_read_by_others(
        dataclasses.replace(
            trace, nodes=tuple(dataclasses.replace(node, storage=None) for node in trace.nodes)
        )
    )


def test_every_kind_of_attribute_is_the_schemas() -> None:
    made = []
    for kind, (type_, _) in KINDS.items():
        one = {float: 0.5, int: 3, bool: True, str: "x", bytes: b"y"}[type_]
        made += [chakra.Attribute(kind, one, kind), chakra.Attribute(kind, (one, one), kind)]
    node = chakra.Node(1, "n", chakra.NodeType.COMP_NODE, attributes=tuple(made))
    assert_read_by_others(chakra.Trace((node,)))


def test_numbers_of_types_are_the_schemas() -> None:
    for ours, theirs in (("NodeType", "NodeType"), ("CollectiveType", "CollectiveCommType")):
        numbers = {name: value.number for name, value in compiled()[theirs].items()}
        assert {each.name: each.value for each in getattr(chakra, ours)} == numbers


# Bytes written by hand after the table of the format: length, then tag and value, field by field.
BY_HAND = bytes.fromhex(
    "07 0a05302e302e34"  # metadata, version "0.0.4"
    "0b 0803 1203616464 1804 3807"  # id 3, name "add", type COMP, duration 7
    "1b 0804 120161 1807 2a0103"  # id 4, name "a", type COMM_COLL, data_deps [3] packed
    "520d 0a09636f6d6d5f73697a65 4805 "  # attr: comm_size, int64_val 5 (field 9)
    "5a00"  # storage, an empty message
)


def test_codec_reads_bytes_written_by_hand() -> None:
    trace = chakra.loads(BY_HAND)
    assert trace.version == "0.0.4"
    assert trace.nodes == (
        chakra.Node(3, "add", chakra.NodeType.COMP_NODE, duration_micros=7),
        chakra.Node(
            4,
            "a",
            chakra.NodeType.COMM_COLL_NODE,
            data_deps=(3,),
            attributes=(chakra.Attribute("comm_size", 5),),
            storage=b"",
        ),
    )
    assert chakra.dumps(trace) == BY_HAND


def test_codec_skips_fields_it_does_not_know() -> None:
    extended = bytes([len(BY_HAND[1:8]) + 3]) + BY_HAND[1:8] + bytes.fromhex("a00605") + BY_HAND[8:]
    assert chakra.loads(extended) == chakra.loads(BY_HAND)


@pytest.mark.parametrize(
    ("data", "needle"),
    [
        (b"", "is empty"),
        (BY_HAND[:-1], "cut off"),
        (BY_HAND[:9], "cut off"),
        (b"\x80" * 3, "length that does not end"),
        (b"\x80" * 20, "length that does not end"),
        (b"\x02\x0a\xff", "no GlobalMetadata"),
        (b"\x00\x04\x08\x01\x18\x7f", "type 127"),
        (b"\x00\x05\x08\x01\x52\x01\x0a", "no Node"),
        (b"\x00\x07\x08\x01\x52\x03\x0a\x01a", "has no value"),
        (b"\x00\x02\x08\x01\x02\x08\x01", "two nodes have the id 1"),
        (b"\x00\x05\x08\x01\x2a\x01\x07", "waits for 7, which is no node"),
        (b"\x00\x05\x08\x01\x2a\x01\x01", "waits for itself"),
    ],
)
def test_codec_refuses_wrong_files(data: bytes, needle: str, tmp_path: Path) -> None:
    path = tmp_path / "wrong.0.et"
    path.write_bytes(data)
    with pytest.raises(chakra.TraceError, match=needle) as caught:
        chakra.read(path)
    assert "wrong.0.et" in str(caught.value)


@given(st.binary(max_size=60))
def test_codec_never_fails_otherwise(data: bytes) -> None:
    for candidate in (data, BY_HAND[: len(data)] + data):
        with contextlib.suppress(chakra.TraceError):
            chakra.loads(candidate)


@pytest.mark.parametrize(
    ("make", "kind", "needle"),
    [
        (lambda: chakra.Attribute("a", 2**64), ValueError, "outside uint64"),
        (lambda: chakra.Attribute("a", -1, "uint32"), ValueError, "-1 is outside uint32"),
        (lambda: chakra.Attribute("a", "x", "int64"), TypeError, "'x' is no int64"),
        (lambda: chakra.Attribute("a", True, "int64"), TypeError, "True is no int64"),
        (lambda: chakra.Attribute("a", ()), ValueError, "needs a kind"),
        (lambda: chakra.Attribute("a", 1, "int65"), ValueError, "kind is 'int65'"),
        (lambda: chakra.Node(-1, "n", chakra.NodeType.COMP_NODE), ValueError, "id is -1"),
        (lambda: chakra.Node(0.5, "n", chakra.NodeType.COMP_NODE), TypeError, "id is 0.5"),  # type: ignore[arg-type]
    ],
)
def test_objects_refuse_what_no_file_holds(
    make: Callable[[], object], kind: type[Exception], needle: str
) -> None:
    with pytest.raises(kind, match=needle):
        make()


def test_ranks_are_all_there_or_named(tmp_path: Path) -> None:
    traces = [chakra.Trace(attributes=(chakra.Attribute("rank", rank),)) for rank in range(12)]
    paths = chakra.write_ranks(traces, tmp_path / "job")
    assert paths[11].name == "job.11.et"
    assert chakra.read_ranks(tmp_path / "job") == traces
    write_bytes(tmp_path / "jobs.0.et", [b""])
    paths[3].unlink()
    with pytest.raises(chakra.TraceError, match=r"job\.3\.et is missing: ranks go from 0 to 11"):
        chakra.read_ranks(tmp_path / "job")
    with pytest.raises(FileNotFoundError, match="No trace files"):
        chakra.read_ranks(tmp_path / "absent" / "job")


def test_order_puts_what_is_waited_for_first() -> None:
    comp = chakra.NodeType.COMP_NODE
    nodes = (
        chakra.Node(5, "c", comp, data_deps=(9,), ctrl_deps=(1,)),
        chakra.Node(9, "b", comp, data_deps=(1, 1)),
        chakra.Node(1, "a", comp),
        chakra.Node(2, "d", comp),
    )
    assert [node.name for node in chakra.Trace(nodes).order()] == ["a", "b", "c", "d"]
