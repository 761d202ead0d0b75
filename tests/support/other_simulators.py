"""What other simulators ask of their input files, rebuilt from what their public sources do.

None of them is in a package registry (the package called ``calculon`` is something else), so their
loaders cannot run here. Each function gives a line for everything in a file that its program would
refuse, or would read as something else than is meant; no line is a file that it takes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, Final

#: The version of each program whose checks these are: repository, and the last commit of the files
#: that read the input.
VERSIONS: Final = {
    "calculon": "calculon-ai/calculon: system.py 345f893, processor.py f50f3a4, "
    "memory.py b2fe815, network.py 71f6435 (April 2023)",
    "llmcompass": "PrincetonUniversity/LLMCompass: b95c6c9",
    "astra_sim": "astra-sim/astra-network-analytical: NetworkParser.cpp 1f4d8e6",
    "astra_sim_system": "astra-sim/astra-sim: Sys.cc 12737a6",
    "chakra": "mlcommons/chakra: schema/protobuf/et_def.proto f5124d7",
}


def _is_number(value: object, *, above: float | None = None, least: float = 0.0) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return value > above if above is not None else value >= least


def _keys(where: str, body: object, needed: Iterable[str], *, exact: bool = True) -> Iterator[str]:
    """Give what is missing, and with `exact` what is too much, of a mapping."""
    if not isinstance(body, Mapping):
        yield f"{where} is no mapping"
        return
    for key in sorted(set(needed) - set(body)):
        yield f"{where} lacks {key}"
    for key in sorted(set(body) - set(needed)) if exact else ():
        yield f"{where} has {key}"


# ------------------------------------------------------------------------------------- Calculon

_DATATYPES: Final = {"float8", "float16", "float32", "bfloat16"}
_COLLECTIVES: Final = {"reduce_scatter", "all_gather", "all_reduce"}
_NETWORK: Final = {
    "bandwidth", "efficiency", "size", "latency", "ops", "must_be_filled", "processor_usage",
}  # fmt: skip


def calculon_faults(system: Mapping[str, Any]) -> list[str]:
    """Return what Calculon would refuse of a system: GiB, GB/s, TFLOPS, seconds."""
    found = list(_keys(
        "system", system, {"matrix", "vector", "mem1", "mem2", "processing_mode", "networks"}
    ))  # fmt: skip
    if found:
        return found
    for engine in ("matrix", "vector"):
        found += _processor(engine, system[engine])
    for memory in ("mem1", "mem2"):
        found += _memory(memory, system[memory])
    if system["processing_mode"] not in {"roofline", "no_overlap"}:
        found.append(f"processing_mode is {system['processing_mode']!r}")
    sizes = [network.get("size") for network in system["networks"]]
    if sizes != sorted(sizes):
        found.append(f"networks are not in the order of their sizes: {sizes}")
    for number, network in enumerate(system["networks"]):
        found += _network(f"networks[{number}]", network)
    return found


def _processor(where: str, engine: Mapping[str, Any]) -> Iterator[str]:
    for datatype, body in engine.items():
        if datatype not in _DATATYPES:
            # Every key is taken for a type.
            yield f"{where} has {datatype}, which is no type"
            continue
        place = f"{where}.{datatype}"
        faults = list(_keys(place, body, {"tflops", "gflops_efficiency"}))
        yield from faults
        if not faults:
            if not _is_number(body["tflops"], above=0):
                yield f"{place}.tflops is {body['tflops']!r}"
            yield from _efficiencies(place, body["gflops_efficiency"])


def _memory(where: str, body: Mapping[str, Any]) -> Iterator[str]:
    faults = list(_keys(where, body, {"GiB", "GBps", "MB_efficiency"}))
    yield from faults
    if not faults:
        if not _is_number(body["GiB"]):
            yield f"{where}.GiB is {body['GiB']!r}"
        if not _is_number(body["GBps"], above=0):
            yield f"{where}.GBps is {body['GBps']!r}"
        yield from _efficiencies(where, body["MB_efficiency"])


def _efficiencies(where: str, table: Sequence[Sequence[float]]) -> Iterator[str]:
    """Check a table whose first line that is no larger than the operation counts."""
    if not all(len(line) == 2 and _is_number(line[0]) for line in table):
        yield f"{where}: a line is no pair of size and efficiency"
        return
    sizes = [size for size, _ in table]
    if any(left <= right for left, right in pairwise(sizes)):
        yield f"{where}: sizes do not fall"
    if not sizes or sizes[-1] != 0:
        yield f"{where}: sizes from 0 on are not covered"
    for _, efficiency in table:
        if not (_is_number(efficiency, above=0) and efficiency <= 1):
            yield f"{where}: efficiency {efficiency!r}"


def _network(where: str, body: Mapping[str, Any]) -> Iterator[str]:
    faults = list(_keys(where, body, _NETWORK))
    yield from faults
    if faults:
        return
    if not _is_number(body["bandwidth"], above=0):
        yield f"{where}.bandwidth is {body['bandwidth']!r}"
    if not (_is_number(body["efficiency"], above=0) and body["efficiency"] <= 1):
        yield f"{where}.efficiency is {body['efficiency']!r}"
    if not isinstance(body["size"], int) or body["size"] < 0:
        yield f"{where}.size is {body['size']!r}"
    if not _is_number(body["latency"]):
        yield f"{where}.latency is {body['latency']!r}"
    if not isinstance(body["must_be_filled"], bool):
        yield f"{where}.must_be_filled is {body['must_be_filled']!r}"
    if not (_is_number(body["processor_usage"]) and body["processor_usage"] < 1):
        yield f"{where}.processor_usage is {body['processor_usage']!r}"
    yield from _keys(f"{where}.ops", body["ops"], _COLLECTIVES | {"p2p"})
    for operation, pair in body["ops"].items():
        place = f"{where}.ops.{operation}"
        if not isinstance(pair, list) or len(pair) != 2 or not _is_number(pair[0], above=0):
            yield f"{place} is {pair!r}, no pair of scalar and offset"
        elif (pair[1] is None) == (operation in _COLLECTIVES):
            # A collective needs an offset, a message must have none.
            yield f"{place} has the offset {pair[1]!r}"


def calculon_seconds(network: Mapping[str, Any], operation: str, size: float, ranks: int) -> float:
    """Return what Calculon takes an operation of `size` bytes for."""
    scalar, offset = network["ops"][operation]
    moved = size * scalar * (1 + (offset or 0) / ranks)
    return float(network["latency"] + moved / (network["bandwidth"] * 1e9 * network["efficiency"]))


# ----------------------------------------------------------------------------------- LLMCompass

#: Where a value is read, and whether it may be a fraction. The reader takes whole numbers of bits
#: out of the names of types, and multiplies SRAM, buffer and memory by 1,024 and its powers.
_ARCHITECTURE: Final = {
    "device_count": int,
    "interconnect.link_count_per_device": int,
    "interconnect.link.bandwidth_per_direction_byte": float,
    "interconnect.link.bandwidth_both_directions_byte": float,
    "interconnect.link.latency_second": float,
    "interconnect.link.flit_size_byte": int,
    "interconnect.link.max_payload_size_byte": int,
    "interconnect.link.header_size_byte": int,
    "device.frequency_Hz": float,
    "device.compute_chiplet_count": int,
    "device.compute_chiplet.core_count": int,
    "device.compute_chiplet.core.sublane_count": int,
    "device.compute_chiplet.core.SRAM_KB": float,
    "device.compute_chiplet.core.vector_unit.vector_width": int,
    "device.compute_chiplet.core.vector_unit.flop_per_cycle": float,
    "device.compute_chiplet.core.systolic_array.array_height": int,
    "device.compute_chiplet.core.systolic_array.array_width": int,
    "device.compute_chiplet.core.systolic_array.mac_per_cycle": float,
    "device.io.global_buffer_MB": float,
    "device.io.global_buffer_bandwidth_per_cycle_byte": float,
    "device.io.memory_channel_active_count": int,
    "device.io.pin_count_per_channel": int,
    "device.io.bandwidth_per_pin_bit": float,
    "device.memory.total_capacity_GB": float,
}
_TYPES: Final = ("vector_unit", "systolic_array")


def llmcompass_faults(hardware: Mapping[str, Any]) -> list[str]:
    """Return what LLMCompass could not read of a description, or would read as something else."""
    found = []
    for path, kind in _ARCHITECTURE.items():
        value: Any = hardware
        for key in path.split("."):
            value = value.get(key) if isinstance(value, Mapping) else None
        if not _is_number(value, above=0) or (kind is int and not isinstance(value, int)):
            found.append(f"{path} is {value!r}")
    core = hardware.get("device", {}).get("compute_chiplet", {}).get("core", {})
    for unit in _TYPES:
        name = str(core.get(unit, {}).get("data_type"))
        digits = "".join(filter(str.isdigit, name))
        if not digits or int(digits) % 8:
            found.append(f"{unit}.data_type is {name!r}, which has no whole number of bytes")
    topology = hardware.get("interconnect", {}).get("topology")
    if topology not in {"FC", "RING"}:
        # Anything but FC is a ring to it.
        found.append(f"interconnect.topology is {topology!r}")
    if not found:
        link = hardware["interconnect"]["link"]
        if link["bandwidth_both_directions_byte"] < link["bandwidth_per_direction_byte"]:
            found.append("a link has less in both directions than in one")
    return found


# ------------------------------------------------------------------------------------ ASTRA-sim

_BLOCKS: Final = ("Ring", "FullyConnected", "Switch")


def astra_sim_faults(network: Mapping[str, Any]) -> list[str]:
    """Return what the analytical network of ASTRA-sim would refuse: GB/s and ns."""
    lists = ("topology", "npus_count", "bandwidth", "latency")
    found = list(_keys("network", network, lists))
    found += [f"{key} is no list" for key in lists if not isinstance(network.get(key), list)]
    if found:
        return found
    count = len(network["topology"])
    found += [f"{key} has {len(network[key])} entries, not {count}"
              for key in lists if len(network[key]) != count]  # fmt: skip
    found += [f"topology {name!r}" for name in network["topology"] if name not in _BLOCKS]
    found += [f"npus_count {size!r}" for size in network["npus_count"]
              if isinstance(size, bool) or not isinstance(size, int) or size <= 1]  # fmt: skip
    found += [f"bandwidth {rate!r}" for rate in network["bandwidth"]
              if not _is_number(rate, above=0)]  # fmt: skip
    found += [f"latency {time!r}" for time in network["latency"] if not _is_number(time)]
    return found


_ALGORITHMS: Final = {
    "ring", "oneRing", "doubleBinaryTree", "direct", "oneDirect", "halvingDoubling",
    "oneHalvingDoubling",
}  # fmt: skip
_CHOICES: Final = {
    "scheduling-policy": {"LIFO", "FIFO", "EXPLICIT"},
    "collective-optimization": {"baseline", "localBWAware"},
}
_COUNTS: Final = ("endpoint-delay", "active-chunks-per-dimension", "preferred-dataset-splits")


def astra_sim_system_faults(system: Mapping[str, Any], sizes: Sequence[int]) -> list[str]:
    """Return what ASTRA-sim would refuse of a system, for a network of dimensions of `sizes`.

    It knows all keys and takes none that is missing; what has no effect is a fault here.
    """
    implementations = [
        f"{name}-implementation"
        for name in ("all-reduce", "all-gather", "reduce-scatter", "all-to-all")
    ]
    numbers = (*_COUNTS, "roofline-enabled", "peak-perf", "local-mem-bw")
    found = list(_keys("system", system, {*implementations, *_CHOICES, *numbers}))
    if found:
        return found
    for key in implementations:
        if len(system[key]) != len(sizes):
            found.append(f"{key} has {len(system[key])} dimensions, not {len(sizes)}")
        for name, size in zip(system[key], sizes, strict=False):
            if name not in _ALGORITHMS:
                found.append(f"{key} has {name!r}")
            elif "halving" in name.lower() and size & (size - 1):
                found.append(f"{key}: {name} of {size}, no power of two")
    found += [f"{key} is {system[key]!r}" for key, known in _CHOICES.items()
              if system[key] not in known]  # fmt: skip
    found += [f"{key} is {system[key]!r}" for key in numbers
              if not _is_number(system[key], above=0)]  # fmt: skip
    found += [f"{key} is no whole number" for key in _COUNTS if not isinstance(system[key], int)]
    return found


# --------------------------------------------------------------------------------------- Chakra

#: The interface of a trace: numbers and types of the fields of each message.
CHAKRA_MESSAGES: Final = {
    "GlobalMetadata": {"version": (1, "string"), "attr": (2, "AttributeProto*")},
    "IOInfo": {
        "values": (1, "string"), "shapes": (2, "string"),
        "types": (3, "string"), "strides": (4, "string"),
    },
    "Node": {
        "id": (1, "uint64"), "name": (2, "string"), "type": (3, "NodeType"),
        "ctrl_deps": (4, "uint64*"), "data_deps": (5, "uint64*"),
        "start_time_micros": (6, "uint64"), "duration_micros": (7, "uint64"),
        "inputs": (8, "IOInfo"), "outputs": (9, "IOInfo"), "attr": (10, "AttributeProto*"),
    },
}  # fmt: skip
#: Kinds of values of an attribute: one has the field 3, 5, ..., a list of it the next.
CHAKRA_KINDS: Final = (
    "double", "float", "int32", "int64", "uint32", "uint64", "sint32", "sint64", "fixed32",
    "fixed64", "sfixed32", "sfixed64", "bool", "string", "bytes",
)  # fmt: skip
CHAKRA_NODE_TYPES: Final = (
    "INVALID_NODE", "METADATA_NODE", "MEM_LOAD_NODE", "MEM_STORE_NODE", "COMP_NODE",
    "COMM_SEND_NODE", "COMM_RECV_NODE", "COMM_COLL_NODE",
)  # fmt: skip


def chakra_classes() -> dict[str, Any]:
    """Return classes that read the messages of a trace by Chakra's schema."""
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    kinds = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(
        name="chakra_of_others.proto", package="Others", syntax="proto3"
    )
    types = file.enum_type.add(name="NodeType")
    for number, name in enumerate(CHAKRA_NODE_TYPES):
        types.value.add(name=name, number=number)

    def add(message: Any, name: str, number: int, kind: str, oneof: int | None = None) -> None:
        is_list, kind = kind.endswith("*"), kind.removesuffix("*")
        field = message.field.add(name=name, number=number)
        field.label = kinds.LABEL_REPEATED if is_list else kinds.LABEL_OPTIONAL
        if kind in CHAKRA_KINDS:
            field.type = getattr(kinds, f"TYPE_{kind.upper()}")
        else:
            field.type = kinds.TYPE_ENUM if kind == "NodeType" else kinds.TYPE_MESSAGE
            field.type_name = f".Others.{kind}"
        if oneof is not None:
            field.oneof_index = oneof

    attribute = file.message_type.add(name="AttributeProto")
    attribute.oneof_decl.add(name="value")
    add(attribute, "name", 1, "string")
    add(attribute, "doc_string", 2, "string")
    for place, kind in enumerate(CHAKRA_KINDS):
        several = f"{kind.capitalize()}List"
        add(file.message_type.add(name=several), "values", 1, f"{kind}*")
        add(attribute, f"{kind}_val", 3 + 2 * place, kind, 0)
        add(attribute, f"{kind}_list", 4 + 2 * place, several, 0)
    for name, fields in CHAKRA_MESSAGES.items():
        message = file.message_type.add(name=name)
        for field, (number, kind) in fields.items():
            add(message, field, number, kind)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {
        name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"Others.{name}"))
        for name in ("GlobalMetadata", "Node")
    }


def chakra_faults(trace: bytes) -> list[str]:
    """Return what of a trace's file Chakra's schema does not have, or its readers stumble over."""
    from google.protobuf.unknown_fields import UnknownFieldSet

    classes = chakra_classes()
    first, *rest = messages(trace)
    found = []
    metadata = classes["GlobalMetadata"].FromString(first)
    if not metadata.version:
        found.append("the metadata say no version")
    nodes = [classes["Node"].FromString(data) for data in rest]
    known = {node.id for node in nodes}
    if len(known) < len(nodes):
        found.append("an id comes twice")
    for node in nodes:
        if len(UnknownFieldSet(node)):
            found.append(f"node {node.id} has fields that the schema does not")
        if not 0 < node.type < len(CHAKRA_NODE_TYPES):
            found.append(f"node {node.id} is of type {node.type}")
        absent = sorted({*node.ctrl_deps, *node.data_deps} - known)
        found += [f"node {node.id} waits for {each}, which is not there" for each in absent]
        names = {each.name for each in node.attr}
        collective = CHAKRA_NODE_TYPES.index("COMM_COLL_NODE")
        if node.type == collective and not {"comm_type", "comm_size"} <= names:
            found.append(f"node {node.id} says no comm_type or comm_size")
    return found


def messages(data: bytes) -> Iterator[bytes]:
    """Give the messages of a stream, each without its length."""
    place = 0
    while place < len(data):
        length = shift = 0
        while True:
            byte = data[place]
            place += 1
            length |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                break
        yield data[place : place + length]
        place += length
