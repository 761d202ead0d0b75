"""What ``trn3 trace`` does: profiles and execution traces, from one form to another."""

from __future__ import annotations

import csv
import io
import json
from collections import Counter
from collections.abc import Iterator, Mapping
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from trn3.cli.refusal import RefusedError

if TYPE_CHECKING:
    from numpy.typing import NDArray


class Form(StrEnum):
    """Forms that a profile can be converted to."""

    CHAKRA = "chakra"
    PERFETTO = "perfetto"
    CSV = "csv"


def register(app: typer.Typer) -> None:
    """Add the commands."""
    trace = typer.Typer(
        name="trace", help="Convert a kernel's profile, look at Chakra execution traces."
    )

    @trace.command()
    def convert(
        profile: Annotated[Path, typer.Argument(help="The profile, as `trn3 profile` saves it.")],
        to: Annotated[Form, typer.Option("--to", help="The form to write.")],
        out: Annotated[
            Path | None,
            typer.Option("--out", "-o", help="The file.  [default: by the profile]"),
        ] = None,
        rank: Annotated[int, typer.Option(min=0, help="The rank that a Chakra trace is for.")] = 0,
    ) -> None:
        """Convert a kernel's profile to a Chakra trace, a Perfetto trace or a table."""
        from trn3 import chakra
        from trn3.machine import Profile
        from trn3.machine.files import write_bytes

        try:
            source = Profile.from_json(profile)
        except (ValueError, TypeError) as error:
            message = f"{profile}: {error}"
            raise RefusedError(message) from error
        endings = {Form.CHAKRA: f".{rank}.et", Form.PERFETTO: ".perfetto", Form.CSV: ".csv"}
        target = out or profile.with_suffix(endings[to])
        if to is Form.CHAKRA:
            try:
                chakra.write(chakra.from_profile(source, rank=rank), target)
            except ImportError as error:
                raise RefusedError(str(error)) from error
        elif to is Form.PERFETTO:
            source.to_perfetto(target)
        else:
            write_bytes(target, _csv(source.table()))
        typer.echo(f"wrote {target}")

    @trace.command()
    def info(
        file: Annotated[Path, typer.Argument(help="A Chakra trace, NAME.RANK.et.")],
        as_json: Annotated[
            bool, typer.Option("--json", help="Print JSON for machines instead of a table.")
        ] = False,
    ) -> None:
        """Say what is in a Chakra execution trace."""
        from rich.table import Table

        from trn3 import chakra
        from trn3.cli.consoles import output

        try:
            trace = chakra.read(file)
        except (ValueError, ImportError) as error:
            raise RefusedError(str(error)) from error
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
            typer.echo(json.dumps(document, indent=2))
            return
        console = output()
        console.print(f"{file}: schema {trace.version}, {len(trace.nodes)} nodes, {span:,} us")
        table = Table(box=None, header_style="bold")
        table.add_column("type")
        table.add_column("nodes", justify="right")
        table.add_column("in all, us", justify="right")
        for name in sorted(counts):
            table.add_row(name, f"{counts[name]:,}", f"{times[name]:,}")
        console.print(table)
        for each in trace.attributes:
            console.print(f"{each.name}: {each.value!s}")

    app.add_typer(trace)


def _csv(table: Mapping[str, NDArray[Any]]) -> Iterator[bytes]:
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    writer.writerow(table)
    writer.writerows(zip(*table.values(), strict=True))
    yield text.getvalue().encode()
