"""The messages of ``execution_trace.proto``, built when they are first needed.

The classes live in a descriptor pool of their own: code generated from the schema would register
its names with protobuf itself, once a process, and refuse to load beside another reader of traces.
A test compiles the ``.proto`` file and compares.
"""

from __future__ import annotations

from functools import cache
from types import SimpleNamespace
from typing import Any, Final

from trn3.interchange.chakra.trace import KINDS, CollectiveType, NodeType

PACKAGE: Final = "ChakraProtoMsg"
#: Each kind of attribute has two fields, a value and a list; these are the numbers of the values.
KIND_NUMBERS: Final = {kind: 3 + 2 * place for place, kind in enumerate(KINDS)}

# Messages as (field, number, type); `*` before a type means many, a capital letter a message.
MESSAGES: Final[dict[str, tuple[tuple[str, int, str], ...]]] = {
    "GlobalMetadata": (("version", 1, "string"), ("attr", 2, "*AttributeProto")),
    "Node": (
        ("id", 1, "uint64"),
        ("name", 2, "string"),
        ("type", 3, "enum NodeType"),
        ("ctrl_deps", 4, "*uint64"),
        ("data_deps", 5, "*uint64"),
        ("start_time_micros", 6, "uint64"),
        ("duration_micros", 7, "uint64"),
        ("inputs", 8, "IOInfo"),
        ("outputs", 9, "IOInfo"),
        ("attr", 10, "*AttributeProto"),
        # On the wire a message is bytes: kept whole without knowing what is in it.
        ("storage", 11, "?bytes"),
    ),
    "IOInfo": (("values", 1, "string"), ("shapes", 2, "string"), ("types", 3, "string")),
}


def list_message(kind: str) -> str:
    """Return the name of the message that holds a list of a kind."""
    return f"{kind.capitalize()}List"


def descriptor() -> Any:
    """Return the schema as a ``FileDescriptorProto``."""
    from google.protobuf import descriptor_pb2

    file = descriptor_pb2.FileDescriptorProto(
        name="execution_trace.proto", package=PACKAGE, syntax="proto3"
    )
    field_types = descriptor_pb2.FieldDescriptorProto

    def add(message: Any, name: str, number: int, type_: str) -> Any:
        field = message.field.add(name=name, number=number)
        many = type_.startswith("*")
        field.label = field_types.LABEL_REPEATED if many else field_types.LABEL_OPTIONAL
        if type_.startswith("?"):
            field.proto3_optional = True
            field.oneof_index = len(message.oneof_decl)
            message.oneof_decl.add(name=f"_{name}")
        type_ = type_.lstrip("*?")
        if type_.startswith("enum "):
            field.type = field_types.TYPE_ENUM
            field.type_name = f".{PACKAGE}.{type_.removeprefix('enum ')}"
        elif type_[0].isupper():
            field.type = field_types.TYPE_MESSAGE
            field.type_name = f".{PACKAGE}.{type_}"
        else:
            field.type = field_types.Type.Value(f"TYPE_{type_.upper()}")
        return field

    attribute = file.message_type.add(name="AttributeProto")
    add(attribute, "name", 1, "string")
    add(attribute, "doc_string", 2, "string")
    attribute.oneof_decl.add(name="value")
    for kind, number in KIND_NUMBERS.items():
        add(attribute, f"{kind}_val", number, kind).oneof_index = 0
        add(attribute, f"{kind}_list", number + 1, list_message(kind)).oneof_index = 0
        add(file.message_type.add(name=list_message(kind)), "values", 1, f"*{kind}")
    for name, fields in MESSAGES.items():
        message = file.message_type.add(name=name)
        for field in fields:
            add(message, *field)
    for enum, type_name in ((NodeType, "NodeType"), (CollectiveType, "CollectiveCommType")):
        declared = file.enum_type.add(name=type_name)
        for member in enum:
            declared.value.add(name=member.name, number=member.value)
    return file


@cache
def messages() -> SimpleNamespace:
    """Return the message classes by name.

    Raises
    ------
    ImportError
        If protobuf is not installed.
    """
    try:
        from google.protobuf import descriptor_pool, message_factory
    except ImportError as error:
        message = "Chakra traces need the package protobuf: pip install 'trn3[interchange]'"
        raise ImportError(message) from error
    pool = descriptor_pool.DescriptorPool()
    pool.Add(descriptor())
    names = ("AttributeProto", "GlobalMetadata", "Node", "IOInfo")
    return SimpleNamespace(
        **{
            name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{PACKAGE}.{name}"))
            for name in names
        }
    )
