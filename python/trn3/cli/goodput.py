"""``trn3 goodput``: what failures leave of a training run, and spare replicas of serving."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated, Any

import typer

from trn3.cli.consoles import output, print_json, table
from trn3.cli.plots import check_plot
from trn3.cli.progress import working
from trn3.cli.refusal import RefusedError, refusing
from trn3.cli.settings import JsonForTables, is_given

SERVING = "Serving"
OF_SERVING = {"replicas", "replica_chips", "availability"}
BOTH = {"system", "serving", "mtbf", "repair_hours", "as_json"}


def register(app: typer.Typer) -> None:
    """Add the subcommand to the ``trn3`` command."""
    app.command()(goodput)


def goodput(
    context: typer.Context,
    system: Annotated[
        str, typer.Option(help="What the fleet is made of: gen2, trn2, h100, a spec file, ...")
    ] = "gen2",
    chips: Annotated[int | None, typer.Option(min=1, help="Chips of the job.")] = None,
    days: Annotated[float, typer.Option(help="Days that it runs.")] = 30.0,
    model: Annotated[
        str | None, typer.Option(help="What is trained, which says what a checkpoint has.")
    ] = None,
    checkpoint_bytes: Annotated[
        float | None, typer.Option(help="Bytes of a checkpoint, in place of --model.")
    ] = None,
    checkpoint_interval: Annotated[
        str, typer.Option(metavar="auto|SECONDS", help="Work between checkpoints.")
    ] = "auto",
    checkpoint_bandwidth: Annotated[
        float | None, typer.Option(help="GB/s of all chips to storage and from it.")
    ] = None,
    asynchronous: Annotated[
        bool, typer.Option("--async", help="Write checkpoints while work goes on.")
    ] = False,
    step_time: Annotated[
        str | None, typer.Option(metavar="SECONDS", help="Of a step: for the count of steps.")
    ] = None,
    comm_share: Annotated[
        float | None,
        typer.Option(help="Part of a step that waits for collectives within a system."),
    ] = None,
    jitter: Annotated[
        float | None,
        typer.Option(help="Standard deviation of a rank's step, as a part of it."),
    ] = None,
    spares: Annotated[
        int | None,
        typer.Option(min=0, help="Systems that stand by.  [default: what repairs hold, and more]"),
    ] = None,
    cold_spares: Annotated[
        int, typer.Option(min=0, help="Systems that would have to be started first.")
    ] = 0,
    mtbf: Annotated[
        list[str] | None,
        typer.Option(metavar="PART=HOURS", help="Hours between failures of one part; inf: never."),
    ] = None,
    shape: Annotated[
        float | None, typer.Option(help="Weibull shape of lives.  [default: 1, at random]")
    ] = None,
    degrades: Annotated[
        bool,
        typer.Option(
            "--degrades/--stops", help="Whether a job without some link goes on, slower, or stops."
        ),
    ] = True,
    error_detection: Annotated[
        str | None,
        typer.Option(metavar="SECONDS", help="Until a failure is known that reports itself."),
    ] = None,
    hang_detection: Annotated[
        str | None,
        typer.Option(metavar="SECONDS", help="Until a collective that hangs is given up."),
    ] = None,
    warm_up: Annotated[
        str | None,
        typer.Option(metavar="SECONDS", help="To start processes again, without loading."),
    ] = None,
    swap: Annotated[
        str | None, typer.Option(metavar="SECONDS", help="Until a spare is in place.")
    ] = None,
    repair_hours: Annotated[float | None, typer.Option(help="Hours of a repair.")] = None,
    runs: Annotated[int, typer.Option(min=1, help="How often to simulate.")] = 16,
    seed: Annotated[int, typer.Option(min=0, help="What decides the draws.")] = 0,
    plot: Annotated[Path | None, typer.Option(help="Draw it into this file.")] = None,
    serving: Annotated[
        bool,
        typer.Option(
            "--serving", help="How many spare replicas serving needs.", rich_help_panel=SERVING
        ),
    ] = False,
    replicas: Annotated[
        int | None,
        typer.Option(min=1, help="Replicas that have to be up.", rich_help_panel=SERVING),
    ] = None,
    replica_chips: Annotated[
        int, typer.Option(min=1, help="Chips of one.", rich_help_panel=SERVING)
    ] = 1,
    availability: Annotated[
        float,
        typer.Option(help="Part of the time in which they have to be.", rich_help_panel=SERVING),
    ] = 0.999,
    as_json: JsonForTables = False,
) -> None:
    """Simulate weeks of training on a fleet that fails, or size one that serves.

    Failure rates are those of a fleet of GPUs; of Trainium none are published, and these are
    assumed in a wider range.
    """
    given = {name for name in context.params if is_given(context, name)}
    unused = given - BOTH - OF_SERVING if serving else given & OF_SERVING
    if unused:
        word = "training" if serving else "--serving"
        message = f"--{min(unused).replace('_', '-')} is for {word}: it has no meaning here"
        raise RefusedError(message)
    common: dict[str, Any] = {"mtbf": _rates(mtbf or []), "repair_hours": repair_hours}
    from trn3.planner import fleet

    if serving:
        if replicas is None:
            message = "--serving needs --replicas"
            raise RefusedError(message)
        with refusing(ValueError, TypeError, OSError):
            sized = fleet.capacity(system, replicas, replica_chips, availability, **common)
        _print(sized, as_json)
        return
    if chips is None:
        message = "--chips is missing: how many the job has; or --serving with --replicas"
        raise RefusedError(message)
    if plot is not None:
        check_plot(plot)
    with refusing(ValueError, TypeError, OSError), working(f"simulating {chips:,} chips"):
        found = fleet.goodput(
            system,
            chips,
            days,
            model=model,
            checkpoint_bytes=checkpoint_bytes,
            checkpoint_bandwidth=None
            if checkpoint_bandwidth is None
            else checkpoint_bandwidth * 1e9,
            checkpoint_interval=None if checkpoint_interval == "auto" else checkpoint_interval,
            asynchronous=asynchronous,
            step_time=step_time,
            comm_share=comm_share,
            jitter=jitter,
            spares=spares,
            cold_spares=cold_spares,
            shape=shape,
            degrades=degrades,
            error_detection=error_detection,
            hang_detection=hang_detection,
            warm_up=warm_up,
            swap=swap,
            runs=runs,
            seed=seed,
            **common,
        )
    if plot is not None:
        with refusing(ImportError):
            found.plot(plot)
    _print(found, as_json)


def _rates(given: list[str]) -> dict[str, float]:
    rates: dict[str, float] = {}
    for text in given:
        part, is_pair, hours = text.partition("=")
        try:
            rates[part.strip()] = float(hours)
        except ValueError:
            rates[part.strip()] = math.nan
        if not is_pair or not rates[part.strip()] > 0:
            message = f"--mtbf is {text!r}; needed: PART=HOURS, like chip=100000 or link=inf"
            raise RefusedError(message)
    return rates


def _print(found: Any, as_json: bool) -> None:
    if as_json:
        print_json(found.to_dict(), versioned=True)
        return
    screen = output()
    screen.print(found)
    if hasattr(found, "shares"):
        times = table("where the time goes", "share", right=("share",))
        for name, share in found.shares.items():
            times.add_row(name, f"{share:.2%}")
        screen.print(times)
    else:
        sizes = table("spare replicas", "enough are up", right=("spare replicas", "enough are up"))
        for row in found.table:
            sizes.add_row(f"{row.spares:,}", f"{row.availability:.5%}")
        screen.print(sizes)
        reach = table("a failed", "takes replicas", "every h", right=("takes replicas", "every h"))
        for blast in found.blast:
            reach.add_row(blast.part, f"{blast.replicas:,}", f"{blast.every_hours:,.4g}")
        screen.print(reach)
    numbers = ("number", "MTBF of one, h", "from", "to", "failures")
    parts = table("part", *numbers, "does", "rate", right=numbers)
    for part in found.parts:
        hours, effect = part.mtbf_hours, part.effect
        factor = f" x{effect['factor']:.3g}" if "factor" in effect else ""
        figures = (part.count, hours.value, hours.low, hours.high, part.expected.value)
        shown = (f"{figure:,.4g}" for figure in figures)
        parts.add_row(part.name, *shown, effect["does"].replace("_", " ") + factor, part.rates)
    screen.print(parts)
    for text in getattr(found, "not_included", ()):
        screen.print(f"not included: {text}")
    for text in found.assumptions:
        screen.print(f"assumed: {text}")
