"""Reports of plans of serving: where time, memory, watts and dollars go."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from trn3.planner import Plan
from trn3.planner.parts import GIB, PlanPhase
from trn3.planner.results import PhaseName
from trn3.planner.several import HEADINGS, Plans
from trn3.report.charts import Chart, axis, bars, curves, line, stack, stacks
from trn3.report.markup import (
    Cell,
    Markup,
    NumberCell,
    entries,
    listed,
    number,
    paragraphs,
    seconds,
    share,
    table,
)
from trn3.report.shell import ReportPage, ReportPane, versioned
from trn3.text import size, time

#: Axes of speed against throughput.
_USER, _CHIP = "tokens/s for a user", "tokens/s a chip"


def plan_page(plan: Plan) -> str:
    """Return the report of a plan of serving: one page without network.

    Examples
    --------
    >>> import trn3
    >>> html = plan_page(trn3.plan("llama-3-8b", "gen2", tp=4, batch=1, context=8_000))
    >>> html.startswith("<!doctype html>"), 'data-kind="plan"' in html
    (True, True)
    """
    memory = plan.memory_table()
    fits = "It fits" if plan.fits else f"It does not fit: {plan.why_not}"
    phases = [("a prompt", plan.prefill), ("a token", plan.decode)]
    verdict = (
        f"{fits}: {memory.used / GIB:.1f} of {memory.bank / GIB:.1f} GiB a bank. A token takes "
        f"{time(plan.tpot)} on {plan.layout}, batch {plan.batch:,}: {_binding(plan.decode)}."
    )
    panes = [
        ReportPane("time", "Time", _time(plan, phases), _time_charts(phases)),
        ReportPane("memory", "Memory", _memory(plan), [_memory_chart([("a bank", plan)])]),
        ReportPane("power", "Power", _power(plan), _power_charts(plan)),
        ReportPane("cost", "Cost", _cost(plan), _cost_charts(plan)),
        *_frontier([("this plan", plan)]),
        ReportPane("operators", "Operators", _operators(plan)),
        ReportPane("settings", "Settings", _settings(plan)),
    ]
    return ReportPage(
        "plan",
        f"{plan.model.name} on {plan.system}",
        verdict,
        [("machine", f"{plan.chips:,} x {plan.chip}"), *_figures(plan)],
        panes,
        versioned(plan.to_dict()),
    ).html()


def plans_page(plans: Plans) -> str:
    """Return the report of plans of one recipe on several systems, of serving or of training."""
    named = list(zip(plans.systems, plans.plans, strict=True))
    rated = [(name, plan) for name, plan in named if plan is not None]
    serving = [(name, plan) for name, plan in rated if isinstance(plan, Plan)]
    best, most = max(rated, key=lambda one: one[1].tokens_per_second_per_chip)
    rates = [
        (name, [(plan.tokens_per_second_per_chip, f"{plan.tokens_per_second_per_chip:,.4g}")])
        for name, plan in rated
    ]
    rows: list[list[Cell]] = [list(row) for row in plans.table()]
    filled = [at for at in range(len(HEADINGS)) if any(row[at] for row in rows)]
    shown = table(
        "plans",
        "A plan each, of the same recipe",
        [HEADINGS[at] for at in filled],
        [[_counted(HEADINGS[at], row[at]) for at in filled] for row in rows],
    )
    panes = [ReportPane("plans", "Plans", shown, [bars(_CHIP, [_CHIP], rates)])]
    if serving:
        times = [
            stack(f"{name}: {phase}", time(of.seconds), _by_resource(of))
            for name, plan in serving
            for phase, of in (("a prompt", plan.prefill), ("a token", plan.decode))
        ]
        panes += [
            ReportPane(
                "time", "Time", _resources(serving), [stacks("What the time waits for", times)]
            ),
            ReportPane("memory", "Memory", _banks(serving), [_memory_chart(serving)]),
            *_frontier(serving),
        ]
    why = listed("Without a plan", [f"{name}: {text}" for name, text in plans.refused.items()])
    said = [listed(f"Assumed of {name}", list(plan.assumptions)) for name, plan in rated]
    panes.append(ReportPane("settings", "Settings", Markup(why + "".join(said))))
    return ReportPage(
        "plans",
        f"{_model(rated[0][1])} on {len(named)} systems",
        f"{best} gives most a chip: {most.tokens_per_second_per_chip:,.4g} tokens/s.",
        [],
        panes,
        versioned(plans.to_dict()),
    ).html()


def _model(plan: Any) -> str:
    return plan.model.name if isinstance(plan, Plan) else str(plan.model)


def _counted(head: str, text: Cell) -> Cell:
    """Return a cell of a table of texts: a number where its column has numbers."""
    if head in ("system", "plan"):
        return text
    value = float(str(text).replace(",", "")) if text else None
    return number(value, str(text))


def _figures(plan: Plan) -> list[tuple[str, str]]:
    low, high = time(plan.tpot_low), time(plan.tpot_high)
    first_low, first_high = time(plan.ttft_low), time(plan.ttft_high)
    found = [
        ("first token", f"{time(plan.ttft)} ({first_low} to {first_high})"),
        ("a token", f"{time(plan.tpot)} ({low} to {high})"),
        (_USER, f"{plan.tokens_per_second_per_user:,.4g}"),
        (_CHIP, f"{plan.tokens_per_second_per_chip:,.4g}"),
    ]
    if plan.energy is not None:
        found.append(("a chip", f"{plan.energy.watts_per_chip:,.0f} W"))
    if plan.cost is not None:
        found.append(("a million tokens", f"{plan.cost.per_million_tokens:,.3g} USD"))
    return found


def _by_resource(phase: PlanPhase) -> list[tuple[str, float, str]]:
    ranked = sorted(phase.by_resource.items(), key=lambda item: -item[1])
    return [(name, seconds, time(seconds)) for name, seconds in ranked]


def _binding(phase: PlanPhase) -> str:
    ranked = [f"{name} {part / phase.seconds:.0%}" for name, part, _ in _by_resource(phase)[:3]]
    return ", ".join(ranked)


def _time_charts(phases: Sequence[tuple[str, PlanPhase]]) -> list[Chart]:
    parts = [(name, of, [(each.name, each.seconds, time(each.seconds)) for each in of.parts])
             for name, of in phases]  # fmt: skip
    return [
        stacks(
            "What takes the time of a stage",
            [stack(name, time(of.seconds), pieces) for name, of, pieces in parts],
        ),
        stacks(
            "What it waits for",
            [stack(name, time(of.seconds), _by_resource(of)) for name, of in phases],
        ),
    ]


def _time(plan: Plan, phases: Sequence[tuple[str, PlanPhase]]) -> Markup:
    rows: list[list[Cell]] = [
        [name, resource, seconds(part), share(part, of.seconds)]
        for name, of in phases
        for resource, part, _ in _by_resource(of)
    ]
    least = f"{size(plan.decode_floor_bytes, digits=4)} a step at least"
    floor = (
        f"Decoding reads {least}, which takes {time(plan.decode_floor_seconds)} at the memory's "
        f"peak: {plan.decode_mbu:.1%} of the time."
    )
    token = f"A token is expected to take {time(plan.tpot_low)} to {time(plan.tpot_high)}"
    first = f"the first {time(plan.ttft_low)} to {time(plan.ttft_high)}"
    told = [floor, f"{token}: {plan.band['text']}; {first}: {plan.ttft_band['text']}."]
    heads = ("of", "waits for", "time of a stage", "share")
    return Markup(table("waits", "What time waits for", heads, rows) + paragraphs(told))


def _operators(plan: Plan) -> Markup:
    rows: list[list[Cell]] = []
    held: tuple[tuple[str, PhaseName, PlanPhase], ...] = (
        ("a prompt", "prefill", plan.prefill), ("a token", "decode", plan.decode),
    )  # fmt: skip
    for name, phase, of in held:
        known = {one["name"]: one for one in plan.operations(phase)}
        for part in of.parts:
            one = known.get(part.name, {})
            sides = " x ".join(f"{one[side]:,.0f}" for side in ("m", "k", "n") if side in one)
            moved = [one.get(f"{kind}_bytes") for kind in ("weight", "kv", "activation")]
            rows.append([
                name, part.name, str(one.get("dtype") or ""), sides, number(one.get("count")),
                seconds(part.seconds), share(part.seconds, of.seconds), part.resource,
                number(one.get("flops")), *map(_bytes, moved),
            ])  # fmt: skip
    heads = (
        "of", "operator", "format", "m x k x n", "count", "time", "share", "waits for",
        "FLOP of one", "weights of one", "kv of one", "activations of one",
    )  # fmt: skip
    caption = "Operators, collectives and overheads of one logical core in one stage"
    return table("operators", caption, heads, rows)


def _bytes(value: float | None) -> NumberCell:
    return number(value, None if value is None else size(value, digits=4))


def _memory_chart(plans: Sequence[tuple[str, Plan]]) -> Chart:
    rows = []
    for name, plan in plans:
        held = plan.memory_table()
        parts = [(row.category, row.per_bank, f"{row.per_bank / GIB:.3f} GiB") for row in held]
        said = f"{held.used / GIB:.1f} of {held.bank / GIB:.1f} GiB"
        rows.append(stack(name, said, parts, limit=held.bank))
    return stacks("What a bank holds", rows)


def _memory(plan: Plan) -> Markup:
    held = plan.memory_table()
    rows: list[list[Cell]] = [
        [row.category, *(number(value / GIB, f"{value / GIB:.3f}") for value in
                         (row.per_core, row.per_bank, row.per_replica))]
        for row in held
    ]  # fmt: skip
    heads = ("GiB", "a logical core", "a bank", "a replica")
    shown = table(
        "memory", f"What memory holds; logical cores a bank: {held.cores_per_bank}", heads, rows
    )
    told = [f"The largest batch that fits is {plan.largest_batch:,}."]
    return Markup(shown + paragraphs([*told, *filter(None, [plan.why_not])]))


def _power_charts(plan: Plan) -> list[Chart]:
    energy = plan.energy
    if energy is None:
        return []
    watts = (
        ("on average", energy.watts_per_chip), ("decoding", energy.decode_watts_per_chip),
        ("reading prompts", energy.prefill_watts_per_chip), ("TDP", energy.tdp),
    )  # fmt: skip
    rows = [(name, [(value, f"{value:,.0f} W")]) for name, value in watts]
    return [bars("Watts of a chip", ["W"], rows)]


def _power(plan: Plan) -> Markup:
    energy = plan.energy
    if energy is None:
        return paragraphs(["No TDP is published for this chip; --tdp gives one."])
    rows: list[list[Cell]] = [
        [number(tdp, f"{tdp:,.0f} W"), number(watts, f"{watts:,.0f} W")]
        for tdp, watts in energy.variants.items()
    ]
    figures: list[tuple[str, object]] = [
        ("all chips", f"{energy.watts / 1e3:,.4g} kW"),
        ("a token", f"{energy.joules_per_token:,.3g} J"),
    ]
    if plan.joules_per_request is not None:
        figures.append(("a request", f"{plan.joules_per_request:,.4g} J"))
    if plan.tokens_per_second_per_megawatt is not None:
        figures.append(("a MW", f"{plan.tokens_per_second_per_megawatt:,.0f} tokens/s"))
    shown = table("tdp", "For each TDP that sources give", ("TDP", "a chip"), rows)
    return Markup(entries(figures) + shown + listed("Assumed", energy.assumptions))


def _cost_charts(plan: Plan) -> list[Chart]:
    """Return what a dollar pays for: chips are rented by the hour, so that it goes as time does."""
    if plan.cost is None:
        return []
    served, decoded = plan.served_tokens_per_second_per_chip, plan.tokens_per_second_per_chip
    tokens = 1.0 if served is None else served / decoded
    dollars = plan.cost.per_million_tokens
    phases = (("tokens", plan.decode, tokens), ("prompts", plan.prefill, 1 - tokens))
    parts = [
        (f"{resource}, {name}", dollars * part * taken / of.seconds)
        for name, of, part in phases
        for resource, taken in of.by_resource.items()
        if part > 0
    ]
    ranked = sorted(parts, key=lambda part: -part[1])
    pieces = [(name, value, f"{value:.3g} USD") for name, value in ranked]
    row = stack("a million tokens", f"{dollars:,.3g} USD", pieces)
    return [stacks("What the chips' time, and so its price, goes to", [row])]


def _cost(plan: Plan) -> Markup:
    cost = plan.cost
    if cost is None:
        return paragraphs(["Nobody named a price for this chip; --price gives one."])
    figures = [
        ("a million tokens", f"{cost.per_million_tokens:,.4g} USD"),
        ("an hour", f"{cost.per_hour:,.2f} USD"),
        ("a chip and hour", f"{cost.price_per_chip_hour:,.4g} USD"),
        ("price", cost.price),
    ]
    said = listed("Not included", cost.not_included) + listed("Assumed", cost.assumptions)
    return Markup(entries(figures) + said)


def _frontier(plans: Sequence[tuple[str, Plan]]) -> list[ReportPane]:
    """Return a pane of what no other plan beats, where layouts were searched."""
    searched = [(name, plan) for name, plan in plans if plan.searched is not None]
    if not searched:
        return []
    series, rows = [], list[list[Cell]]()
    for name, plan in searched:
        assert plan.searched is not None
        points = plan.searched.frontier
        label = "best of all layouts" if len(searched) == 1 else name
        series.append(line(label, [
            (one.tokens_per_second_per_user, one.tokens_per_second_per_chip,
             f"{one.layout}\nbatch {one.batch:,}\nfirst token {time(one.ttft)}")
            for one in sorted(points, key=lambda one: one.tokens_per_second_per_user)
        ]))  # fmt: skip
        rows += [
            [name, str(one.layout), number(one.batch), number(one.tokens_per_second_per_user),
             number(one.tokens_per_second_per_chip), seconds(one.ttft)]
            for one in points
        ]  # fmt: skip
    own = [
        (plan.tokens_per_second_per_user, plan.tokens_per_second_per_chip, f"{name}\n{plan.layout}")
        for name, plan in searched
    ]
    series.append(line("this plan" if len(searched) == 1 else "the plans", own, is_line=False))
    told = [
        f"{name}: best of {plan.searched.evaluated:,} for {plan.searched.objective}"
        for name, plan in searched
        if plan.searched is not None
    ]
    heads = ("of", "layout", "batch", _USER, _CHIP, "first token")
    shown = table("frontier", "Plans that no other beats in both", heads, rows) + paragraphs(told)
    chart = curves(
        "Speed against throughput, decoding", axis(_USER), axis(_CHIP, is_log=True), series
    )
    return [ReportPane("frontier", "Frontier", Markup(shown), [chart])]


def _resources(plans: Sequence[tuple[str, Plan]]) -> Markup:
    rows: list[list[Cell]] = [
        [name, phase, resource, seconds(part), share(part, of.seconds)]
        for name, plan in plans
        for phase, of in (("a prompt", plan.prefill), ("a token", plan.decode))
        for resource, part, _ in _by_resource(of)
    ]  # fmt: skip
    heads = ("system", "of", "waits for", "time of a stage", "share")
    return table("waits", "What time waits for", heads, rows)


def _banks(plans: Sequence[tuple[str, Plan]]) -> Markup:
    rows: list[list[Cell]] = [
        [name, row.category, number(row.per_bank / GIB, f"{row.per_bank / GIB:.3f}")]
        for name, plan in plans
        for row in plan.memory_table()
    ]
    return table("memory", "What a bank holds", ("system", "category", "GiB"), rows)


def _settings(plan: Plan) -> Markup:
    searched = plan.searched
    figures: list[tuple[str, object]] = [
        ("model", plan.model.name),
        ("parameters", f"{plan.model.parameters / 1e9:,.4g} B"),
        ("of them active", f"{plan.model.parameters_active / 1e9:,.4g} B"),
        ("system", plan.system),
        ("layout", plan.layout),
        ("batch of a replica", f"{plan.batch:,}"),
        ("tokens in", f"{plan.input_tokens:,}"),
        ("tokens out", f"{plan.output_tokens:,}"),
    ]
    if searched is not None:
        refused = ", ".join(f"{why} {count:,}" for why, count in searched.refused.items())
        said = f"best of {searched.evaluated:,} for {searched.objective}"
        figures.append(("search", f"{said}; refused for {refused}" if refused else said))
    figures += [(f"format of {name}", dtype) for name, dtype in plan.dtypes.items()]
    drawn = Markup()
    if plan.uncertainty is not None:
        rows: list[list[Cell]] = [
            [name, *map(number, of.values())] for name, of in plan.uncertainty["figures"].items()
        ]
        heads = ["figure", *next(iter(plan.uncertainty["figures"].values()))]
        caption = f"Over {plan.uncertainty['samples']:,} draws of constants that nobody publishes"
        drawn = table("uncertainty", caption, heads, rows)
    return Markup(entries(figures) + drawn + listed("Assumed", plan.assumptions))
