"""What ``trn3 trace`` does: profiles and execution traces, from one form to another, and replay."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from trn3.cli.consoles import output, print_json, table
from trn3.cli.progress import working
from trn3.cli.refusal import refusing
from trn3.cli.settings import JsonForTable, JsonForTables
from trn3.files import write_bytes

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from trn3.interchange.chakra import TraceReplay


def register(app: typer.Typer) -> None:
    """Add the commands."""
    trace = typer.Typer(
        name="trace",
        help="Convert a kernel's profile, look at Chakra execution traces, replay them.",
    )

    @trace.command()
    def convert(
        profile: Annotated[Path, typer.Argument(help="The profile, as `trn3 profile` saves it.")],
        to: Annotated[
            Literal["chakra", "perfetto", "csv"], typer.Option("--to", help="The form to write.")
        ],
        out: Annotated[
            Path | None,
            typer.Option("--out", "-o", help="The file.  [default: by the profile]"),
        ] = None,
        rank: Annotated[int, typer.Option(min=0, help="The rank that a Chakra trace is for.")] = 0,
    ) -> None:
        """Convert a kernel's profile to a Chakra trace, a Perfetto trace or a table."""
        from trn3.interchange import chakra
        from trn3.profile import Profile

        with refusing(ValueError):
            source = Profile.from_json(profile)
        endings = {"chakra": f".{rank}.et", "perfetto": ".perfetto", "csv": ".csv"}
        target = out or profile.with_suffix(endings[to])
        if to == "chakra":
            with refusing(ImportError):
                chakra.write(chakra.from_profile(source, rank=rank), target)
        elif to == "perfetto":
            source.to_perfetto(target)
        else:
            write_bytes(target, _csv(source.table()))
        typer.echo(f"wrote {target}")

    @trace.command()
    def info(
        file: Annotated[Path, typer.Argument(help="A Chakra trace, NAME.RANK.et.")],
        as_json: JsonForTable = False,
    ) -> None:
        """Say what is in a Chakra execution trace."""
        from trn3.interchange import chakra

        with refusing(ValueError, ImportError):
            trace = chakra.read(file)
        counts = Counter(node.type.name for node in trace.nodes)
        times: Counter[str] = Counter()
        for node in trace.nodes:
            times[node.type.name] += node.duration_micros
        span = max((n.start_time_micros + n.duration_micros for n in trace.nodes), default=0)
        if as_json:
            document = {
                "version": trace.version,
                "nodes": len(trace.nodes),
                "span_us": span,
                "types": {name: {"nodes": counts[name], "us": times[name]} for name in counts},
                "attributes": {each.name: str(each.value) for each in trace.attributes},
            }
            print_json(document)
            return
        console = output()
        console.print(f"{file}: schema {trace.version}, {len(trace.nodes)} nodes, {span:,} us")
        types = table("type", "nodes", "in all, us", right=("nodes", "in all, us"))
        for name in sorted(counts):
            types.add_row(name, f"{counts[name]:,}", f"{times[name]:,}")
        console.print(types)
        for each in trace.attributes:
            console.print(f"{each.name}: {each.value!s}")

    @trace.command()
    def replay(
        prefix: Annotated[Path, typer.Argument(help="NAME of the traces NAME.RANK.et.")],
        system: Annotated[
            str, typer.Option("--system", "-s", help="gen2, trn2_instance, ... or a .toml file.")
        ],
        compute: Annotated[
            Literal["duration", "roofline"], typer.Option(help="How long computation takes.")
        ] = "duration",
        memory: Annotated[
            Literal["bytes", "duration"], typer.Option(help="What memory nodes take.")
        ] = "bytes",
        dtype: Annotated[str, typer.Option(help="Whose peak the roofline takes.")] = "bf16",
        streams: Annotated[
            str | None,
            typer.Option(help="An attribute whose values are separate compute streams."),
        ] = None,
        groups: Annotated[
            Path | None, typer.Option(help="A JSON file of the ranks of each process group.")
        ] = None,
        algorithm: Annotated[str, typer.Option(help="Of collectives: ring, mesh, ...")] = "auto",
        ranks_per_chip: Annotated[
            int | None, typer.Option(help="[default: the chip's logical cores]")
        ] = None,
        lnc: Annotated[int | None, typer.Option(help="Physical cores a logical core.")] = None,
        perfetto: Annotated[
            Path | None, typer.Option(help="Write a .json file that Perfetto opens.")
        ] = None,
        rows: Annotated[int, typer.Option(min=1, help="The most ranks to list.")] = 16,
        as_json: JsonForTables = False,
    ) -> None:
        """Run the traces of all ranks of a job on a simulated system."""
        from trn3 import systems
        from trn3.interchange import chakra

        refused = refusing(ValueError, ImportError, ConnectionError)
        with working(f"replaying {prefix}"), refused:
            result = chakra.replay(
                prefix,
                systems.load(system, lnc=lnc),
                ranks_per_chip=ranks_per_chip,
                compute=compute,
                memory=memory,
                dtype=dtype,
                streams=streams,
                groups=groups,
                algorithm=algorithm,
            )
        if perfetto is not None:
            result.to_perfetto(perfetto)
            typer.echo(f"wrote {perfetto}", err=True)
        if as_json:
            print_json(result.to_dict())
        else:
            _print_replay(result, rows)

    app.add_typer(trace, rich_help_panel="Data")


def _print_replay(result: TraceReplay, rows: int) -> None:
    from trn3 import text

    console = output()
    console.print(
        f"{result.num_ranks} ranks on {result.system}: finish after "
        f"[bold]{text.time(result.finish)}[/bold], bound by [bold]{result.binding}[/bold]"
    )
    if result.binding_link is not None:
        carried = text.size(result.bytes_by_link.get(result.binding_link, 0.0), digits=4)
        console.print(f"binding link: {result.binding_link}, which carried {carried}")
    path = table("path to the finish", "time", "share", right=("time", "share"))
    for what, seconds in list(result.by_resource.items())[:8]:
        path.add_row(what, text.time(seconds), f"{seconds / result.finish:.1%}")
    console.print(path)
    numbers = ("finish", "compute", "communication", "exposed")
    ranks = table("rank", "chip", *numbers, right=numbers)
    shown = result.shown(rows)
    for each in shown:
        times = (each.finish, each.compute_busy, each.communication, each.exposed)
        chip = "/".join(map(str, each.chip))
        ranks.add_row(str(each.rank), chip, *map(text.time, times))
    console.print(ranks)
    if len(shown) < result.num_ranks:
        others = result.num_ranks - len(shown)
        console.print(f"and {others} more ranks (listed: the first, and the most exposed)")
    for (operation, algorithm), count in result.algorithms.items():
        console.print(f"{count} x {operation}: {algorithm}")
    console.print("[bold]assumptions[/bold]")
    for assumption in result.assumptions:
        console.print(f"- {assumption}", markup=False)


def _csv(table: Mapping[str, NDArray[Any]]) -> Iterator[bytes]:
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    writer.writerow(table)
    writer.writerows(zip(*table.values(), strict=True))
    yield text.getvalue().encode()
