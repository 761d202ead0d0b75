"""``trn3 plan`` of serving on one system: one screen."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trn3.cli.consoles import quantile_lines

if TYPE_CHECKING:
    from rich.console import Console

    from trn3.planner import Phase, Plan

SHOWN_RESOURCES = 3


def show(plan: Plan, console: Console) -> None:
    """Print a plan: what it is, what it takes, and all that was assumed."""
    from rich.table import Table

    from trn3.text import printable

    grid = Table(box=None, show_header=False, pad_edge=False)
    grid.add_column(style="bold", no_wrap=True)
    grid.add_column()
    for name, text in _lines(plan):
        grid.add_row(name, printable(text))
    console.print(
        f"{printable(plan.model.name)} on {plan.to_dict()['system']['title']}", style="bold"
    )
    console.print(grid)
    console.print("Assumed:", style="bold")
    for text in plan.assumptions:
        console.print(f"  {printable(text)}", style="dim", soft_wrap=True)


def _lines(plan: Plan) -> list[tuple[str, str]]:
    table = plan.memory_table()
    gib = 2.0**30
    biggest = sorted(table, key=lambda row: -row.per_bank)[:SHOWN_RESOURCES]
    parts = ", ".join(f"{row.category} {row.per_bank / gib:.1f}" for row in biggest)
    formats: dict[str, list[str]] = {}
    for name, dtype in plan.dtypes.items():
        if plan.model.parameters_by_class.get(name, 1) > 0:
            formats.setdefault(dtype, []).append(name)
    usual = max(formats, key=lambda dtype: len(formats[dtype]))
    special = [f"{', '.join(names)} {dtype}" for dtype, names in formats.items() if dtype != usual]
    tokens = f"{plan.input_tokens:,} tokens in" + (
        f", {plan.output_tokens:,} out" if plan.output_tokens else ": decoding after them"
    )
    searched = plan.searched
    found = f"; best of {searched.evaluated:,} for {searched.objective}" if searched else ""
    chips = f"{plan.chips:,} chips" if plan.chips > 1 else "1 chip"
    fits = (
        f"yes: {table.used / gib:.1f} of {table.bank / gib:.1f} GiB a bank ({parts}); "
        f"largest batch {plan.largest_batch:,}"
    )
    per_token = (
        f"{plan.tpot * 1e3:,.2f} ms ({_number(plan.tokens_per_second_per_user)} tokens/s a user), "
        f"bound by {_binding(plan.decode)}"
    )
    expected = (
        f"{plan.tpot_low * 1e3:,.2f} to {plan.tpot_high * 1e3:,.2f} ms a token "
        f"({plan.band['text']}); first after {plan.ttft_low * 1e3:,.0f} to "
        f"{plan.ttft_high * 1e3:,.0f} ms ({plan.ttft_band['text']})"
    )
    floor = (
        f"{plan.decode_floor_bytes / 1e9:,.1f} GB a step at least: "
        f"{plan.decode_floor_seconds * 1e3:,.2f} ms at the memory's peak "
        f"({100 * plan.decode_mbu:.0f} % of the time)"
    )
    counts = (
        f"{plan.model.parameters / 1e9:,.1f} B parameters, "
        f"{plan.model.parameters_active / 1e9:,.1f} B active; "
    )
    return [
        ("model", counts + "; ".join([*special, f"{'the rest ' if special else 'all '}{usual}"])),
        ("request", tokens),
        ("fits", fits),
        ("plan", f"{plan.layout}, batch {plan.batch:,} a replica, {chips}{found}"),
        ("time to first token", f"{plan.ttft * 1e3:,.0f} ms, bound by {_binding(plan.prefill)}"),
        ("time per token", per_token),
        ("expected", expected),
        *quantile_lines(plan.uncertainty),
        ("floor", floor),
        ("throughput", _throughput(plan)),
        ("power", _power(plan)),
        ("cost", _cost(plan)),
    ]


def _number(value: float) -> str:
    """Return a rate with three digits, more before the point.

    >>> _number(1234.5), _number(1.5249)
    ('1,234', '1.52')
    """
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _throughput(plan: Plan) -> str:
    text = f"{_number(plan.tokens_per_second_per_chip)} tokens/s a chip decoding"
    if plan.served_tokens_per_second_per_chip is not None:
        text += (
            f", {_number(plan.served_tokens_per_second_per_chip)} with prompts; "
            f"{_number(plan.requests_per_second or 0.0)} requests/s in all"
        )
    return text


def _power(plan: Plan) -> str:
    energy = plan.energy
    if energy is None:
        return "unknown: no TDP is published for this chip; give one with --tdp"
    others = [
        f"{watts:,.0f} W with a TDP of {tdp:,.0f} W"
        for tdp, watts in energy.variants.items()
        if tdp != energy.tdp
    ]
    text = (
        f"{energy.watts_per_chip:,.0f} W a chip, {energy.watts / 1e3:,.1f} kW in all, "
        f"{energy.joules_per_token:,.3g} J a token"
    )
    if plan.joules_per_request is not None:
        text += f", {_number(plan.joules_per_request)} J a request"
    text += (
        f", {_number(plan.tokens_per_second_per_megawatt or 0.0)} tokens/s a MW, "
        f"with a TDP of {energy.tdp:,.0f} W"
    )
    return text + (f" ({', '.join(others)})" if others else "")


def _cost(plan: Plan) -> str:
    cost = plan.cost
    if cost is None:
        return "unknown: nobody named a price for this chip; give one with --price"
    return (
        f"{cost.per_million_tokens:,.3g} USD a million tokens, "
        f"at {cost.price_per_chip_hour:,.4g} USD a chip and hour"
    )


def _binding(phase: Phase) -> str:
    ranked = sorted(phase.by_resource.items(), key=lambda item: -item[1])[:SHOWN_RESOURCES]
    shares = [f"{name} {100 * seconds / phase.seconds:.0f} %" for name, seconds in ranked]
    return ", ".join(shares)
