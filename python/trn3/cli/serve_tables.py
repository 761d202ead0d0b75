"""``trn3 serve``: what users wait for and what it takes, on one screen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from trn3.cli.consoles import table
from trn3.text import printable

if TYPE_CHECKING:
    from rich.console import Console

    from trn3.planner import ServedLoad, SizedFleet, SizedFleets

WAITS = {
    "ttft": "time to first token",
    "tpot": "time per token",
    "itl": "between tokens",
    "e2el": "end to end",
}


def show(served: ServedLoad, console: Console) -> None:
    """Print what a service did: waits, throughput, machines, and all that was assumed."""
    from rich.table import Table

    for model in served.models:
        plan = model["plan"]
        console.print(
            f"{printable(plan['model']['name'])} on {plan['system']['title']}", style="bold"
        )
    waits = table("ms", "mean", "p50", "p90", "p95", "p99", "mean expected",
                  right=("mean", "p50", "p90", "p95", "p99", "mean expected"))  # fmt: skip
    for name, title in WAITS.items():
        figures = [served.waits[f"{of}_{name}_ms"] for of in ("mean", "p50", "p90", "p95", "p99")]
        waits.add_row(title, *map(_number, figures), _band(served, f"mean_{name}_ms"))
    console.print(waits)
    grid = Table(box=None, show_header=False, pad_edge=False)
    grid.add_column(style="bold", no_wrap=True)
    grid.add_column()
    for name, text in _lines(served):
        grid.add_row(name, printable(text))
    console.print(grid)
    for text in served.band:
        console.print(f"  {printable(text)}", style="dim", soft_wrap=True)
    console.print("Assumed:", style="bold")
    for text in served.assumptions:
        console.print(f"  {printable(text)}", style="dim", soft_wrap=True)


def _lines(served: ServedLoad) -> list[tuple[str, str]]:
    failed = f", {served.failed:,} turned away" if served.failed else ""
    lines = [
        ("requests", f"{served.completed:,} served{failed} in {_number(served.duration)} s"),
        (
            "throughput",
            (
                f"{_number(served.request_throughput)} requests/s, "
                f"{_number(served.output_throughput)} tokens/s generated, "
                f"{_number(served.total_token_throughput)} with prompts"
            ),
        ),
    ]
    if served.request_goodput is not None:
        lines.append(("goodput", f"{_number(served.request_goodput)} good requests/s"))
    for model in served.models:
        lines.extend(_model_lines(model))
    lines.append(("under way", f"{_number(served.little['under_way'])} requests on average"))
    if served.energy is not None:
        lines.append(
            (
                "power",
                (
                    f"{_number(served.energy['watts'])} W of {_number(served.chips)} chips, "
                    f"{_number(served.energy['joules_per_request'])} J a request, "
                    f"{_number(served.energy['joules_per_token'])} J a token"
                ),
            )
        )
    if served.cost is not None:
        lines.append(
            (
                "cost",
                (
                    f"{_number(served.cost['per_million_tokens'])} USD a million tokens, "
                    f"{_number(served.cost['per_hour'])} USD an hour"
                ),
            )
        )
    return lines


def _model_lines(found: Mapping[str, Any]) -> list[tuple[str, str]]:
    from trn3.planner import Layout
    from trn3.typed import typed

    layout = typed(Layout, found["plan"]["layout"], replicas=found["replicas"])
    looked_up, hits = found["prefix_cache"]
    cache = f", {100 * hits / looked_up:.0f} % of prompts known before" if looked_up else ""
    return [
        ("layout", f"{layout}, at most {found['max_num_seqs']:,} sequences a step"),
        (
            "replicas",
            (
                f"{100 * found['utilisation']:.0f} % busy, {found['steps']:,} steps, "
                f"{found['preemptions']:,} preemptions"
            ),
        ),
        (
            "kv cache",
            (
                f"{found['kv_cache_tokens']:,} tokens a replica, "
                f"{100 * found['kv_cache_peak']:.0f} % used at most{cache}"
            ),
        ),
    ]


def show_sizes(found: SizedFleets, names: Sequence[str], console: Console) -> None:
    """Print the least machines of each system, and what more of them would bring."""
    target = found.target
    limits = ", ".join(f"{name} < {limit:g}" for name, limit in target["limits"])
    console.print(
        f"{target['rate']:g} requests/s{'; ' * bool(limits)}{printable(limits)}", style="bold"
    )
    rows = table("system", "chips", "machines", "layout", "sequences", "prefill + decode",
                 "p99 ttft ms", "p99 tpot ms", "USD an hour",
                 right=("chips", "machines", "sequences", "p99 ttft ms", "p99 tpot ms",
                        "USD an hour"))  # fmt: skip
    for name, one in zip(names, found.systems, strict=True):
        fleets = ([one.best] if one.best else []) + list(one.frontier)
        for fleet in fleets:
            rows.add_row(printable(name), *_fleet_row(fleet))
        if not fleets:
            rows.add_row(printable(name), "", "", printable((one.why_not or "").splitlines()[0]))
    console.print(rows)


def _fleet_row(fleet: SizedFleet) -> list[str]:
    counts = fleet.replica_counts
    apart = f"{counts['prefill']:,} + {counts['decode']:,}" if counts["prefill"] else ""
    dollars = "" if fleet.dollars_per_hour is None else _number(fleet.dollars_per_hour)
    waits = fleet.served.waits
    return [
        f"{fleet.chips:,}", f"{fleet.machines:,}", str(fleet.layout), f"{fleet.max_num_seqs:,}",
        apart, _number(waits["p99_ttft_ms"]), _number(waits["p99_tpot_ms"]), dollars,
    ]  # fmt: skip


def _band(served: ServedLoad, name: str) -> str:
    if served.bands is None or name not in served.bands:
        return ""
    low, high = served.bands[name]
    return f"{_number(low)} to {_number(high)}"


def _number(value: float) -> str:
    """Return a figure with three digits, more before the point.

    >>> _number(1234.5), _number(1.5249), _number(0.01)
    ('1,234', '1.52', '0.01')
    """
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
