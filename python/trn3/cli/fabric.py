"""What ``trn3 route``, ``trn3 bound`` and ``trn3 ls`` do: ask a system's fabric."""

from __future__ import annotations

import io
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias, cast

import typer

from trn3.cli.consoles import output, print_json, table
from trn3.cli.plots import check_plot
from trn3.cli.refusal import RefusedError, refusing
from trn3.cli.settings import JsonForTables
from trn3.files import read_bytes

if TYPE_CHECKING:
    from rich.table import Table

    from trn3.system import Bound, Link, Route, System
    from trn3.traffic import Traffic

Profile: TypeAlias = Literal["docs", "headline"]

# Shown one by one up to here, by level beyond; --json has all.
SHOWN_LINKS = 6

SystemName = Annotated[
    str, typer.Argument(help="gen2, trn2, gb300_nvl72, ... or a .toml file with a fabric.")
]
LinksOption = Annotated[
    str,
    typer.Option(
        "--links",
        help="docs: documented rates by level. headline: scaled to the published total of a chip.",
    ),
]
FailOption = Annotated[
    list[str] | None,
    typer.Option(
        "--fail",
        metavar="LINK|CHIP|SWITCH",
        help="What is broken: a chip 0/3/1, a switch rack/0, links 0/3/1-1/3/1; :N behind it for N "
        "links of a bundle. Repeatable.",
    ),
]


def register(app: typer.Typer) -> None:
    """Add the commands."""

    @app.command()
    def route(
        system: SystemName,
        source: Annotated[str, typer.Argument(help="The chip that sends: 0/3/1, or its number.")],
        target: Annotated[str, typer.Argument(help="The chip that receives.")],
        links: LinksOption = "docs",
        fail: FailOption = None,
        size: Annotated[
            str | None, typer.Option("--bytes", help="Also the time of so many: 64kb, 1MiB, 4e9.")
        ] = None,
        as_json: JsonForTables = False,
    ) -> None:
        """Show the way from one chip to another: links, switches, relays, latency, rate."""
        num_bytes = None if size is None else parse_size(size)
        with_faults = _system(system, links, fail)
        with refusing(ValueError, ConnectionError):
            found = with_faults.route(_chip(source), _chip(target))
        if as_json:
            print_json(_route_document(found, with_faults, num_bytes), versioned=True)
        else:
            _show_route(found, with_faults, num_bytes)

    @app.command()
    def bound(
        system: SystemName,
        traffic: Annotated[
            str, typer.Option(help="alltoall, ring, or a .npy or .csv file: bytes, n x n chips.")
        ] = "alltoall",
        group: Annotated[
            str | None,
            typer.Option(
                help="Chips that take part, as patterns of ids: 0 (rack 0), '*/0-3/*', 0/1,0/2."
            ),
        ] = None,
        links: LinksOption = "docs",
        fail: FailOption = None,
        size: Annotated[
            str | None, typer.Option("--bytes", help="What each chip sends, for the time: 235MB.")
        ] = None,
        as_json: JsonForTables = False,
    ) -> None:
        """Show how fast a traffic can be, the links that bind, and what faults cost."""
        num_bytes = None if size is None else parse_size(size)
        with_faults = _system(system, links, fail)
        with refusing(ValueError, OSError):
            asked = _traffic(traffic, with_faults, group, num_bytes)
            found = with_faults.bound(asked)
        if as_json:
            print_json(_bound_document(found, with_faults), versioned=True)
        else:
            _show_bound(found, with_faults)

    @app.command(name="ls")
    def list_devices(
        system: SystemName,
        links: LinksOption = "docs",
        lnc: Annotated[
            int | None, typer.Option(help="Physical cores a logical core.  [default: the chip's]")
        ] = None,
        fail: FailOption = None,
        plot: Annotated[
            Path | None, typer.Option(help="Draw the fabric: a .png, .svg or .pdf file.")
        ] = None,
        as_json: JsonForTables = False,
    ) -> None:
        """List the chips of a system: cores, memory, what they are connected to, NUMA nodes."""
        if plot is not None:
            check_plot(plot)
        with_faults = _system(system, links, fail, lnc)
        if plot is not None:
            with refusing(ValueError, OSError):
                with_faults.plot(plot)
        if as_json:
            print_json(_devices_document(with_faults), versioned=True)
        else:
            _show_devices(with_faults)


def parse_size(text: str) -> float:
    """Return bytes from a number with an optional unit; k, M, G are decimal, Ki, Mi, Gi binary.

    Raises
    ------
    RefusedError
        If it is no positive size.

    Examples
    --------
    >>> parse_size("64kb"), parse_size("1MiB"), parse_size("4e9")
    (64000.0, 1048576.0, 4000000000.0)
    """
    word = text.strip().lower().removesuffix("b")
    factors = {"ki": 2.0**10, "mi": 2.0**20, "gi": 2.0**30, "ti": 2.0**40}
    factors |= {"k": 1e3, "m": 1e6, "g": 1e9, "t": 1e12}
    factor = 1.0
    for unit, value in factors.items():
        if word.endswith(unit):
            word, factor = word.removesuffix(unit), value
            break
    try:
        size = float(word) * factor
    except ValueError:
        size = 0.0
    if not 0 < size < float("inf"):
        message = f"--bytes is {text!r}; needed: a positive size like 64kb, 1MiB or 4e9"
        raise RefusedError(message)
    return size


def _system(name: str, links: str, faults: Sequence[str] | None, lnc: int | None = None) -> System:
    from trn3 import systems

    if links not in ("docs", "headline"):
        message = f"--links is {links!r}; allowed: docs, headline"
        raise RefusedError(message)
    with refusing(ValueError, OSError):
        whole = systems.load(name, links=cast("Profile", links), lnc=lnc)
        return whole.fail(*faults) if faults else whole


def _chip(text: str) -> str | int:
    return int(text) if text.isdecimal() else text


def _traffic(name: str, system: System, group: str | None, num_bytes: float | None) -> Traffic:
    from trn3 import traffic

    path = Path(name)
    if path.suffix in {".npy", ".csv"}:
        import numpy as np

        if group is not None or num_bytes is not None:
            message = f"{path}: a matrix has its own chips and sizes; leave --group and --bytes out"
            raise ValueError(message)
        raw = io.BytesIO(read_bytes(path, "traffic matrix"))
        try:
            matrix = (
                np.load(raw, allow_pickle=False)
                if path.suffix == ".npy"
                else np.loadtxt(raw, delimiter=",", ndmin=2)
            )
        except (ValueError, EOFError) as error:
            message = f"{path}: cannot be read as a matrix: {error}"
            raise ValueError(message) from error
        return traffic.as_traffic(matrix, system.chips, None)
    chips = system.chips if group is None else system.group(group)
    words = name.lower().replace("-", "").replace("_", "")
    if words in {"alltoall", "uniform"}:
        return traffic.all_to_all(chips, num_bytes)
    if words == "ring":
        return traffic.ring(chips, num_bytes)
    message = f"--traffic is {name!r}; allowed: alltoall, ring, or a .npy or .csv file"
    raise ValueError(message)


def _print(*lines: str | Table) -> None:
    console = output()
    for line in lines:
        console.print(line, markup=False) if isinstance(line, str) else console.print(line)


def _head(system: System) -> str:
    head = f"{system.title}: {system.num_chips} chips, links={system.links}"
    return "\n".join([head, *(f"fault: {fault}" for fault in system.faults)])


def _assumed(assumptions: Sequence[str]) -> list[str]:
    return ["assumptions:", *(f"  {line}" for line in assumptions)] if assumptions else []


LINK = ("source", "target", "level", "links", "rate", "latency")


def _entries(of: object, *names: str) -> dict[str, Any]:
    """Return attributes as JSON has them: chips by their names, what has no limit as null."""
    import math

    from trn3.system.links import node_name

    def plain(value: Any) -> Any:
        if isinstance(value, tuple):
            is_chip = bool(value) and all(isinstance(part, int) for part in value)
            return node_name(value) if is_chip else [plain(part) for part in value]
        return None if isinstance(value, float) and math.isinf(value) else value

    return {name: plain(getattr(of, name)) for name in names}


def _links(links: Iterable[Link]) -> list[dict[str, Any]]:
    return [_entries(link, *LINK) for link in links]


def _route_document(route: Route, system: System, num_bytes: float | None) -> dict[str, Any]:
    ends = ("source", "target")
    document: dict[str, Any] = {
        "system": system.name,
        **_entries(system, "links", "faults"),
        **_entries(route, *ends, "hops", "relays", "rate", "latency"),
        "legs": [
            _entries(leg, *ends, "level", "switch", "rate", "latency")
            | {"links": _links(leg.links)}
            for leg in route.legs
        ],
        **_entries(route, "assumptions"),
    }
    if num_bytes is not None:
        document |= {"bytes": num_bytes, "time": route.time(num_bytes)}
    return document


def _show_route(route: Route, system: System, num_bytes: float | None) -> None:
    from trn3 import text
    from trn3.system.links import node_name

    ends = f"{node_name(route.source)} -> {node_name(route.target)}"
    if not route.legs:
        _print(_head(system), f"{ends}: the same chip, no link is used")
        return
    headings = ("leg", "level", "from", "to", "switch", "links", "rate", "latency")
    legs = table(*headings, right=("leg", "rate", "latency"), fixed=True, pad_edge=False)
    for number, leg in enumerate(route.legs, start=1):
        first = leg.links[0]
        legs.add_row(
            str(number),
            leg.level,
            node_name(leg.source),
            node_name(leg.target),
            leg.switch or "-",
            f"{first.links} x {text.rate(first.rate / first.links)}",
            text.rate(leg.rate),
            text.time(leg.latency),
        )
    relays = ", ".join(node_name(chip) for chip in route.relays) or "none"
    summary = f"{ends}: {text.rate(route.rate)} one way, {text.time(route.latency)}"
    lines = [f"{summary}, relays: {relays}"]
    if num_bytes is not None:
        lines.append(f"{text.size(num_bytes, digits=4)}: {text.time(route.time(num_bytes))}")
    _print(_head(system), legs, *lines, *_assumed(route.assumptions))


def _bound_document(bound: Bound, system: System) -> dict[str, Any]:
    document: dict[str, Any] = {
        "system": system.name,
        **_entries(system, "links", "faults"),
        **_entries(bound, "traffic", "per_chip", "total"),
        "binding": {**_entries(bound.binding, "levels"), "links": _links(bound.binding)},
        "levels": dict(bound.levels),
        **_entries(bound, "slowest"),
        "cut": {
            **_entries(bound.cut, "name", "rate"),
            "per_chip": bound.per_chip_by_cut,
            "reached": bound.is_by_cut,
        },
        **_entries(bound, "time", "assumptions"),
    }
    if _is_priced(system):
        slowdown = system.slowdown
        document["slowdown"] = {
            "factor": slowdown.factor,
            "before": slowdown.before.per_chip,
            "after": slowdown.after.per_chip,
        }
    return document


def _show_bound(bound: Bound, system: System) -> None:
    from trn3 import text
    from trn3.system.links import node_name

    lines = [
        f"{bound.traffic}",
        f"{text.rate(bound.per_chip)} a chip one way, {text.rate(bound.total)} in all",
        f"binding: {bound.binding}",
    ]
    if len(bound.binding) <= SHOWN_LINKS:
        lines += [f"  {link}" for link in bound.binding]
    if bound.time is not None:
        lines.append(f"time: {text.time(bound.time)}, bandwidth alone")
    if bound.slowest is not None:
        latency = system.route(*bound.slowest).latency
        ends = " -> ".join(map(node_name, bound.slowest))
        lines.append(f"slowest pair: {ends}, {text.time(latency)} for its first byte")
    numbers = ("alone allows", "fullest link")
    levels = table("level", *numbers, right=numbers, fixed=True, pad_edge=False)
    for name, rate in bound.levels.items():
        levels.add_row(name, f"{text.rate(rate)} a chip", f"{bound.per_chip / rate:.0%}")
    verdict = "no routing does better" if bound.is_by_cut else "another routing might do better"
    cut = f"cut: {bound.cut}; allows {text.rate(bound.per_chip_by_cut)} a chip: {verdict}"
    after = [f"faults cost all-to-all: {system.slowdown}"] if _is_priced(system) else []
    _print(_head(system), *lines, levels, cut, *after, *_assumed(bound.assumptions))


def _is_priced(system: System) -> bool:
    return bool(system.faults) and not system.cut_off


def _devices(system: System) -> list[dict[str, Any]]:
    from trn3.system.chip_figures import chip_facts
    from trn3.system.links import node_name

    figures = chip_facts(system.chip or system.name, system.spec_file)
    memory = figures["hbm_capacity"].si if "hbm_capacity" in figures else None
    return [
        {
            "device": number,
            "id": node_name(chip),
            "cores": system.cores_per_chip,
            "logical_cores": system.ranks_per_chip,
            "memory_bytes": memory,
            "connected": {
                node_name(link.target): link.links for link in system.graph.links_from(chip)
            },
            "numa_node": system.numa[number],
        }
        for number, chip in enumerate(system.chips)
    ]


def _devices_document(system: System) -> dict[str, Any]:
    return {
        "system": system.name,
        "title": system.title,
        "id": list(system.id_parts),
        **_entries(system, "chip", "lnc", "faults"),
        "devices": _devices(system),
    }


def _show_devices(system: System) -> None:
    from trn3.system.links import node_name

    devices = _devices(system)
    numbers = {device["id"]: device["device"] for device in devices}
    name = "/".join(system.id_parts)
    headings = ("device", name, "cores", "logical cores", "memory", "connected to", "NUMA node")
    columns = ("device", "cores", "logical cores", "memory")
    rows = table(*headings, right=columns, fixed=True, pad_edge=False)
    for device in devices:
        memory = device["memory_bytes"]
        # Chips by number, as the vendor's tool lists them; switches by name.
        connected = [str(numbers.get(node, node)) for node in device["connected"]]
        rows.add_row(
            str(device["device"]),
            device["id"],
            str(device["cores"]),
            str(device["logical_cores"]),
            "-" if memory is None else f"{memory / 2**30:.4g} GiB",
            ", ".join(connected),
            "-" if device["numa_node"] is None else str(device["numa_node"]),
        )
    cut_off = ", ".join(map(node_name, system.cut_off))
    after = [f"cut off: {cut_off}"] if cut_off else []
    totals = f"{system.ranks} logical cores at lnc={system.lnc}"
    _print(f"{_head(system)}, {totals}", rows, *after)
