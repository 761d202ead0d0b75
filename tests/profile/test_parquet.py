"""The files of Neuron Explorer's tables: fields as documented, figures as in the profile."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from support.checks import error
from support.profiles import attention, by_hand, empty
from trn3 import nki
from trn3.nki import isa as nisa, language as nl
from trn3.profile import LogicalProfile, Profile, ProfileData
from trn3.profile.parquet import explorer_schema

pytest.importorskip("pyarrow", reason="the extra `parquet` is not installed")
# Names of Arrow for types of the schema.
ARROW = {
    "int64": "int64",
    "int32": "int32",
    "float": "float",
    "string": "string",
    "boolean": "bool",
}
FILES = {f"{name}.parquet" for name in explorer_schema().tables}


def read(folder: Path, table: str) -> Any:
    from pyarrow import parquet

    return parquet.read_table(folder / f"{table}.parquet")


def sql(folder: Path, query: str) -> list[tuple[Any, ...]]:
    """Run a query whose tables are the files of a folder."""
    duckdb = pytest.importorskip("duckdb", reason="the extra `dev` is not installed")
    with duckdb.connect() as connection:
        for file in folder.glob("*.parquet"):
            connection.execute(f"CREATE VIEW {file.stem} AS FROM '{file}'")
        return list(connection.execute(query).fetchall())


def doubled(tile: Any) -> Any:
    made = nl.ndarray(tile.shape, dtype=tile.dtype, buffer=nl.sbuf)
    nisa.tensor_scalar(made, tile, nl.multiply, 2.0)
    return made


@nki.jit
def quadrupled(x: Any) -> Any:
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    nisa.dma_copy(dst=out, src=doubled(doubled(tile)))
    return out


@pytest.fixture(scope="module")
def run() -> Profile:
    _, profile = nki.profile(quadrupled, np.ones((128, 64), np.float32))
    return profile


@pytest.fixture(scope="module")
def folder(run: Profile, tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("tables")
    assert {file.name for file in run.to_parquet(home)} == FILES
    assert {file.name for file in home.iterdir()} == FILES
    return home


@pytest.mark.parametrize("table", explorer_schema().tables)
def test_fields_are_those_of_the_schema(table: str, folder: Path) -> None:
    """All fields of the schema come first, in its order and types; what is required may be null."""
    documented = explorer_schema().tables[table]
    found = read(folder, table)
    names = [field.name for field in found.schema]
    assert names[: len(documented)] == list(documented)
    assert all(name.startswith("trn3_") for name in names[len(documented) :])
    for name, field in documented.items():
        assert str(found.schema.field(name).type) == ARROW[field.type], name
        null = found[name].null_count
        assert found.schema.field(name).nullable == (not field.required or null > 0), name


def test_schema_is_as_published() -> None:
    """Counts and a few fields, read off the page."""
    tables = explorer_schema().tables
    counts = {name: len(fields) for name, fields in tables.items()}
    assert counts == {
        "Instruction": 55, "DmaPacket": 17, "DmaPacketAggregated": 37, "Summary": 101,
        "Metadata": 38, "StackFrame": 3, "StackFrameFileLocation": 4, "StackFrameFileName": 2,
        "StackFrameFunctionName": 2, "SchemaFields": 12,
    }  # fmt: skip
    assert tables["Instruction"]["evt_wait_time_ns"] == ("int64", "nanoseconds", "")
    assert tables["DmaPacket"]["packet_idx"] == ("int32", "", "required")
    assert tables["StackFrame"]["parent_frame_id"] == ("string", "", "required")
    assert tables["Metadata"]["vnc_enabled"] == ("boolean", "", "required")
    assert tables["Summary"]["dma_transfer_average_bytes"] == ("float", "bytes", "")
    assert {field.type for fields in tables.values() for field in fields.values()} == set(ARROW)


def test_values_are_those_of_the_tables(run: Profile, folder: Path) -> None:
    """A file has the columns of `tables`, where an empty text is null, and nothing else."""
    for table, columns in run.tables().items():
        found = read(folder, table)
        for name, values in columns.items():
            wanted = [None if value == "" else value for value in values.tolist()]
            got = found[name].to_pylist()
            if str(found[name].type) == "float":
                got = [value if value is None else pytest.approx(value, rel=1e-7) for value in got]
            assert got == wanted, (table, name)
        filled = {name for name in found.column_names if found[name].null_count < len(found)}
        assert filled - columns.keys() <= {"pcore_idx", "queue_type", "profile_schema_version"}


def test_sums_are_the_figures(run: Profile, folder: Path, tmp_path: Path) -> None:
    run.to_json(tmp_path / "profile.json")
    figures = json.loads((tmp_path / "profile.json").read_text())["figures"]
    assert sql(folder, "SELECT trn3_latency_ps / 1e6 FROM Summary") == [(figures["latency_us"],)]
    assert sql(folder, "SELECT max(end_ts) FROM Instruction") == [
        (round(figures["latency_us"] * 1e6) // 1000,)
    ]
    ((read_bytes, written),) = sql(
        folder, "SELECT sum(hbm_read_bytes), sum(hbm_write_bytes) FROM Instruction"
    )
    assert (read_bytes, written) == (figures["hbm_read_bytes"], figures["hbm_write_bytes"])
    counts = dict(sql(folder, "SELECT engine, count(*) FROM Instruction GROUP BY engine"))
    engines = {each["engine"]: each["instructions"] for each in figures["engines"]}
    assert counts == {name: count for name, count in engines.items() if count}
    instructions = run.data.instructions
    of_queue = sql(
        folder,
        "SELECT trn3_dma_queue, sum(trn3_dma_bytes) FROM Instruction"
        " WHERE engine = 'dma' GROUP BY ALL",
    )
    assert dict(of_queue) == {
        int(queue): int(instructions.dma_bytes[instructions.queue == queue].sum())
        for queue in np.unique(instructions.queue[instructions.engine == 5])
    }
    ((bytes_moved,),) = sql(folder, "SELECT sum(dma_transfer_total_bytes) FROM Summary")
    assert bytes_moved == figures["dma_bytes"]


def test_packets_lead_to_their_transfers(run: Profile, folder: Path) -> None:
    """Byte quantities of an aggregated DMA are the sum of its packets; it spans them."""
    rows = sql(
        folder,
        "SELECT a.id, a.transfer_bytes, a.start_ts, a.end_ts, a.variable, sum(p.transfer_bytes),"
        " min(p.start_ts), max(p.end_ts), any_value(i.opcode)"
        " FROM DmaPacket p JOIN DmaPacketAggregated a ON p.packet_aggregation_id = a.id"
        " JOIN Instruction i ON i.id = a.id GROUP BY ALL ORDER BY a.id",
    )
    assert [row[1:4] for row in rows] == [row[5:8] for row in rows]
    assert [row[4] for row in rows] == ["x", "out"]
    assert {row[8] for row in rows} == {"dma_copy"}


def test_frames_lead_to_the_kernel(folder: Path) -> None:
    """The frame of an instruction in a helper was called from the kernel's own line."""
    rows = sql(
        folder,
        """
        WITH frame AS (
          SELECT f.id, f.parent_frame_id, l.line_number, n.name AS file, c.name AS function
          FROM StackFrame f
          JOIN StackFrameFileLocation l ON l.id = f.file_location_id::VARCHAR
          JOIN StackFrameFileName n ON n.id = l.file_name_id::VARCHAR
          JOIN StackFrameFunctionName c ON c.id = l.function_name_id::VARCHAR
        )
        SELECT i.nki_source_location, inner_.file || ':' || inner_.line_number, inner_.function,
               outer_.function, outer_.parent_frame_id
        FROM Instruction i
        JOIN frame inner_ ON i.stack_frame_ids = '[' || inner_.id || ']'
        LEFT JOIN frame outer_ ON outer_.id = inner_.parent_frame_id
        WHERE i.engine <> 'dma' ORDER BY i.id
        """,
    )
    assert len(rows) == 2
    for source, place, function, caller, root in rows:
        assert source == place
        assert Path(source.rpartition(":")[0]) == Path(__file__)
        assert (function, caller, root) == ("doubled", "quadrupled", "0")


def test_ids_are_unique_over_cores(tmp_path: Path) -> None:
    LogicalProfile([by_hand(), by_hand()]).to_parquet(tmp_path)
    instructions, packets = read(tmp_path, "Instruction"), read(tmp_path, "DmaPacket")
    assert instructions["id"].to_pylist() == list(range(8))
    assert instructions["pcore_idx"].to_pylist() == [0] * 4 + [1] * 4
    assert instructions["trn3_waited_on_id"].to_pylist() == [-1, 0, 1, 2, -1, 4, 5, 6]
    assert packets["id"].to_pylist() == [0, 1, 2, 3]
    assert packets["packet_aggregation_id"].to_pylist() == [0, 0, 4, 4]
    assert read(tmp_path, "DmaPacketAggregated")["id"].to_pylist() == [0, 4]
    (machine,) = read(tmp_path, "Metadata").to_pylist()
    assert (machine["num_physical_cores"], machine["vnc_enabled"]) == (2, True)
    assert len(read(tmp_path, "StackFrame")) == 3


def test_nothing_is_invented(tmp_path: Path) -> None:
    by_hand().to_parquet(tmp_path)
    (packet, _) = read(tmp_path, "DmaPacket").to_pylist()
    unknown = ("read_bytes", "write_bytes", "crc", "variable", "queue_name")
    assert [packet[name] for name in unknown] == [None] * 5
    assert packet["queue_type"] == "unknown"
    (machine,) = read(tmp_path, "Metadata").to_pylist()
    assert machine["profile_schema_version"] == explorer_schema().version
    assert machine["vector_engine_clock_freq"] is machine["is_simulation"] is None


def test_fields_are_described(folder: Path) -> None:
    """`SchemaFields` has a row for each field of each file, by OpenAPI's names."""
    described = {
        (row["table_name"], row["field_name"]): row
        for row in read(folder, "SchemaFields").to_pylist()
    }
    found = {
        (file.stem, name)
        for file in folder.iterdir()
        for name in read(folder, file.stem).column_names
    }
    assert described.keys() == found
    row = described["DmaPacket", "throughput"]
    assert (row["field_type"], row["field_format"], row["field_unit"], row["field_required"]) == (
        "number", "float", "bytes_per_second", True,
    )  # fmt: skip
    assert described["Instruction", "trn3_dma_bytes"]["field_format"] == "int64"
    assert described["Instruction", "opcode"]["field_format"] is None


def test_a_run_of_nothing_has_empty_tables(tmp_path: Path) -> None:
    Profile(empty()).to_parquet(tmp_path)
    for table in ("Instruction", "DmaPacket", "DmaPacketAggregated"):
        assert len(read(tmp_path, table)) == 0


def test_what_is_infinite_is_null(tmp_path: Path) -> None:
    document = by_hand().data.to_dict()
    for name in ("hbm_read", "hbm_write"):
        document["instructions"][name] = [0] * 4
    Profile(ProfileData.from_dict(document)).to_parquet(tmp_path)
    assert read(tmp_path, "Summary")["mm_arithmetic_intensity"].to_pylist() == [None]


def test_a_hundred_thousand_instructions_take_seconds(tmp_path: Path) -> None:
    profile = attention(9_091)
    assert len(profile.data.instructions) >= 100_000
    started = time.perf_counter()
    profile.to_parquet(tmp_path)
    assert time.perf_counter() - started < 10
    assert sql(tmp_path, "SELECT count(*), sum(trn3_dma_bytes) FROM Instruction") == [
        (len(profile.data.instructions), profile.dma_bytes)
    ]
    assert sum(file.stat().st_size for file in tmp_path.iterdir()) < 20e6


def test_files_appear_all_or_none(tmp_path: Path) -> None:
    (tmp_path / "Summary.parquet").mkdir()
    with error(IsADirectoryError, "Summary.parquet"):
        by_hand().to_parquet(tmp_path)
    assert [file.name for file in tmp_path.iterdir()] == ["Summary.parquet"]
    with error(NotADirectoryError, "missing: is no directory"):
        by_hand().to_parquet(tmp_path / "missing")


def test_it_needs_pyarrow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with error(ImportError, "Parquet", "pyarrow", "trn3[parquet]"):
        by_hand().to_parquet(tmp_path)
    assert not list(tmp_path.iterdir())
