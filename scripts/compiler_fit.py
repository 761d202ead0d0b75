"""Say what each fitted constant of the compiler rests on, by fitting it without each group of rows.

``python scripts/compiler_fit.py`` replaces the table between the marks of
docs/explanation/compiler.md; rows are those of ``trn3 validate`` at level compiled, at sizes that
their time is proportional to.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import math
import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from trn3 import nki, validation
from trn3.validation.documents import replace_section
from trn3.validation.experiments.authored import products, scan_operands
from trn3.validation.imported import authored
from trn3.validation.rows import PublishedRow

DOCUMENT: Final = Path(__file__).parents[1] / "docs" / "explanation" / "compiler.md"
TABLE: Final = Path(__file__).parents[1] / "rust" / "facts" / "specs" / "models" / "compiler.toml"
BEGIN: Final = "<!-- begin: scripts/compiler_fit.py -->"
END: Final = "<!-- end: scripts/compiler_fit.py -->"

#: Values that a constant is looked for among, and the groups of rows that say anything about it.
GRIDS: Final = {
    "dma_share_gen2": [0.36, 0.38, 0.4, 0.44, 0.48],
    "dma_share": [0.68, 0.73, 0.78, 0.88, 0.95],
    "shared_room": [1.0, 1.25, 2.0],
}
MOVES: Final = {
    "dma_share_gen2": ("matrix products, trn1", "Mamba 1", "Mamba 2", "Mamba 3"),
    "dma_share": ("matrix products, trn2",),
    "shared_room": ("Mamba 1", "Mamba 2", "Mamba 3"),
}
#: What a row is part of.
GROUPS: Final = {
    r"matmul-.*-trn1": "matrix products, trn1",
    r"matmul-.*-trn2": "matrix products, trn2",
    r"mamba-v1-.*": "Mamba 1",
    r"mamba-v2-.*": "Mamba 2",
    r"mamba-v3-.*": "Mamba 3",
}
#: Products and scans that are run, and how many times as long the published ones take.
PRODUCTS: Final = {
    "tiled": (256, 8192, 2048),
    "hoisted": (256, 8192, 2048),
    "blocked_free": (512, 8192, 2048),
    "blocked": (4096, 8192, 1024),
}
CHANNELS: Final = 512
#: Tiled scans that are longer take minutes; shorter ones stand for them.
LONGEST: Final = 4096


def rows() -> dict[str, list[PublishedRow]]:
    """Return the rows of device times at level compiled, by group."""
    found: dict[str, list[PublishedRow]] = {}
    for row in validation.table().rows:
        if row.level != "compiled" or row.quantity not in ("latency", "window"):
            continue
        if row.id.startswith("mamba-v3") and row.parameters["tokens"] > LONGEST:
            continue
        group = next(group for id_, group in GROUPS.items() if re.match(id_, row.id))
        found.setdefault(group, []).append(row)
    return found


@contextlib.contextmanager
def instead(constants: Mapping[str, float]) -> Iterator[None]:
    """Compile with other values of some constants."""
    compiled: Any = importlib.import_module("trn3.nki.launch.compiled")
    before = compiled.compile_cores
    compiled.compile_cores = functools.partial(before, constants=constants)
    try:
        yield
    finally:
        compiled.compile_cores = before


#: What `off` has found: a run takes seconds.
FOUND: Final[dict[tuple[str, str, float], float]] = {}


def off(row: PublishedRow, constant: str, value: float) -> float:
    """Return the logarithm of predicted over published time."""
    key = (row.id, constant, value)
    if key not in FOUND:
        FOUND[key] = math.log(predicted_us(row, {constant: value}) / published_us(row))
    return FOUND[key]


def published_us(row: PublishedRow) -> float:
    """Return what was measured."""
    return row.published * {"us": 1.0, "ms": 1e3}[row.unit]


def predicted_us(row: PublishedRow, constants: Mapping[str, float]) -> float:
    """Return what the kernel takes at the size of the publication."""
    parameters = dict(row.parameters)
    name, level = parameters["kernel"], parameters["compile"]
    if "text" in parameters:
        kernel = getattr(authored(parameters["text"]), name)
        shape = PRODUCTS[name]
        operands = products(shape, parameters["dtype"])
        times = 4096 * 8192 * 8192 / math.prod(shape)
    else:
        kernel = getattr(authored("fused_mamba"), name)
        channels = min(parameters["channels"], CHANNELS)
        operands = scan_operands(channels, parameters["tokens"])
        times = parameters["channels"] / channels
    with instead(constants):
        _, profile = nki.profile(kernel, *operands, arch=row.hardware, values=False, compile=level)
    return float(profile.latency_us) * times


def error(among: list[PublishedRow], constant: str, value: float) -> float:
    """Return how far rows are off in the mean."""
    return math.fsum(abs(off(row, constant, value)) for row in among) / len(among)


def fitted(among: list[PublishedRow], constant: str, own: float) -> tuple[float, float]:
    """Return the least and the greatest value with which rows are least off, within 0.1 %."""
    grid = sorted({*GRIDS[constant], own})
    errors = {value: error(among, constant, value) for value in grid}
    best = [value for value in grid if errors[value] <= min(errors.values()) + 1e-3]
    return min(best), max(best)


def main() -> None:
    """Replace what stands between the document's marks."""
    groups = rows()
    lines = [
        "| constant | left out | fitted to the others | left out, with that | with the constant |",
        "| --- | --- | ---: | ---: | ---: |",
    ]
    parameters = tomllib.loads(TABLE.read_text(encoding="utf-8"))["compiler"]
    for constant, moved in MOVES.items():
        own = float(parameters[constant]["default"])
        left = [(name, groups[name]) for name in moved]
        if len(left) == 1:
            # One group alone says it: its rows are left out one by one.
            left = [(row.id.removesuffix("-compiled"), [row]) for row in left[0][1]]
        for name, out in left:
            others = [row for _, rows in left for row in rows if row not in out]
            low, high = fitted(others, constant, own)
            span = f"{low:g}" if low == high else f"{low:g} to {high:g}"
            with_that = math.expm1(max(error(out, constant, value) for value in (low, high)))
            with_own = math.expm1(error(out, constant, own))
            lines.append(
                f"| `{constant}` {own:g} | {name} | {span} | {with_that:.1%} | {with_own:.1%} |"
            )
            print(lines[-1], flush=True)
    text = DOCUMENT.read_text(encoding="utf-8")
    DOCUMENT.write_text(replace_section(text, "\n".join(lines), BEGIN, END), encoding="utf-8")


if __name__ == "__main__":
    main()
