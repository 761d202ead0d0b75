"""The page on coverage, counted from the tables and the docstrings.

``scripts/nki_coverage_doc.py`` writes it, and a test compares.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from typing import Any, Final

import trn3.nki.collectives as ncc
import trn3.nki.dialects.legacy.isa as legacy_isa
import trn3.nki.dialects.legacy.language as legacy_language
import trn3.nki.isa as nisa
import trn3.nki.language as nl
from support.conformance.behaviours import BEHAVIOURS
from support.conformance.release_names import MODULES, documented
from support.conformance.suite import REFUSALS, ROWS
from support.conformance.table import KINDS
from trn3.machine.instructions import instructions
from trn3.nki.values.version import DEFAULT, VERSIONS

#: What of `nki.isa` is no instruction: queries, and a register to start with.
_QUERIES: Final = ("get_nc_sub_version", "get_nc_version", "register_alloc")
#: What is a form of another instruction: register_load and register_store.
_FORMS: Final = ("scalar_load", "scalar_store")
#: The instructions and queries of NKI 0.7, and of older versions.
FUNCTIONS: Final = tuple(
    sorted([*(row.name for row in instructions().values() if not row.is_own), *_QUERIES, *_FORMS])
)

_NOTES: Final = {
    "core_barrier": "on two cores; deadlocks and races: tests of LNC=2",
    "sendrecv": "on two cores; deadlocks and refusals: tests of LNC=2",
    "get_nc_sub_version": "always 0",
    "nc_matmul": "whole numbers here; the order of sums and roundings: tests of `nki.isa`",
    "nc_matmul_mx": "whole numbers here; the order of sums and roundings: tests of `nki.isa`",
    "rng": "GpSimdE's draws bit for bit; VectorE's repeat with its state",
    "rand2": "limits and mean",
    "dropout": "rate within six deviations; kept values bit for bit",
}

_CHOICE: Final = "**choice"


def _standing(found: Any) -> str:
    """Say how sure the semantics are: a docstring marks what the documentation leaves open."""
    if found is None:
        return "missing"
    return "model choice" if _CHOICE in (inspect.getdoc(found) or "") else "exact"


def _types(labels: Iterable[str]) -> str:
    """Return the element types that labels name."""
    words = {word for label in labels for word in label.split("-")}
    known = [name for name in KINDS if name in words]
    return "all" if len(known) == len(KINDS) else ", ".join(known)


def markdown() -> str:
    """Return what stands between the marks of the page."""
    parts = [
        *(_summary(), "## `nki.isa`", _instructions(), "## `nki.language`", _names()),
        *("## Releases", _releases(), "## Behaviours", _behaviours()),
    ]
    return "\n\n".join(parts)


def _summary() -> str:
    functions = [name for name in FUNCTIONS if hasattr(nisa, name)]
    tested = {row.function for row in ROWS}
    return (
        f"{len(functions)} of {len(FUNCTIONS)} functions of `nki.isa` run, {len(tested)} of them "
        f"by the tables: {len(ROWS)} rows against NumPy, {len(REFUSALS)} refusals."
    )


def _instructions() -> str:
    lines = [
        (
            "| function | engines | semantics | rows | element types named | targets | refusals "
            "| notes |"
        ),
        "|---|---|---|--:|---|---|--:|---|",
    ]
    for name in FUNCTIONS:
        rows = [row for row in ROWS if row.function == name]
        refused = [refusal for refusal in REFUSALS if refusal.function == name]
        targets = sorted({row.arch for row in rows} | {each.arch for each in refused})
        cells = [
            f"`{name}`",
            ", ".join(instructions()[name].engines if name in instructions() else ()),
            _standing(getattr(nisa, name, None)),
            str(len(rows)),
            _types(row.label for row in rows),
            ", ".join(targets),
            str(len(refused)),
            _NOTES.get(name, ""),
        ]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


#: What has the names of a module; NKI 0.1 is another package.
_HOMES: Final[dict[str, Any]] = {"nki.isa": nisa, "nki.language": nl, "nki.collectives": ncc}
_LEGACY_HOMES: Final[dict[str, Any]] = {"nki.isa": legacy_isa, "nki.language": legacy_language}


def missing(module: str, release: str) -> list[str]:
    """Return the names of a module in a release that there are not here."""
    home = (_LEGACY_HOMES if release == "0.1" else _HOMES)[module]
    return [name for name in documented(module, release) if not hasattr(home, name)]


def _behaviours() -> str:
    lines = [
        "What kernels rely on beyond names, run under each release.",
        "",
        f"| behaviour | {' | '.join(VERSIONS)} |",
        f"|---|{':-:|' * len(VERSIONS)}",
        *(f"| {what} |{' runs |' * len(VERSIONS)}" for what in BEHAVIOURS),
    ]
    return "\n".join(lines)


def _releases() -> str:
    lines = [
        f"| NKI | {' | '.join(f'`{module}`' for module in MODULES)} | missing |",
        "|---|--:|--:|--:|---|",
    ]
    for release in VERSIONS:
        cells, lacking = [], []
        for module in MODULES:
            names = documented(module, release)
            absent = missing(module, release) if names else []
            cells.append(f"{len(names) - len(absent)} of {len(names)}" if names else "")
            lacking += [f"`{module}.{name}`" for name in absent]
        mark = " (default)" if release == DEFAULT else ""
        lines.append(f"| {release}{mark} | {' | '.join(cells)} | {', '.join(lacking)} |")
    return "\n".join(lines)


def _names() -> str:
    lines = ["| semantics | functions |", "|---|---|"]
    functions = [name for name in nl.__all__ if inspect.isfunction(getattr(nl, name))]
    for standing in ("exact", "model choice", "missing"):
        names = [name for name in functions if _standing(getattr(nl, name)) == standing]
        if names:
            lines.append(f"| {standing} | {', '.join(f'`{name}`' for name in names)} |")
    return "\n".join(lines)
