"""``trn3 plan``: what a language model takes on a system, on one screen."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from trn3.cli import plan_serving, plan_several
from trn3.cli.consoles import output, print_json
from trn3.cli.plan_options import (
    Config,
    SystemOption,
    dtypes,
    price as price_of,
    speculation as speculation_of,
)
from trn3.cli.plots import check_html, check_plot
from trn3.cli.progress import working
from trn3.cli.refusal import RefusedError, detailing, refusing
from trn3.cli.settings import HtmlReport, JsonForTables, is_given

if TYPE_CHECKING:
    from trn3.planner import Plan

TRAIN = "Training"
OPERATORS = "Operators"

# Options that plans of serving and of training both have.
BOTH = {"model", "system", "dtype", "tp", "ep", "pp", "dp", "cp", "lnc", "chips", "instances"}
BOTH |= {
    "links",
    "objective",
    "collectives",
    "tdp",
    "price",
    "as_json",
    "html",
    "uncertainty",
    "seed",
}
OF_OPERATORS = {
    "model",
    "system",
    "dtype",
    "chips",
    "instances",
    "links",
    "as_json",
    "html",
    "batch",
}
OF_OPERATORS |= {"input_tokens", "output_tokens", "ops", "image_size", "frames"}

Degree = Annotated[int | None, typer.Option(min=1)]


def register(app: typer.Typer) -> None:
    """Add the subcommand to the ``trn3`` command."""
    app.command()(plan)


def plan(
    context: typer.Context,
    model: Config,
    system: Annotated[
        list[str] | None,
        typer.Option(
            help="gen1, gen2, trn2, gb300_nvl72, ..., a spec file, FILE.toml:ENTRY, or one with "
            "changes: gen2:hbm_bandwidth=+100%,chips=72. Several are compared.  [default: gen2]"
        ),
    ] = None,
    input_tokens: Annotated[
        int | None, typer.Option("--in", min=1, help="Tokens of a prompt.  [default: 8192]")
    ] = None,
    output_tokens: Annotated[
        int, typer.Option("--out", min=0, help="Tokens generated for it.")
    ] = 0,
    dtype: Annotated[
        list[str] | None,
        typer.Option(
            help="bf16, mxfp8, mxfp4, fp8 or int8, or CLASS=FORMAT (experts=mxfp4, kv=mxfp8, "
            "...). "
            "Repeatable.  [default: as published]"
        ),
    ] = None,
    batch: Annotated[
        int | None,
        typer.Option(min=1, help="Sequences a replica decodes at once.  [default: searched]"),
    ] = None,
    tp: Degree = None,
    ep: Degree = None,
    pp: Degree = None,
    dp: Degree = None,
    cp: Degree = None,
    replicas: Degree = None,
    lnc: Annotated[int | None, typer.Option(help="Physical cores a logical core: 1 or 2.")] = None,
    slo_ttft: Annotated[
        str | None, typer.Option(help="Longest time to the first token: 1s, 500ms.")
    ] = None,
    slo_tpot: Annotated[
        str | None,
        typer.Option(help="Longest time a token: 20ms.  [default: 50ms if nothing else is given]"),
    ] = None,
    chips: Annotated[int | None, typer.Option(min=1, help="Most chips to use.")] = None,
    instances: Annotated[
        int, typer.Option(min=1, help="How many of the system, joined by EFA.")
    ] = 1,
    links: Annotated[Literal["docs", "headline"], typer.Option(help="Rates of links.")] = "docs",
    objective: Annotated[
        Literal["throughput", "tpot", "ttft", "cost", "step_time", "energy", "memory"] | None,
        typer.Option(help="What to search for.  [default: throughput]"),
    ] = None,
    times: Annotated[
        Literal["roofline", "machine"],
        typer.Option(help="Products by the roofline, or timed on the simulated core."),
    ] = "roofline",
    calibration: Annotated[
        Literal["fitted", "peak"],
        typer.Option(help="Overheads fitted to published measurements, or none."),
    ] = "fitted",
    collectives: Annotated[
        Literal["levels", "schedules"],
        typer.Option(help="Collectives by levels of links, or by schedules on the graph."),
    ] = "levels",
    draft: Annotated[
        str | None, typer.Option(help="Speculate with this model (as CONFIG), or a share: 0.05.")
    ] = None,
    draft_tokens: Annotated[int, typer.Option(min=1, help="Tokens it guesses a step.")] = 5,
    accepted: Annotated[
        float | None, typer.Option(help="Tokens a step yields on average, with --draft.")
    ] = None,
    tdp: Annotated[
        float | None, typer.Option(help="Watts of a chip.  [default: the facts' choice]")
    ] = None,
    price: Annotated[
        str | None, typer.Option(help="USD a chip and hour, or a name of the dated prices.")
    ] = None,
    uncertainty: Annotated[
        int | None,
        typer.Option(min=1, help="Draw unpublished constants so often; print quantiles."),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="What decides the draws.")] = 0,
    ops: Annotated[
        bool,
        typer.Option("--ops", help="Print every operator of a pass.", rich_help_panel=OPERATORS),
    ] = False,
    image_size: Annotated[
        int | None,
        typer.Option(min=1, help="Sides of an image, pixels.", rich_help_panel=OPERATORS),
    ] = None,
    frames: Annotated[
        int | None,
        typer.Option(min=1, help="Frames of a spectrogram.", rich_help_panel=OPERATORS),
    ] = None,
    train: Annotated[
        bool, typer.Option("--train", help="Plan training: one step of it.", rich_help_panel=TRAIN)
    ] = False,
    global_batch: Annotated[
        int | None,
        typer.Option(min=1, help="Sequences of a step, of all replicas.", rich_help_panel=TRAIN),
    ] = None,
    sequence: Annotated[
        int | None, typer.Option(min=1, help="Tokens of a sequence.", rich_help_panel=TRAIN)
    ] = None,
    micro_batch: Annotated[
        int | None,
        typer.Option(min=1, help="Sequences of a replica at a time.", rich_help_panel=TRAIN),
    ] = None,
    zero: Annotated[
        int | None,
        typer.Option(
            min=0,
            max=3,
            help="Shard over replicas: 1 optimizer states, 2 gradients, 3 weights too.",
            rich_help_panel=TRAIN,
        ),
    ] = None,
    interleave: Annotated[
        int | None,
        typer.Option(min=1, help="Parts of the model on each stage.", rich_help_panel=TRAIN),
    ] = None,
    recompute: Annotated[
        Literal["none", "selective", "full"] | None,
        typer.Option(help="What of the forward pass is done again.", rich_help_panel=TRAIN),
    ] = None,
    optimizer: Annotated[
        Literal["master", "stochastic_rounding", "all_bf16"],
        typer.Option(
            help="Adam: FP32 master weights, none (BF16 rounded stochastically), or all in BF16.",
            rich_help_panel=TRAIN,
        ),
    ] = "master",
    as_json: JsonForTables = False,
    plot: Annotated[
        Path | None,
        typer.Option(help="Draw the breakdown and the frontier: a .png, .svg or .pdf file."),
    ] = None,
    html: HtmlReport = None,
) -> None:
    """Plan the serving of a model: does it fit, how fast is it, what binds it, what does it cost.

    Without a degree of parallelism (--tp, --ep, --pp, --dp, --cp) the best plan is searched for.
    With --train, plan a step of training instead; degrees that are not given are searched for.
    With --ops, print the operators of a forward pass on --chips chips (1 if not given), of models
    that cannot be planned too. Every number that nobody documents is listed.
    """
    if plot is not None:
        check_plot(plot)
    check_html(html)
    systems: list[Any] = list(system or ["gen2"])
    if instances > 1 or (links != "docs" and not train):
        systems = [SystemOption(name, links, instances) for name in systems]
    target: Any = systems[0] if len(systems) == 1 else systems
    degrees = {"tp": tp, "ep": ep, "pp": pp, "dp": dp, "cp": cp}
    if ops:
        from trn3.cli import plan_operators

        plan_operators.run(
            model,
            target,
            _given(context, {str(one.name) for one in context.command.params} - OF_OPERATORS),
            as_json=as_json,
            html=html,
            dtype=dtypes(dtype or []),
            batch=batch,
            input_tokens=input_tokens,
            output_tokens=output_tokens or None,
            image_size=image_size,
            frames=frames,
            chips=chips,
        )
        return
    if wrong := _given(context, ("image_size", "frames")):
        message = f"{wrong[0]} has a meaning only with --ops"
        raise RefusedError(message)
    foreign = _foreign(context, train=train)
    if train:
        from trn3.cli import plan_training

        plan_training.run(
            model,
            target,
            {
                **degrees,
                "global_batch": global_batch,
                "sequence": sequence,
                "micro_batch": micro_batch,
                "zero": zero,
                "interleave": interleave,
                "recompute": recompute,
                "optimizer": optimizer,
                "objective": objective,
                "tdp": tdp,
                "price": price_of(price),
            },
            foreign,
            dtype=dtypes(dtype or []),
            chips=chips,
            lnc=lnc,
            links=links,
            collectives=collectives,
            uncertainty=uncertainty,
            seed=seed,
            as_json=as_json,
            html=html,
        )
        return
    if foreign:
        message = f"{foreign[0]} has a meaning only with --train"
        raise RefusedError(message)
    if draft is None and is_given(context, "draft_tokens"):
        message = "--draft-tokens has a meaning only with --draft"
        raise RefusedError(message)
    from trn3.planner import several

    found: Plan | several.Plans = _plan(
        model,
        target,
        dtype=dtypes(dtype or []),
        batch=batch,
        input_tokens=input_tokens,
        output_tokens=output_tokens,
        **degrees,
        replicas=replicas,
        lnc=lnc,
        ttft_slo=slo_ttft,
        tpot_slo=slo_tpot,
        chips=chips,
        objective=objective,
        times=times,
        calibration=calibration,
        collectives=collectives,
        speculation=speculation_of(draft, draft_tokens, accepted),
        tdp=tdp,
        price=price_of(price),
        uncertainty=uncertainty,
        seed=seed,
    )
    if plot is not None:
        found.plot(plot)
    if html is not None:
        found.to_html(html)
    if as_json:
        print_json(found.to_dict(), versioned=True)
        return
    if isinstance(found, several.Plans):
        plan_several.show(found, model)
    else:
        plan_serving.show(found, output())
    for written in filter(None, (plot, html)):
        typer.echo(f"wrote {written}")


def _given(context: typer.Context, names: Collection[str]) -> list[str]:
    """Return those of the options that are given, as they are written on the command line."""
    options = [one for one in context.command.params if one.name in names]
    return [one.opts[0] for one in options if is_given(context, str(one.name))]


def _foreign(context: typer.Context, *, train: bool) -> list[str]:
    """Return options that are given and are for serving, if a step is trained, or for that.

    Whatever is neither in the panel of training nor known to both is for serving.
    """
    options = {str(one.name): getattr(one, "rich_help_panel", "") for one in context.command.params}
    training = {name for name, panel in options.items() if panel == TRAIN}
    return _given(context, options.keys() - training - BOTH if train else training)


def _plan(model: str, system: Any, **options: Any) -> Plan:
    import trn3

    refused = refusing(ValueError, TypeError, OSError)
    with working(f"planning {model}"), detailing(trn3.planner.DoesNotFitError), refused:
        return trn3.plan(model, system, **options)
