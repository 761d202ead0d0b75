"""The table of operations."""

from __future__ import annotations

from typing import TypedDict, cast

from trn3._trn3 import graph as _graph

__all__ = ["OperationRow", "markdown", "matmul_paths", "operations"]


class OperationRow(TypedDict):
    """What is known of an operation of graphs.

    Attributes
    ----------
    name : str
        In graphs.
    jax, aten : list of str
        Its names in StableHLO and CHLO, which JAX lowers to, and in PyTorch.
    template : str
        What computes it by instructions.
    accuracy : str
        How close the result is to the true value.
    """

    name: str
    jax: list[str]
    aten: list[str]
    template: str
    accuracy: str


def operations() -> list[OperationRow]:
    """Return what is known of every operation of graphs, in the order of the table.

    Examples
    --------
    >>> {row["name"]: row["accuracy"] for row in operations()}["sqrt"]
    'correctly rounded'
    """
    return cast("list[OperationRow]", _graph.operations())


def matmul_paths() -> list[str]:
    """Return the names of the arithmetics of products that `OperationGraph.execute` takes.

    Examples
    --------
    >>> matmul_paths()
    ['as_typed', 'bf16', 'mxfp8', 'mxfp4']
    """
    return _graph.matmul_paths()


def markdown() -> str:
    """Return the table as the page "Graphs" shows it.

    Examples
    --------
    >>> markdown().splitlines()[0]
    '| operation | StableHLO, CHLO | ATen | template | accuracy |'
    """
    lines = ["| operation | StableHLO, CHLO | ATen | template | accuracy |"]
    lines.append("| --- | --- | --- | --- | --- |")
    for row in operations():
        names = [", ".join(f"`{name}`" for name in row[of]) for of in ("jax", "aten")]
        # Operators of ours are written as PyTorch's schemas have them: a dot would be a module's.
        names[1] = names[1].replace("`trn3.", "`trn3::")
        cells = [f"`{row['name']}`", *names, row["template"], row["accuracy"]]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"
