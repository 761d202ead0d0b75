"""Reports of services under load: waits, load over time, machines."""

from __future__ import annotations

from trn3.planner import ServedLoad
from trn3.report.charts import Chart, axis, bars, curves, line
from trn3.report.markup import Cell, Markup, entries, listed, number, table
from trn3.report.shell import ReportPage, ReportPane, versioned

_WAITS = {
    "ttft": "first token",
    "tpot": "a token",
    "itl": "between tokens",
    "e2el": "end to end",
}
_OF = ("mean", "p50", "p90", "p95", "p99")


def load_page(served: ServedLoad) -> str:
    """Return the report of a service under load: one page without network.

    Examples
    --------
    >>> import trn3
    >>> served = trn3.serve("llama-3-8b", "trn2", tp=8, rate=4, requests=50, bands=False)
    >>> html = load_page(served)
    >>> html.startswith("<!doctype html>"), 'data-kind="load"' in html
    (True, True)
    """
    plan = served.models[0]["plan"]
    verdict = (
        f"{served.completed:,} requests in {served.duration:,.4g} s: "
        f"{served.request_throughput:,.4g} a second, first tokens after "
        f"{served.p50_ttft_ms:,.4g} ms in the median and {served.p99_ttft_ms:,.4g} ms at the 99th "
        f"percentile."
    )
    panes = [
        ReportPane("waits", "Waits", _waits(served), [_quantiles(served)]),
        ReportPane("load", "Load", _load(served), _over_time(served)),
        ReportPane("machines", "Machines", _machines(served)),
        ReportPane("settings", "Settings", listed("Assumed", served.assumptions)),
    ]
    return ReportPage(
        "load",
        f"{plan['model']['name']} on {plan['system']['title']} under load",
        verdict,
        [
            ("requests/s", f"{served.request_throughput:,.4g}"),
            ("tokens/s", f"{served.output_throughput:,.4g}"),
            ("p99 first token", f"{served.p99_ttft_ms:,.4g} ms"),
            ("p99 a token", f"{served.p99_tpot_ms:,.4g} ms"),
        ],
        panes,
        versioned(served.to_dict()),
    ).html()


def _waits(served: ServedLoad) -> Markup:
    rows: list[list[Cell]] = []
    for name, title in _WAITS.items():
        row: list[Cell] = [title, *(number(served.waits[f"{of}_{name}_ms"]) for of in _OF)]
        band = (served.bands or {}).get(f"mean_{name}_ms")
        row.append("" if band is None else f"{band[0]:,.4g} to {band[1]:,.4g}")
        rows.append(row)
    shown = table("waits", "Milliseconds", ("wait", *_OF, "mean expected"), rows)
    return Markup(shown + listed("How sure", served.band))


def _quantiles(served: ServedLoad) -> Chart:
    rows = []
    for name, title in _WAITS.items():
        found = [served.waits[f"{of}_{name}_ms"] for of in _OF]
        rows.append((title, [(value, f"{value:,.4g} ms") for value in found]))
    return bars("Waits, ms", _OF, rows, is_log=True)


def _load(served: ServedLoad) -> Markup:
    return entries(
        [
            ("requests under way, on average", f"{served.little['under_way']:,.4g}"),
            ("by Little's law", f"{served.little['rate_times_time']:,.4g}"),
            ("turned away", f"{served.failed:,}"),
        ]
    )


def _over_time(served: ServedLoad) -> list[Chart]:
    timeline = served.timeline

    def points(values: tuple[float, ...], unit: str) -> list[tuple[float, float, str]]:
        times = (timeline.interval * place for place in range(len(values)))
        return [
            (at, value, f"{value:,.4g}{unit} at {at:,.4g} s")
            for at, value in zip(times, values, strict=True)
        ]

    seconds = axis("seconds", unit="s")
    requests = [
        line("waiting", points(timeline.waiting, ""), is_marked=False),
        line("running", points(timeline.running, ""), is_marked=False),
    ]
    used = tuple(100 * share for share in timeline.kv_cache_usage)
    cache = [line("kv cache", points(used, " %"), is_marked=False)]
    drawn = [
        curves("Requests over time", seconds, axis("requests"), requests),
        curves("Blocks of keys and values in use", seconds, axis("%", unit="%"), cache),
    ]
    if len(set(timeline.replicas)) > 1:
        counts = [line("replicas", points(timeline.replicas, ""), is_marked=False, is_step=True)]
        drawn.append(curves("Replicas", seconds, axis("replicas"), counts))
    return drawn


def _machines(served: ServedLoad) -> Markup:
    rows: list[list[Cell]] = [
        [
            one["plan"]["model"]["name"],
            number(one["replicas"]),
            number(one["max_num_seqs"]),
            number(one["utilisation"], scale=100),
            number(one["kv_cache_peak"], scale=100),
            number(one["preemptions"]),
        ]
        for one in served.models
    ]
    heads = ("model", "replicas", "sequences", "busy %", "kv cache peak %", "preemptions")
    shown = table("machines", "Replicas", heads, rows)
    pairs: list[tuple[str, object]] = [("chips, on average", f"{served.chips:,.4g}")]
    if served.energy is not None:
        pairs.append(("watts", f"{served.energy['watts']:,.4g}"))
        pairs.append(("joules a request", f"{served.energy['joules_per_request']:,.4g}"))
    if served.cost is not None:
        pairs.append(("USD an hour", f"{served.cost['per_hour']:,.4g}"))
        pairs.append(("USD a million tokens", f"{served.cost['per_million_tokens']:,.4g}"))
    return Markup(shown + entries(pairs))
