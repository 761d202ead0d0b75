"""Chakra traces: the schema, files back and forth, and files that are wrong."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from trn3.files import write_bytes
from trn3.interchange import chakra
from trn3.interchange.chakra import schema
from trn3.interchange.chakra.trace import KINDS

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


def test_schema_is_the_proto_file(tmp_path: Path) -> None:
    protoc = pytest.importorskip("grpc_tools.protoc")
    from google.protobuf import descriptor_pb2

    folder = Path(schema.__file__).parent
    words = ["protoc", f"-I{folder}", f"--descriptor_set_out={tmp_path / 'set'}"]
    assert protoc.main([*words, "execution_trace.proto"]) == 0
    compiled = descriptor_pb2.FileDescriptorSet.FromString((tmp_path / "set").read_bytes())
    (theirs,) = compiled.file
    ours = schema.descriptor()
    for file in (theirs, ours):
        for field in (field for message in file.message_type for field in message.field):
            field.ClearField("json_name")
        for repeated in (file.message_type, file.enum_type):
            repeated.sort(key=lambda each: each.name)
    assert theirs == ours


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


def test_codec_fits_two_readers_in_one_process() -> None:
    from google.protobuf import descriptor_pool

    descriptor_pool.Default().Add(schema.descriptor())
    assert chakra.loads(chakra.dumps(chakra.Trace())) == chakra.Trace()


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
