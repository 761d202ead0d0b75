"""Reports of plans of training, and of the operators of a forward pass."""

from __future__ import annotations

from dataclasses import asdict

from trn3.planner.operator_table import OperatorTable
from trn3.planner.training_results import GIB, TrainingPlan
from trn3.report.charts import Chart, bars, stack, stacks
from trn3.report.markup import (
    Cell,
    Markup,
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


def training_page(plan: TrainingPlan) -> str:
    """Return the report of a plan of training: one page without network."""
    held = plan.memory
    phases: list[list[Cell]] = [
        [phase.name, seconds(phase.seconds), share(phase.share, 1.0), seconds(phase.hidden),
         phase.binding]
        for phase in plan.phases
    ]  # fmt: skip
    step = stack(
        "a step",
        time(plan.step_time),
        [(phase.name, phase.seconds, time(phase.seconds)) for phase in plan.phases],
    )
    classes: list[list[Cell]] = [
        [name, number(value / GIB, f"{value / GIB:.3f}")] for name, value in held.rows.items()
    ]
    # Of a bank that several logical cores share each class takes its part.
    scale = held.used / (sum(held.rows.values()) or 1.0)
    bank = stack(
        "a bank",
        f"{held.used / GIB:.1f} of {held.available / GIB:.1f} GiB",
        [(name, scale * kept, f"{scale * kept / GIB:.3f} GiB") for name, kept in held.rows.items()],
        limit=held.available,
    )
    said = listed("Not included", plan.not_included) + listed("Assumed", plan.assumptions)
    layout = entries([("layout", plan.layout), *plan.schedule.said.items()])
    panes = [
        ReportPane(
            "time",
            "Time",
            Markup(
                table(
                    "phases", "Parts of a step, the longest first",
                    ("part", "time", "share", "hidden under others", "limited by"), phases,
                ) + paragraphs([_band(plan)])
            ),
            [stacks("What a step takes", [step])],
        ),
        ReportPane(
            "memory",
            "Memory",
            table("memory", "On a logical core of the fullest stage", ("class", "GiB"), classes),
            [stacks("What a bank holds", [bank])],
        ),
        _power(plan),
        ReportPane("cost", "Cost", _cost(plan), _cost_charts(plan)),
        ReportPane("settings", "Settings", Markup(layout + said)),
    ]  # fmt: skip
    verdict = (
        f"A step of {plan.global_batch:,} sequences of {plan.sequence:,} tokens takes "
        f"{time(plan.step_time)} on {plan.layout}; most of it is {plan.bottleneck}."
    )
    figures = [
        ("machine", f"{plan.chips:,} chips of {plan.system}"),
        ("a step", f"{time(plan.step_time)} ({_bounds(plan)})"),
        ("tokens/s", f"{plan.tokens_per_second:,.0f}"),
        ("tokens/s a chip", f"{plan.tokens_per_second_per_chip:,.4g}"),
        ("MFU", f"{plan.mfu:.1%}"),
        ("pipeline bubble", f"{plan.bubble:.1%}"),
    ]
    summary = versioned(asdict(plan))
    return ReportPage("training", f"Training {plan.model}", verdict, figures, panes, summary).html()


def operators_page(found: OperatorTable) -> str:
    """Return the report of the operators of a forward pass: one page without network."""
    result = found.to_dict()
    panes: list[ReportPane] = []
    for name, one in found.passes.items():
        rows: list[list[Cell]] = [
            [each["name"], each["kind"], number(each["count"]),
             " x ".join(f"{side:,.0f}" for side in each["shape"]), each["dtype"],
             number(each["flops"]), number(each["bytes"], size(each["bytes"], digits=4)),
             number(each["intensity"]), seconds(each["seconds"]),
             share(each["seconds"], one["seconds"]), each["bound"]]
            for each in one["operators"]
        ]  # fmt: skip
        heads = ("operator", "kind", "count", "shape", "format", "FLOP", "bytes", "FLOP a byte",
                 "time", "share", "bound by")  # fmt: skip
        parts = [
            (each["name"], each["seconds"], time(each["seconds"])) for each in one["operators"]
        ]
        chart = stacks("What takes the time", [stack(name, time(one["seconds"]), parts)])
        rate = f"{one['per_second']:,.4g} {one['unit']} a second at most"
        panes.append(
            ReportPane(
                f"pass-{len(panes)}", name.capitalize(),
                Markup(table(f"operators-{len(panes)}", name, heads, rows) + paragraphs([rate])),
                [chart],
            )
        )  # fmt: skip
    formats = [(f"format of {name}", dtype) for name, dtype in result["dtypes"].items()]
    said = Markup(entries(formats) + listed("Assumed", found.assumptions))
    panes.append(ReportPane("settings", "Settings", said))
    taken = [(name, time(one["seconds"])) for name, one in found.passes.items()]
    verdict = "; ".join(f"{name}: {least} at least" for name, least in taken)
    figures = [
        ("machine", f"{result['chips']:,} x {result['chip']}"),
        ("parameters", f"{found.model.parameters / 1e9:,.4g} B"),
        ("batch", f"{result['batch']:,}"),
        *taken,
    ]
    title = f"Operators of {found.model.name}"
    return ReportPage("operators", title, verdict, figures, panes, versioned(result)).html()


def _bounds(plan: TrainingPlan) -> str:
    return f"{time(plan.step_time_low)} to {time(plan.step_time_high)}"


def _band(plan: TrainingPlan) -> str:
    return f"Expected within {_bounds(plan)}: {plan.band['text']}." if plan.band else ""


def _power(plan: TrainingPlan) -> ReportPane:
    energy = plan.energy
    if energy is None or plan.watts is None:
        text = paragraphs(["No TDP is published for this chip; --tdp gives one."])
        return ReportPane("power", "Power", text)
    ranked = sorted(energy.parts.items(), key=lambda part: -part[1])
    whole = sum(energy.parts.values()) or 1.0
    parts = [(name, joules, f"{joules / whole * energy.watts:,.4g} W") for name, joules in ranked]
    rows: list[list[Cell]] = [
        [name, number(joules), share(joules, whole)] for name, joules in ranked
    ]
    figures: list[tuple[str, object]] = [("all chips", f"{plan.watts / 1e3:,.4g} kW")]
    if plan.joules_per_token is not None:
        figures.append(("a token", f"{plan.joules_per_token:,.4g} J"))
    shown = table("energy", "Energy of a chip in a step", ("goes to", "J", "share"), rows)
    tdps = [
        (f"{tdp:,.0f} W", [(watts, f"{watts:,.0f} W")]) for tdp, watts in energy.variants.items()
    ]
    charts = [
        stacks("Where a chip's watts go", [stack("a chip", f"{energy.watts:,.0f} W", parts)]),
        bars("Watts of a chip by its TDP", ["W"], tdps),
    ]
    said = Markup(shown + entries(figures) + listed("Assumed", energy.assumptions))
    return ReportPane("power", "Power", said, charts)


def _cost_charts(plan: TrainingPlan) -> list[Chart]:
    """Return what a dollar pays for: chips are rented by the hour, so that it goes as time does."""
    if plan.cost is None or plan.cost.per_million_tokens is None:
        return []
    dollars = plan.cost.per_million_tokens
    parts = [
        (phase.name, dollars * phase.share, f"{dollars * phase.share:.3g} USD")
        for phase in plan.phases
    ]
    row = stack("a million tokens", f"{dollars:,.3g} USD", parts)
    return [stacks("What the chips' time, and so its price, goes to", [row])]


def _cost(plan: TrainingPlan) -> Markup:
    cost = plan.cost
    if cost is None:
        return paragraphs(["Nobody named a price for this chip; --price gives one."])
    figures: list[tuple[str, object]] = [("an hour", f"{cost.per_hour:,.2f} USD")]
    if cost.per_million_tokens is not None:
        figures.append(("a million tokens", f"{cost.per_million_tokens:,.4g} USD"))
    said = listed("Not included", cost.not_included) + listed("Assumed", cost.assumptions)
    return Markup(entries(figures) + said)
