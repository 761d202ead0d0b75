"""Every figure of the machine descriptions and where it comes from, as a table."""

from __future__ import annotations

from typing import Final

from trn3.machine import NeuronCore
from trn3.validation.documents import figure, markdown_table

ARCHS: Final = ("trn1", "trn2", "trn3")
#: How a source begins, the letter for it, and its name.
KINDS: Final = (
    ("public documentation", "d", "documented by the vendor"),
    ("constant used by the vendor", "l", "constant in the vendor's published kernel library"),
    ("measured by others", "m", "measured by others: read off published profiles"),
    ("estimate", "e", "estimated: undocumented"),
)


def kind(source: str) -> str:
    """Return the letter of a source's kind.

    Raises
    ------
    ValueError
        If it begins as no kind does.

    Examples
    --------
    >>> kind("estimate: undocumented; as trn1")
    'e'
    """
    for beginning, letter, _ in KINDS:
        if source.startswith(beginning):
            return letter
    message = f"source is {source!r}; must begin with {', '.join(k[0] for k in KINDS)}"
    raise ValueError(message)


def sources_table() -> str:
    """Return a Markdown table of every figure: values, kinds and sources of each machine."""
    machines = {
        arch: {entry[0]: entry[1:] for entry in NeuronCore(arch, values=False).arch_entries()}
        for arch in ARCHS
    }
    rows = []
    counts = {arch: dict.fromkeys((k[1] for k in KINDS), 0) for arch in ARCHS}
    for key in machines[ARCHS[0]]:
        cells, by_source = [], dict[str, list[str]]()
        for arch in ARCHS:
            value, _, source = machines[arch][key]
            counts[arch][kind(source)] += 1
            cells.append(f"{_exact(value)} {kind(source)}")
            by_source.setdefault(source, []).append(arch)
        if len(by_source) == 1:
            sources = next(iter(by_source))
        else:
            sources = "; ".join(f"**{', '.join(a)}** {s}" for s, a in by_source.items())
        unit = machines[ARCHS[0]][key][1]
        rows.append((f"`{key}`", unit, *cells, sources))
    summary = [
        (f"{letter}: {name}", *(counts[arch][letter] for arch in ARCHS))
        for _, letter, name in KINDS
    ]
    figures = markdown_table(("figure", "unit", *ARCHS, "sources"), rows, right=ARCHS)
    return f"{markdown_table(('', *ARCHS), summary, right=ARCHS)}\n\n{figures}"


def _exact(value: float) -> str:
    return f"{value:.0f}" if float(value).is_integer() else figure(value)
