"""Programs of version 0.1.0 load, and give the bits that they gave in the time that they took."""

from __future__ import annotations

import json
from typing import Any

import pytest

from surface import golden, golden_kernel, python_names
from trn3 import nki

#: Steps that a program of format version 1 may have.
OPERATIONS = {
    "activate2", "activation", "activation_reduce", "affine_select", "bn_aggr", "bn_stats",
    "dma_compute", "dma_copy", "dma_transpose", "dropout", "exponential", "fresh", "iota",
    "local_gather", "max8", "memset", "nc_find_index8", "nc_match_replace8", "nc_matmul",
    "nc_matmul_mx", "nc_matmul_sparse", "nc_n_gather", "nc_stream_shuffle", "nc_transpose",
    "nonzero_with_count", "quantize_mx", "rand2", "rand_get_state", "rand_set_state",
    "range_select", "reciprocal", "register_load", "register_move", "register_store", "rng",
    "scalar_tensor_tensor", "select_reduce", "sequence_bounds", "set_register", "set_rng_seed",
    "stochastic_rounding", "tensor_copy", "tensor_copy_predicated", "tensor_partition_reduce",
    "tensor_reduce", "tensor_scalar", "tensor_scalar_cumulative", "tensor_scalar_reduce",
    "tensor_tensor", "tensor_tensor_scan", "topk",
}  # fmt: skip


@pytest.mark.parametrize("name", golden.NAMES)
def test_programs_of_the_first_version_run_as_they_did(name: str) -> None:
    program = python_names.find("trn3.nki.recording:Program").load(golden.FOLDER / f"{name}.json")
    assert json.loads(program.text)["version"] == 1
    assert golden.outcome(program) == golden.expected(name)


def test_the_programs_have_every_step_of_the_format() -> None:
    texts = [(golden.FOLDER / f"{name}.json").read_text("utf-8") for name in golden.NAMES]
    assert {step["op"] for text in texts for step in json.loads(text)["steps"]} == OPERATIONS


def test_the_kernel_recorded_anew_gives_the_same() -> None:
    given: dict[str, Any] = golden.inputs()
    program = nki.record(golden_kernel.everything, **given)
    assert golden.outcome(program) == golden.expected("everything")
