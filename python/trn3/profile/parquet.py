"""The tables of a run as Neuron Explorer's files of Parquet: for its viewer, SQL and scripts.

The fields, their types and units are those of the page "Profile Parquet Schema Reference" of the
AWS Neuron documentation; ``neuron_explorer.toml`` holds them, with the version and the page's
address. That a profile is a folder with a file for each table, named after it, is from the page
"Analyze Profile Output" beside it. Every field of a table stands in its file: what a simulator
cannot know is null.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterator, Mapping
from functools import cache, partial
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from trn3.profile.results import Table, TableName

if TYPE_CHECKING:
    import pyarrow as pa

#: Types of fields: those of OpenAPI, in which the schema is written, and its formats.
OPENAPI: Mapping[str, tuple[str, str]] = {
    "int64": ("integer", "int64"),
    "int32": ("integer", "int32"),
    "float": ("number", "float"),
    "double": ("number", "double"),
    "string": ("string", ""),
    "boolean": ("boolean", ""),
}
#: Types of columns of our own, by NumPy's kinds.
OWN = {"i": "int64", "f": "double", "O": "string"}
#: Fields that no run says and that have a word of their own for it.
UNSAID = {"queue_type": "unknown"}
#: Numbers of instructions and packets, which files count on from core to core.
IDS = {
    "Instruction": {"id": "Instruction", "trn3_waited_on_id": "Instruction"},
    "DmaPacket": {"id": "DmaPacket", "packet_aggregation_id": "Instruction"},
    "DmaPacketAggregated": {"id": "Instruction"},
}


class SchemaField(NamedTuple):
    """What the schema says of a field; a unit of "" is none."""

    type: str
    unit: str = ""
    required: str = ""


class ExplorerSchema(NamedTuple):
    """Version of the schema, and the fields of each table in their order."""

    version: str
    tables: Mapping[str, Mapping[str, SchemaField]]


@cache
def explorer_schema() -> ExplorerSchema:
    """Return the documented tables, as far as runs are written.

    >>> explorer_schema().tables["DmaPacket"]["throughput"]
    SchemaField(type='float', unit='bytes_per_second', required='required')
    """
    document = tomllib.loads(files(__package__).joinpath("neuron_explorer.toml").read_text("utf-8"))
    tables = {
        name: {field: SchemaField(*said) for field, said in fields.items()}
        for name, fields in document["tables"].items()
    }
    return ExplorerSchema(document["version"], tables)


def writers(
    tables: Mapping[TableName, Table], folder: Path
) -> dict[Path, Callable[[Path], object]]:
    """Return what writes each file.

    Raises
    ------
    ImportError
        If pyarrow is not installed.
    """
    try:
        import pyarrow as pa
    except ImportError as error:
        message = "tables of Parquet need pyarrow: pip install 'trn3[parquet]'"
        raise ImportError(message) from error
    schema = explorer_schema()
    columns = dict(_counted_on(tables))
    columns["Metadata"]["profile_schema_version"] = np.array([schema.version], object)
    fields = {name: _fields(columns.get(name, {}), said) for name, said in schema.tables.items()}
    columns["SchemaFields"] = _described(fields)
    return {
        folder / f"{name}.parquet": partial(_write, _arrow(pa, table, fields[name]))
        for name, table in columns.items()
    }


def _fields(columns: Table, said: Mapping[str, SchemaField]) -> dict[str, SchemaField]:
    """Return the fields of a file: those of the schema, then the columns of our own."""
    own = {
        name: SchemaField(OWN[values.dtype.kind])
        for name, values in columns.items()
        if name not in said
    }
    return {**said, **own}


def _counted_on(tables: Mapping[TableName, Table]) -> Iterator[tuple[str, Table]]:
    """Yield the tables with ids that are unique over all cores, and with each row's core."""
    before: dict[str, NDArray[np.int64]] = {}
    for of in ("Instruction", "DmaPacket"):
        count = np.bincount(tables[of].get("trn3_core", np.zeros(0, np.int64)))
        before[of] = np.cumsum(count) - count
    for name, table in tables.items():
        cores = table.get("trn3_core")
        made = dict(table)
        if name in IDS:
            made["pcore_idx"] = np.zeros(len(table["id"]), np.int64) if cores is None else cores
        if name in IDS and cores is not None:
            for column, of in IDS[name].items():
                ids = table[column]
                made[column] = np.where(ids < 0, ids, ids + before[of][cores])
        yield name, made


def _column(arrow: Any, values: NDArray[Any], field: SchemaField) -> pa.Array:
    if field.type == "string":
        # An empty text stands for none.
        return arrow.array(values, arrow.string(), mask=np.equal(values, "").astype(bool))
    return arrow.array(values, from_pandas=True).cast(arrow.type_for_alias(field.type))


def _arrow(arrow: Any, columns: Table, fields: Mapping[str, SchemaField]) -> pa.Table:
    rows = len(next(iter(columns.values())))
    made, declared = [], []
    for name, field in fields.items():
        if name in columns:
            column = _column(arrow, columns[name], field)
        elif name in UNSAID:
            column = arrow.array([UNSAID[name]] * rows, arrow.string())
        else:
            column = arrow.nulls(rows, arrow.type_for_alias(field.type))
        may_be_null = not field.required or column.null_count > 0
        made.append(column)
        declared.append(arrow.field(name, column.type, nullable=may_be_null))
    return arrow.table(made, schema=arrow.schema(declared))


def _described(fields: Mapping[str, Mapping[str, SchemaField]]) -> Table:
    """Return the table of all fields of all files; descriptions are the vendor's, and left out."""
    rows = [
        (table, name, *OPENAPI[field.type], bool(field.required), field.unit)
        for table, own in fields.items()
        for name, field in own.items()
    ]
    table, name, kind, form, required, unit = zip(*rows, strict=True)
    return {
        "table_name": np.array(table, object),
        "field_name": np.array(name, object),
        "field_type": np.array(kind, object),
        "field_format": np.array(form, object),
        "field_required": np.array(required),
        "field_unit": np.array(unit, object),
    }


def _write(table: pa.Table, path: Path) -> None:
    from pyarrow import parquet

    # Errors of a file of Python's name what the system says.
    with path.open("xb") as file:
        parquet.write_table(table, file)
