"""``trn3 nccom-test``: sizes, times and bandwidths of a collective, in the columns users know."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from trn3.cli.consoles import output, table
from trn3.cli.progress import working
from trn3.cli.refusal import RefusedError, refusing
from trn3.cli.settings import JsonForTable
from trn3.text import nearest

if TYPE_CHECKING:
    from trn3.collectives import CollectiveCost
    from trn3.system.base import System

OPERATIONS = {
    "allr": "all_reduce",
    "allg": "all_gather",
    "redsct": "reduce_scatter",
    "alltoall": "all_to_all",
    "alltoallv": "all_to_all_v",
    "perm": "permute",
    "permute": "permute",
    "sendrecv": "permute",
    "bcast": "broadcast",
    "broadcast": "broadcast",
}
"""Short names; the operations' own names do too."""

TYPES = {
    "uint8": "uint8",
    "int8": "int8",
    "uint16": "uint16",
    "int16": "int16",
    "uint32": "uint32",
    "int32": "int32",
    "fp16": "float16",
    "bf16": "bfloat16",
    "fp32": "float32",
    "fp8": "float8_e4m3",
    "fp8e3": "float8_e3m4",
    "fp8e4": "float8_e4m3",
    "fp8e5": "float8_e5m2",
}
"""Types as nccom-test spells them."""

CHECKED_ELEMENTS = 1 << 18
"""Elements of all ranks together that ``--check`` computes with: of larger buffers, a part."""

GIBI = 1 << 30
HIDDEN = ("variant", "time_low(us)", "time_high(us)")
"""What of a row is in the JSON alone."""


def register(app: typer.Typer) -> None:
    """Add the subcommand to the ``trn3`` command."""
    app.command(name="nccom-test")(nccom_test)


def nccom_test(
    operation: Annotated[
        str,
        typer.Argument(
            help=f"Operation: {', '.join(OPERATIONS)}; or its full name. Several: allr,allg."
        ),
    ],
    ranks: Annotated[
        int | None,
        typer.Option("-r", "--nworkers", help="Ranks, from rank 0 on.  [default: all]"),
    ] = None,
    nodes: Annotated[
        int, typer.Option("-N", "--nnodes", help="Systems, joined by the network.")
    ] = 1,
    least: Annotated[str, typer.Option("-b", "--minbytes", help="Smallest size.")] = "32mb",
    most: Annotated[str, typer.Option("-e", "--maxbytes", help="Largest size.")] = "32mb",
    factor: Annotated[
        float | None, typer.Option("-f", "--stepfactor", help="Factor from size to size.")
    ] = None,
    step: Annotated[
        str | None, typer.Option("-i", "--stepbytes", help="Bytes from size to size.")
    ] = None,
    datatype: Annotated[
        str, typer.Option("-d", "--datatype", help=f"Type: {', '.join(TYPES)}.")
    ] = "uint8",
    system: Annotated[str, typer.Option("--system", help="System: trn2, gen2, ...")] = "trn2",
    algorithm: Annotated[str, typer.Option(help="Algorithm.")] = "auto",
    links: Annotated[str, typer.Option(help="Rates of links: docs or headline.")] = "docs",
    lnc: Annotated[
        int | None, typer.Option(help="Physical cores a rank.  [default: the chip's]")
    ] = None,
    iters: Annotated[int, typer.Option("-n", "--iters", help="Iterations that count.")] = 20,
    warmup_iters: Annotated[
        int, typer.Option("-w", "--warmup_iters", help="Iterations before, which do not.")
    ] = 5,
    stats: Annotated[
        bool, typer.Option("--stats", help="Add columns of the least, median and p99 iteration.")
    ] = False,
    replica_groups: Annotated[
        str | None,
        typer.Option(
            "--replica-groups",
            help="Groups that run at once: [[0,1],[2,3]], or a .json file with that.",
        ),
    ] = None,
    multistream: Annotated[
        bool, typer.Option("--multistream", help="Run the operations at once, a stream each.")
    ] = False,
    launch: Annotated[
        str, typer.Option(help="Who starts a call: host, or program for one that runs.")
    ] = "host",
    check: Annotated[
        bool, typer.Option("-c", "--check", help="Execute on data and compare with NumPy.")
    ] = False,
    show_algorithm: Annotated[
        bool, typer.Option("--show-algorithm", help="Add the algorithm's column.")
    ] = False,
    report: Annotated[
        Path | None, typer.Option("--report-to-json-file", help="Write the rows to a file.")
    ] = None,
    as_json: JsonForTable = False,
) -> None:
    """Time a collective over sizes on a simulated system.

    Sizes are those of a rank's buffer, of an all-gather the gathered one; kb, mb and gb are powers
    of 1,024. As in the tool of that name, GB/s are 2**30 bytes a second. Nothing varies in a
    simulation: every iteration takes the same time, and warming up changes none.
    """
    names = [_operation(word) for word in operation.split(",")]
    if iters < 1 or warmup_iters < 0:
        raise RefusedError(f"-n is {iters} and -w is {warmup_iters}; allowed: from 1, and from 0")
    if multistream and check:
        raise RefusedError("--multistream and --check are both given; data is checked alone")
    if datatype not in TYPES:
        raise RefusedError(f"datatype is {datatype!r}; allowed: {', '.join(TYPES)}")
    with refusing(ValueError):
        where = _load(system, nodes, links, lnc)
        groups = None if replica_groups is None else _groups(replica_groups)
        if groups is not None and ranks is not None:
            raise RefusedError("-r and --replica-groups are both given; groups name their ranks")
        count = where.ranks if ranks is None else ranks
        if not 1 <= count <= where.ranks:
            raise RefusedError(
                f"-r is {count}; {where.name} has {where.ranks} ranks, so 1 to {where.ranks}"
            )
        members = range(count) if groups is None else groups
        count = count if groups is None else len(groups[0])
        rows = []
        assumptions: tuple[str, ...] = ()
        band: Mapping[str, Any] = {}
        sizes = _sizes(least, most, factor, step)
        with working("timing collectives") as update:
            for done, size in enumerate(sizes):
                update(f"{', '.join(names)} of {size:,} bytes", done, len(sizes))
                for cost in _costs(names, size, where, members, algorithm, launch, multistream):
                    assumptions, band = cost.assumptions, cost.band
                    row = _row(cost, size, datatype, show_algorithm)
                    if len(names) > 1:
                        row = {"operation": cost.operation} | row
                    if stats:
                        row |= dict.fromkeys(("min(us)", "p50(us)", "p99(us)"), row["time(us)"])
                    if check:
                        of, kind = range(count) if groups is None else groups[0], TYPES[datatype]
                        row["check"] = _check(cost.operation, where, of, cost, size, kind)
                    rows.append(row)
    name = ",".join(names)
    document = {
        "operation": name,
        "system": where.name,
        "ranks": count,
        "iters": iters,
        "warmup_iters": warmup_iters,
        "launch": launch,
        "results": rows,
        "assumptions": list(assumptions),
        "band": dict(band),
    }
    text = json.dumps(document, indent=2, allow_nan=False)
    if report is not None:
        from trn3.files import write_bytes

        try:
            write_bytes(report, [text.encode()])
        except OSError as error:
            raise RefusedError(f"{report} cannot be written: {error.strerror}") from error
    if as_json:
        typer.echo(text)
    else:
        _show(rows, name, where, count, band["text"])
    if check and not all(row["check"].startswith("ok") for row in rows):
        raise typer.Exit(1)


def _operation(word: str) -> str:
    name = OPERATIONS.get(word, word)
    if name not in set(OPERATIONS.values()):
        near = nearest(word, [*OPERATIONS, *OPERATIONS.values()], 0.6)
        hint = f"the nearest is {near!r}; " if near else ""
        raise RefusedError(f"operation is {word!r}; {hint}allowed: {', '.join(OPERATIONS)}")
    return name


def _groups(text: str) -> list[list[int]]:
    from trn3.files import read_bytes

    try:
        raw = (
            text
            if text.lstrip().startswith("[")
            else read_bytes(Path(text), "process groups").decode()
        )
        found = json.loads(raw)
    except (ValueError, OSError) as error:
        raise RefusedError(f"--replica-groups is {text!r}: {error}") from error
    lists: Any = found.get("replica_groups") if isinstance(found, dict) else found
    ranks = [rank for group in lists for rank in group] if _is_lists(lists) else []
    if not ranks or not all(type(rank) is int for rank in ranks):
        raise RefusedError(f"--replica-groups is {text!r}; needed: lists of ranks, [[0,1],[2,3]]")
    return [list(group) for group in lists]


def _is_lists(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(of, list) for of in value)


def _costs(
    names: list[str],
    size: int,
    where: System,
    members: Any,
    algorithm: str,
    launch: Any,
    multistream: bool,
) -> list[CollectiveCost]:
    """Return what each operation costs: alone, or with all of them as streams at once."""
    from trn3 import collectives

    def cost(name: str) -> CollectiveCost:
        return collectives.time(name, size, where, members, algorithm, launch=launch)

    found = [cost(name) for name in names]
    if not multistream:
        return found
    running = [collectives.Overlapping(name, size, members, algorithm) for name in names]
    spans = collectives.overlap(running, where)
    return [
        replace(of, time=of.time + span.end - span.begin - span.alone)
        for of, span in zip(found, spans, strict=True)
    ]


def _load(system: str, nodes: int, links: str, lnc: int | None) -> System:
    from trn3 import systems
    from trn3.system.cluster import Cluster

    one: Any = systems.load(system, links=links, lnc=lnc)  # type: ignore[arg-type]
    if nodes == 1:
        return one  # type: ignore[no-any-return]
    return Cluster(one, nodes).system()


def parse_size(text: str) -> int:
    """Return the bytes of a size like ``1kb``.

    Raises
    ------
    ValueError
        If it is none.

    Examples
    --------
    >>> parse_size("1kb"), parse_size("32MB"), parse_size("4")
    (1024, 33554432, 4)
    """
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([kmgt]?)i?b?", text.strip().lower())
    if found is None:
        message = f"size is {text!r}; allowed: bytes, or a number with kb, mb, gb or tb, like 64kb"
        raise ValueError(message)
    return int(float(found[1]) * 1024 ** " kmgt".index(found[2] or " "))


def _sizes(least: str, most: str, factor: float | None, step: str | None) -> list[int]:
    low, high = parse_size(least), parse_size(most)
    if factor is not None and step is not None:
        message = "-f and -i are both given; one of them says how sizes grow"
        raise ValueError(message)
    if low < 1 or high < low:
        message = f"sizes are {low} to {high}; -b must be at least 1 and -e not below it"
        raise ValueError(message)
    by = None if step is None else parse_size(step)
    if by == 0 or (factor is not None and not factor > 1):
        message = "sizes do not grow; -f must be above 1, -i at least 1"
        raise ValueError(message)
    sizes = []
    size: float = low
    while size <= high:
        sizes.append(int(size))
        if len(sizes) > 10_000:
            message = "more than 10,000 sizes; take larger steps"
            raise ValueError(message)
        grown = size + by if by is not None else size * (2 if factor is None else factor)
        # A factor near 1 must still lead to another size.
        size = max(grown, int(size) + 1)
    return sizes


def _row(cost: CollectiveCost, size: int, datatype: str, show_algorithm: bool) -> dict[str, Any]:
    import ml_dtypes
    import numpy as np

    dtype = TYPES[datatype]
    item = np.dtype(getattr(ml_dtypes, dtype, dtype)).itemsize
    row: dict[str, Any] = {
        "size(B)": size,
        "count(elems)": -(-size // item),
        "type": datatype,
        "time(us)": cost.time * 1e6,
        # Of the time shown, which beside other streams is another than alone.
        "time_low(us)": cost.time * 1e6 / (1 + cost.band["width"]),
        "time_high(us)": cost.time * 1e6 * (1 + cost.band["width"]),
        "algbw(GB/s)": cost.algbw / GIBI,
        "busbw(GB/s)": cost.busbw / GIBI,
    }
    if show_algorithm:
        row["algorithm"] = cost.algorithm
        row["variant"] = cost.variant
    return row


def _check(
    name: str, system: System, group: Any, cost: CollectiveCost, size: int, dtype: str
) -> str:
    """Execute on (part of) such buffers and compare with NumPy; all sums are exact."""
    import ml_dtypes
    import numpy as np

    from trn3 import collectives

    ranks = len(group)
    kind = np.dtype(getattr(ml_dtypes, dtype, dtype))
    elements = max(1, size // kind.itemsize)
    if name == "all_gather":
        elements = max(1, elements // ranks)
    used = min(elements, max(1, CHECKED_ELEMENTS // ranks))
    if name in {"reduce_scatter", "all_to_all", "all_to_all_v"}:
        used = max(1, used // ranks) * ranks
    form = cost.algorithm if not cost.variant else _FORMS.get(cost.variant, cost.algorithm)
    draw = np.random.default_rng(size)
    # With this many ranks even bfloat16 holds every sum.
    top = max(2, 256 // ranks)
    drawn = [draw.integers(0, top, used) for _ in range(ranks)]
    if dtype.startswith("float8"):
        # Of three bits or fewer no sum of many is exact: of each element one rank has any.
        drawn = [np.where(np.arange(used) % ranks == rank, 1, 0) for rank in range(ranks)]
    arrays = [array.astype(np.float32).astype(kind) for array in drawn]
    whole = [array.astype(np.float32).astype(np.int64) for array in arrays]
    if name == "permute":
        pairs = [(group[rank], group[(rank + 1) % ranks]) for rank in range(ranks)]
        outputs = collectives.permute(arrays, pairs, system, group).outputs
        expected = [whole[rank - 1] for rank in range(ranks)]
    elif name == "all_to_all_v":
        counts = np.full((ranks, ranks), used // ranks)
        outputs = collectives.all_to_all_v(arrays, counts, system, group).outputs
        expected = list(
            np.stack(whole).reshape(ranks, ranks, -1).transpose(1, 0, 2).reshape(ranks, -1)
        )
    else:
        run = getattr(collectives, name)
        outputs = run(arrays, system, group, algorithm=form).outputs
        total = np.sum(whole, axis=0)
        if name == "all_reduce":
            expected = [total] * ranks
        elif name == "reduce_scatter":
            expected = np.array_split(total, ranks)
        elif name == "all_gather":
            expected = [np.concatenate(whole)] * ranks
        elif name == "all_to_all":
            blocks = np.stack(whole).reshape(ranks, ranks, -1)
            expected = list(blocks.transpose(1, 0, 2).reshape(ranks, -1))
        else:
            expected = [whole[0]] * ranks
    for got, wanted in zip(outputs, expected, strict=True):
        want = wanted.astype(np.float32).astype(kind)
        if got.tobytes() != want.tobytes():
            return "WRONG"
    return "ok" if used >= elements else f"ok ({used} of {elements})"


_FORMS = {
    "single_step": "single_step_mesh",
    "ring": "hierarchical_ring",
    "mesh": "hierarchical_mesh",
}


def _show(rows: list[dict[str, Any]], name: str, system: System, ranks: int, expected: str) -> None:
    screen = output()
    screen.print(f"[bold]{name}[/] on {system.title}, {ranks} ranks, lnc={system.lnc}")
    headings = [heading for heading in rows[0] if heading not in HIDDEN]
    numbers = set(headings) - {"operation", "type", "algorithm", "check"}
    lines = table(*headings, right=numbers, fixed=True)
    for row in rows:
        cells = []
        for heading, value in row.items():
            if heading == "algorithm" and row["variant"]:
                cells.append(f"{value} ({row['variant'].replace('_', ' ')})")
            elif heading not in HIDDEN:
                cells.append(f"{value:.2f}" if isinstance(value, float) else str(value))
        lines.add_row(*cells)
    screen.print(lines)
    average = sum(row["busbw(GB/s)"] for row in rows) / len(rows)
    screen.print(
        f"Avg bus bandwidth: {average:.4f} GB/s (of 2**30 bytes); times {expected}", soft_wrap=True
    )
