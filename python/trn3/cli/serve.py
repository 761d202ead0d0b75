"""``trn3 serve``: a model under traffic: what users wait for, what it costs, how many machines."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from trn3.cli import serve_tables
from trn3.cli.consoles import output, print_json
from trn3.cli.plan_options import Config, SystemOption, dtypes, price as price_of, speculation
from trn3.cli.plots import check_html, check_plot
from trn3.cli.progress import working
from trn3.cli.refusal import RefusedError, detailing, refusing
from trn3.cli.serve_options import (
    autoscaling,
    chances as chances_of,
    limits,
    usual_sizes,
)
from trn3.cli.settings import HtmlReport, JsonForTables, is_given

if TYPE_CHECKING:
    from trn3.planner import ServedLoad

TRAFFIC = "Traffic"
SERVER = "Server"
FLEET = "Fleet"
LAYOUT = "Layout and model"
SIZING = "Sizing"
HTTP = "HTTP"

Degree = Annotated[int | None, typer.Option(min=1, rich_help_panel=LAYOUT)]


def register(app: typer.Typer) -> None:
    """Add the subcommand to the ``trn3`` command."""
    app.command()(serve)


def serve(
    context: typer.Context,
    model: Config,
    system: Annotated[
        list[str] | None,
        typer.Option(
            help="As of trn3 plan; several are compared with --size-for.  [default: gen2]"
        ),
    ] = None,
    rate: Annotated[
        str | None,
        typer.Option(
            "--rate",
            "--request-rate",
            help="Requests a second, or inf.  [default: inf]",
            rich_help_panel=TRAFFIC,
        ),
    ] = None,
    arrival: Annotated[
        Literal["poisson", "gamma", "constant", "burst", "on_off", "diurnal"] | None,
        typer.Option(help="How they come.  [default: poisson]", rich_help_panel=TRAFFIC),
    ] = None,
    burstiness: Annotated[
        float | None,
        typer.Option(help="Shape of gamma arrivals: 1 is Poisson.", rich_help_panel=TRAFFIC),
    ] = None,
    burst_size: Annotated[
        int | None, typer.Option(min=1, help="Requests of a burst.", rich_help_panel=TRAFFIC)
    ] = None,
    trace: Annotated[
        Path | None,
        typer.Option(
            help="Replay a file: vLLM bench, Azure LLM, Mooncake, BurstGPT, ShareGPT, CSV, JSONL.",
            rich_help_panel=TRAFFIC,
        ),
    ] = None,
    trace_speed: Annotated[
        float | None,
        typer.Option(help="How many times as fast it is replayed.", rich_help_panel=TRAFFIC),
    ] = None,
    users: Annotated[
        int | None,
        typer.Option(
            min=1, help="Users who each send when their answer is there.", rich_help_panel=TRAFFIC
        ),
    ] = None,
    max_concurrency: Annotated[
        int | None,
        typer.Option(min=1, help="Requests under way at most.", rich_help_panel=TRAFFIC),
    ] = None,
    input_tokens: Annotated[
        str | None,
        typer.Option(
            "--in",
            help="Tokens of a prompt: a number, uniform:100:900, lognormal:MEAN:DEVIATION, "
            "exponential:MEAN, choice:128@0.5,2048@0.5.  [default: 1024]",
            rich_help_panel=TRAFFIC,
        ),
    ] = None,
    output_tokens: Annotated[
        str | None,
        typer.Option(
            "--out",
            help="Tokens of an answer, likewise.  [default: 128]",
            rich_help_panel=TRAFFIC,
        ),
    ] = None,
    range_ratio: Annotated[
        float | None,
        typer.Option(
            "--random-range-ratio",
            help="Spread lengths over 1 - R to 1 + R of them.",
            rich_help_panel=TRAFFIC,
        ),
    ] = None,
    prefix: Annotated[
        int | None,
        typer.Option(
            "--random-prefix-len",
            min=0,
            help="Tokens that all prompts begin with, on top.",
            rich_help_panel=TRAFFIC,
        ),
    ] = None,
    prefixes: Annotated[
        int | None, typer.Option(min=1, help="How many such beginnings.", rich_help_panel=TRAFFIC)
    ] = None,
    turns: Annotated[
        str | None,
        typer.Option(help="Turns of a conversation, as lengths.", rich_help_panel=TRAFFIC),
    ] = None,
    pause: Annotated[
        str | None,
        typer.Option(help="Seconds that a user thinks before a turn.", rich_help_panel=TRAFFIC),
    ] = None,
    priorities: Annotated[
        str | None,
        typer.Option(help="Priorities and their shares: 0@0.9,-1@0.1.", rich_help_panel=TRAFFIC),
    ] = None,
    requests: Annotated[
        int | None,
        typer.Option(
            "--requests",
            "--num-prompts",
            min=1,
            help="How many.  [default: 1000]",
            rich_help_panel=TRAFFIC,
        ),
    ] = None,
    seed: Annotated[
        int, typer.Option(min=0, help="What decides all that is drawn.", rich_help_panel=TRAFFIC)
    ] = 0,
    goodput: Annotated[
        list[str] | None,
        typer.Option(
            help="Longest wait of a good request, ms: ttft:500. Repeatable.",
            rich_help_panel=TRAFFIC,
        ),
    ] = None,
    max_num_seqs: Annotated[
        int | None,
        typer.Option(min=1, help="Sequences of a step.  [default: 256]", rich_help_panel=SERVER),
    ] = None,
    max_num_batched_tokens: Annotated[
        int | None,
        typer.Option(min=1, help="Tokens of a step that reads prompts.", rich_help_panel=SERVER),
    ] = None,
    max_model_len: Annotated[
        int | None, typer.Option(min=1, help="Tokens of a sequence.", rich_help_panel=SERVER)
    ] = None,
    chunked_prefill: Annotated[
        bool | None,
        typer.Option(
            "--enable-chunked-prefill/--no-enable-chunked-prefill",
            help="Read prompts in pieces beside decoding.  [default: on GPUs]",
            rich_help_panel=SERVER,
        ),
    ] = None,
    prefix_caching: Annotated[
        bool,
        typer.Option(
            "--enable-prefix-caching",
            help="Keep blocks of prompts for others that begin alike.",
            rich_help_panel=SERVER,
        ),
    ] = False,
    block_size: Annotated[
        int | None,
        typer.Option(min=1, help="Tokens of a block.  [default: 16]", rich_help_panel=SERVER),
    ] = None,
    kv_blocks: Annotated[
        int | None,
        typer.Option(
            "--num-gpu-blocks-override",
            min=1,
            help="Blocks of a replica, instead of what memory holds.",
            rich_help_panel=SERVER,
        ),
    ] = None,
    scheduling_policy: Annotated[
        Literal["fcfs", "priority"], typer.Option(help="Who goes first.", rich_help_panel=SERVER)
    ] = "fcfs",
    preemption_mode: Annotated[
        Literal["recompute", "swap"],
        typer.Option(help="Of sequences that lose their blocks.", rich_help_panel=SERVER),
    ] = "recompute",
    max_queue: Annotated[
        int | None,
        typer.Option(
            min=0, help="Requests that wait at a replica; others fail.", rich_help_panel=SERVER
        ),
    ] = None,
    replicas: Annotated[
        int | None, typer.Option(min=1, help="Replicas.  [default: 1]", rich_help_panel=FLEET)
    ] = None,
    prefill_replicas: Annotated[
        int | None, typer.Option(min=1, help="That only read prompts.", rich_help_panel=FLEET)
    ] = None,
    decode_replicas: Annotated[
        int | None, typer.Option(min=1, help="That only generate.", rich_help_panel=FLEET)
    ] = None,
    router: Annotated[
        Literal["least_loaded", "round_robin", "prefix_aware"],
        typer.Option(help="Which replica a request goes to.", rich_help_panel=FLEET),
    ] = "least_loaded",
    autoscale: Annotated[
        str | None,
        typer.Option(
            help="From and to how many replicas, and requests a replica: 1:8:16.",
            rich_help_panel=FLEET,
        ),
    ] = None,
    tp: Degree = None,
    ep: Degree = None,
    pp: Degree = None,
    dp: Degree = None,
    cp: Degree = None,
    lnc: Annotated[
        int | None,
        typer.Option(help="Physical cores a logical core: 1 or 2.", rich_help_panel=LAYOUT),
    ] = None,
    dtype: Annotated[
        list[str] | None, typer.Option(help="As of trn3 plan.", rich_help_panel=LAYOUT)
    ] = None,
    instances: Annotated[
        int,
        typer.Option(min=1, help="How many of the system, joined by EFA.", rich_help_panel=LAYOUT),
    ] = 1,
    links: Annotated[
        Literal["docs", "headline"], typer.Option(help="Rates of links.", rich_help_panel=LAYOUT)
    ] = "docs",
    calibration: Annotated[
        Literal["fitted", "peak"],
        typer.Option(help="Overheads fitted to measurements, or none.", rich_help_panel=LAYOUT),
    ] = "fitted",
    collectives: Annotated[
        Literal["levels", "schedules"],
        typer.Option(help="How collectives are timed.", rich_help_panel=LAYOUT),
    ] = "levels",
    draft: Annotated[
        str | None,
        typer.Option(help="Speculate with this model, or a share.", rich_help_panel=LAYOUT),
    ] = None,
    draft_tokens: Annotated[
        int, typer.Option(min=1, help="Tokens it guesses a step.", rich_help_panel=LAYOUT)
    ] = 5,
    accepted: Annotated[
        float | None,
        typer.Option(help="Tokens a step yields on average.", rich_help_panel=LAYOUT),
    ] = None,
    acceptance: Annotated[
        str | None,
        typer.Option(
            help="Instead: the chance of each guess, by place: 0.8,0.6.", rich_help_panel=LAYOUT
        ),
    ] = None,
    tdp: Annotated[
        float | None, typer.Option(help="Watts of a chip.", rich_help_panel=LAYOUT)
    ] = None,
    price: Annotated[
        str | None,
        typer.Option(
            help="USD a chip and hour, or a name of the dated prices.", rich_help_panel=LAYOUT
        ),
    ] = None,
    size_for: Annotated[
        str | None,
        typer.Option(
            help="Find the least machines: '500 req/s, p99 ttft < 1 s, p99 tpot < 50 ms'.",
            rich_help_panel=SIZING,
        ),
    ] = None,
    http: Annotated[
        bool,
        typer.Option(
            "--http",
            help="Answer requests of OpenAI's protocol at the simulated pace.",
            rich_help_panel=HTTP,
        ),
    ] = False,
    host: Annotated[str, typer.Option(help="Address.", rich_help_panel=HTTP)] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="0 is any.", rich_help_panel=HTTP)
    ] = 8000,
    speed: Annotated[
        str, typer.Option(help="Times real time, or max.", rich_help_panel=HTTP)
    ] = "1",
    tokenizer: Annotated[
        Path | None,
        typer.Option(help="A tokenizer.json; else four bytes are a token.", rich_help_panel=HTTP),
    ] = None,
    chat_tokens: Annotated[
        int | None,
        typer.Option(
            "--default-max-tokens",
            min=1,
            help="Tokens of an answer to a chat that sets no limit.  [default: 256]",
            rich_help_panel=HTTP,
        ),
    ] = None,
    no_bands: Annotated[
        bool,
        typer.Option("--no-bands", help="Serve once, not at the ends of the bands too."),
    ] = False,
    as_json: JsonForTables = False,
    plot: Annotated[
        Path | None, typer.Option(help="Draw waits and load: a .png, .svg or .pdf file.")
    ] = None,
    html: HtmlReport = None,
) -> None:
    """Serve a model under traffic, step by step: waits, throughput, watts and dollars.

    Names of the server's options are vLLM's. With --size-for, find the least machines for a rate
    and limits. With --http, answer real clients at the simulated pace.
    """
    if plot is not None:
        check_plot(plot)
    check_html(html)
    names = list(system or ["gen2"])
    if len(names) > 1 and size_for is None:
        message = "several --system are compared with --size-for; give one"
        raise RefusedError(message)
    systems: list[Any] = [SystemOption(name, links, instances) for name in names]
    if draft is None and is_given(context, "draft_tokens"):
        message = "--draft-tokens has a meaning only with --draft"
        raise RefusedError(message)
    chances = chances_of(acceptance)
    if chances is not None and draft is not None and accepted is None:
        # The plan asks for the mean, which the chances have.
        accepted, power = 1.0, 1.0
        for chance in chances:
            power *= chance
            accepted += power
        draft_tokens = len(chances)
    options: dict[str, Any] = {
        "dtype": dtypes(dtype or []), "tp": tp, "ep": ep, "pp": pp, "dp": dp, "cp": cp, "lnc": lnc,
        "calibration": calibration, "collectives": collectives, "tdp": tdp,
        "speculation": speculation(draft, draft_tokens, accepted), "price": price_of(price),
        "max_num_seqs": max_num_seqs, "max_num_batched_tokens": max_num_batched_tokens,
        "max_model_len": max_model_len, "chunked_prefill": chunked_prefill,
        "prefix_caching": prefix_caching or None, "block_size": block_size, "kv_blocks": kv_blocks,
        "scheduling_policy": scheduling_policy, "preemption_mode": preemption_mode,
        "max_queue": max_queue, "acceptance": chances, "replicas": replicas,
        "prefill_replicas": prefill_replicas, "decode_replicas": decode_replicas,
        "router": router, "autoscaling": autoscaling(autoscale),
    }  # fmt: skip
    traffic: dict[str, Any] = {
        "arrival": arrival, "burstiness": burstiness, "burst_size": burst_size,
        "range_ratio": range_ratio, "prefix": prefix, "prefixes": prefixes, "turns": turns,
        "pause": pause, "priorities": priorities, "requests": requests, "users": users,
        "max_concurrency": max_concurrency,
    }  # fmt: skip
    lengths = {"input_tokens": input_tokens, "output_tokens": output_tokens}
    if http:
        _http(model, systems[0], lengths, options, seed, host, port, speed, tokenizer, chat_tokens)
    replayed = None if trace is None else {"path": str(trace), "rate_scale": trace_speed}
    lengths = {name: value for name, value in lengths.items() if value is not None}
    common: dict[str, Any] = {**lengths, "trace": replayed, "seed": seed, **options, **traffic}
    if size_for is not None:
        _size(model, size_for, systems, rate, common, as_json=as_json)
        return
    served = _serve(model, systems[0], rate, goodput, common, bands=not no_bands)
    if plot is not None:
        served.plot(plot)
    if html is not None:
        served.to_html(html)
    if as_json:
        print_json(served.to_dict())
        return
    serve_tables.show(served, output())
    for written in filter(None, (plot, html)):
        typer.echo(f"wrote {written}")


def _serve(
    model: str,
    system: Any,
    rate: str | None,
    goodput: list[str] | None,
    common: dict[str, Any],
    *,
    bands: bool,
) -> ServedLoad:
    import trn3

    refused = refusing(ValueError, TypeError, OSError)
    with working(f"serving {model}"), detailing(trn3.planner.DoesNotFitError), refused:
        return trn3.serve(model, system, rate=rate, goodput=limits(goodput), bands=bands, **common)


def _size(
    model: str,
    target: str,
    systems: list[Any],
    rate: str | None,
    common: dict[str, Any],
    *,
    as_json: bool,
) -> None:
    """Print the least machines; status 1 if no system keeps the limits."""
    from trn3 import planner

    if rate is not None:
        message = "--size-for has the rate; give no --rate"
        raise RefusedError(message)
    with working(f"sizing {model}"), refusing(ValueError, TypeError, OSError):
        found = planner.size(model, target, systems, **common)
    if as_json:
        print_json(found.to_dict())
    else:
        serve_tables.show_sizes(found, [one.asked for one in systems], output())
    if all(one.best is None for one in found.systems):
        raise typer.Exit(1)


def _http(
    model: str,
    system: Any,
    lengths: dict[str, str | None],
    options: dict[str, Any],
    seed: int,
    host: str,
    port: int,
    speed: str,
    tokenizer: Path | None,
    chat_tokens: int | None,
) -> None:
    """Serve until a signal comes."""
    from trn3 import planner

    with refusing(ImportError):
        from trn3 import endpoint
    with refusing(ValueError, naming="--speed"):
        factor = endpoint.speed_of(speed)
    sizes = usual_sizes(**lengths)
    given = {name: value for name, value in options.items() if value is not None}
    refused = refusing(ValueError, TypeError, OSError)
    with working(f"planning {model}"), detailing(planner.DoesNotFitError), refused:
        service = planner.live(model, system, seed=seed, **sizes, **given)
    # What a client asks for may be the name that was typed.
    names = () if model == service.model else (model,)
    changes: dict[str, Any] = {} if chat_tokens is None else {"chat_tokens": chat_tokens}
    with refusing(ImportError, OSError, ValueError, RuntimeError):
        status = endpoint.run(
            service,
            host=host,
            port=port,
            speed=factor,
            tokenizer=tokenizer,
            names=names,
            **changes,
        )
    sys.exit(status)
