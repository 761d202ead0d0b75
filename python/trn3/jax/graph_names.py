"""What graphs call the operations of StableHLO and CHLO."""

from __future__ import annotations

from trn3.graph import operations

__all__ = ["graph_names"]


def graph_names() -> dict[str, str]:
    """Names of graphs' operations by those in StableHLO and CHLO."""
    names: dict[str, str] = {}
    for row in operations():
        for name in row["jax"]:
            # The first that has it; what is made of the same operation follows by its body.
            names.setdefault(name, row["name"])
    return names
