"""Whole models as graphs of tensor operations, in Trainium's arithmetic.

Front ends write a graph as JSON (the page "Graphs" has the format and every operation); it is
checked as it is read, and runs on arrays of NumPy and ml_dtypes. Types are the program's: nothing
is cast down unless it is asked for.

Examples
--------
>>> from trn3 import graph
>>> {row["name"]: row["jax"] for row in graph.operations()}["add"]
['stablehlo.add']
"""

from trn3._trn3.graph import GraphError, OperationGraph
from trn3.graph.ranks import run_on_ranks
from trn3.graph.step_profile import (
    OperationCost,
    RegionCost,
    StepMemory,
    StepProfile,
    run_on_core,
)
from trn3.graph.table import markdown, matmul_paths, operations

__all__ = [
    "GraphError",
    "OperationCost",
    "OperationGraph",
    "RegionCost",
    "StepMemory",
    "StepProfile",
    "markdown",
    "matmul_paths",
    "operations",
    "run_on_core",
    "run_on_ranks",
]
