"""Tables under the names of Neuron Explorer."""

from __future__ import annotations

import sys
from typing import get_args

import pytest
from hypothesis import given

import trn3
from support.checks import error
from support.profiles import by_hand, empty, profile_data
from trn3.profile import Profile, ProfileData, TableName


def test_instruction_table_by_hand() -> None:
    table = by_hand().tables()["Instruction"]
    rows = [dict(zip(table, row, strict=True)) for row in zip(*table.values(), strict=True)]
    assert rows[3] == {
        "start_ts": 8000,
        "end_ts": 10_000,
        "duration_ns": 2000,
        "engine": "tensor",
        "opcode": "nc_matmul_mx",
        "id": 3,
        "pc": 1,
        "evt_wait_time_ns": 1000,
        "nki_source_location": "toy.py:5",
        "hbm_read_bytes": 0,
        "hbm_write_bytes": 0,
        "raw_flops": 2 * 500 * 65536,
        "adjusted_flops": 2 * 500 * 16384,
        "trn3_label": "",
        "trn3_slot_end_ts": 9000,
        "trn3_wait_cause": "vector",
        "trn3_waited_on_id": 2,
        "trn3_ready_ts": 8000,
        "trn3_bound_by": "nothing",
        "trn3_dma_queue": -1,
        "trn3_dma_bytes": 0,
        "stack_frame_ids": "[2]",
    }
    assert rows[0]["trn3_waited_on_id"] == -1
    assert rows[0]["hbm_read_bytes"] == 200_000
    assert [row["pc"] for row in rows] == [0, 0, 0, 1]


def test_dma_packet_table_by_hand() -> None:
    table = by_hand().table("DmaPacket")
    assert {name: values.tolist() for name, values in table.items()} == {
        "start_ts": [500, 2000],
        "end_ts": [2500, 3000],
        "duration_ns": [2000, 1000],
        "id": [0, 1],
        "packet_idx": [0, 1],
        "packet_aggregation_id": [0, 0],
        "engine_idx": [0, 1],
        "transfer_bytes": [30_000, 10_000],
        "throughput": [15e9, 10e9],
        "variable": ["", ""],
        "queue_idx": [0, 0],
    }


def test_aggregated_table_by_hand() -> None:
    table = by_hand().table("DmaPacketAggregated")
    assert {name: values.tolist() for name, values in table.items()} == {
        "start_ts": [500],
        "end_ts": [3000],
        "duration_ns": [2500],
        "id": [0],
        "transfer_bytes": [40_000],
        "throughput": [16e9],
        "variable": [""],
        "queue_idx": [0],
    }


def test_stack_frames_by_hand() -> None:
    """Lines that nobody called from elsewhere are outermost frames; an unknown line has none."""
    tables = by_hand().tables()
    frames = tables["StackFrame"]
    assert frames["id"].tolist() == ["1", "2", "3"]
    assert frames["parent_frame_id"].tolist() == ["0", "0", "0"]
    places = tables["StackFrameFileLocation"]
    assert places["line_number"].tolist() == [3, 5, 9]
    assert places["file_name_id"].tolist() == places["function_name_id"].tolist() == [1, 1, 1]
    assert tables["StackFrameFileName"]["name"].tolist() == ["toy.py"]
    assert tables["StackFrameFunctionName"]["name"].tolist() == ["toy"]
    document = by_hand().data.to_dict()
    document["instructions"]["site"] = [0, 1, 2, 3]
    table = Profile(ProfileData.from_dict(document)).table("Instruction")
    assert table["stack_frame_ids"].tolist() == ["", "[1]", "[2]", "[3]"]


def test_metadata_table_by_hand() -> None:
    row = {name: values.item() for name, values in by_hand().table("Metadata").items()}
    assert row.pop("trn3_version") == trn3.__version__
    assert row == {
        "num_physical_cores": 1,
        "vnc_enabled": 0,
        "first_hw_timestamp": 0,
        "last_hw_timestamp": 10_000,
        "dma_ddr_bandwidth": 80e9,
        "num_dma_engines_per_neuroncore": 4,
        "tensor_engine_num_rows": 128,
        "tensor_engine_num_cols": 128,
        "tensor_engine_clock_freq": 1.0,
        "profile_name": "toy",
        "trn3_arch": "toy",
    }


def test_summary_table_by_hand() -> None:
    table = by_hand().table("Summary")
    row = {name: values.item() for name, values in table.items()}
    expected = {
        "total_time": 10e-6,
        "total_active_time": 8e-6,
        "total_active_time_percent": 80,
        "hardware_flops": 2 * (2000 * 16384 + 500 * 65536),
        "mfu_estimated_percent": 25,
        "mbu_estimated_percent": 25,
        "hbm_read_bytes": 200_000,
        "hbm_write_bytes": 50_000,
        "dma_transfer_count": 1,
        "dma_transfer_average_bytes": 250_000,
        "dma_packet_time": 3e-6,
        "dma_active_time": 2.5e-6,
        "dma_active_time_percent": 25,
        "tensor_engine_instruction_count": 2,
        "tensor_engine_instruction_time": 3e-6,
        "tensor_engine_active_time": 3e-6,
        "tensor_engine_active_time_percent": 30,
        "vector_engine_active_time_percent": 20,
        "gpsimd_engine_instruction_count": 0,
        "trn3_latency_ps": 10_000_000,
        "trn3_overhead_time": 15e-6,
    }
    assert {name: row[name] for name in expected} == pytest.approx(expected)
    assert row["mm_arithmetic_intensity"] == pytest.approx(row["hardware_flops"] / 250_000)


@given(profile_data())
def test_tables_are_rectangular_and_consistent(data: ProfileData) -> None:
    tables = Profile(data).tables()
    assert list(tables) == [*get_args(TableName)]
    for name, count in (
        ("Instruction", len(data.instructions)),
        ("DmaPacket", len(data.transfers)),
        ("DmaPacketAggregated", len(set(data.transfers.instruction.tolist()))),
        ("Summary", 1),
        ("Metadata", 1),
    ):
        assert {len(values) for values in tables[name].values()} == {count}  # type: ignore[index]
    table = tables["Instruction"]
    for engine in set(table["engine"].tolist()):
        counters = table["pc"][table["engine"] == engine]
        assert counters.tolist() == list(range(len(counters)))
    for place in set(tables["DmaPacket"]["packet_aggregation_id"].tolist()):
        rows = tables["DmaPacket"]["packet_aggregation_id"] == place
        assert sorted(tables["DmaPacket"]["packet_idx"][rows]) == list(range(int(rows.sum())))


def test_tables_of_nothing() -> None:
    tables = Profile(empty()).tables()
    assert len(tables["Instruction"]["engine"]) == 0
    assert tables["Summary"]["total_time"].tolist() == [0]


def test_unknown_table_is_refused() -> None:
    with error(ValueError, "CcOp", "Instruction, DmaPacket, DmaPacketAggregated, Summary"):
        by_hand().table("CcOp")  # type: ignore[arg-type]


def test_to_dataframe_needs_pandas(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with error(ImportError, "to_dataframe", "pandas", "tables()"):
        by_hand().to_dataframe()


def test_to_dataframe() -> None:
    pytest.importorskip("pandas", reason="the extra `dataframe` is not installed")
    frame = by_hand().to_dataframe()
    assert frame["opcode"].tolist() == ["dma_copy", "nc_matmul", "tensor_tensor", "nc_matmul_mx"]
    assert frame.groupby("engine")["duration_ns"].sum()["tensor"] == 5000
    assert len(by_hand().to_dataframe("DmaPacket")) == 2
