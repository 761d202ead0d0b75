"""``trn3 plan --train``: one training step on one screen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from trn3.cli import plan_several
from trn3.cli.consoles import output, print_json, quantile_lines, table
from trn3.cli.progress import working
from trn3.cli.refusal import RefusedError, detailing

if TYPE_CHECKING:
    from trn3.planner.training import TrainingPlan


def run(
    model: Any,
    system: Any,
    training: Mapping[str, Any],
    unused: Sequence[str],
    *,
    as_json: bool = False,
    html: Path | None = None,
    **where: Any,
) -> None:
    """Plan and print one training step.

    `training` has fields of `trn3.planner.training.Training`; `unused` are options that were given
    and have no meaning here; `where` are the other arguments of `plan_training`.

    Raises
    ------
    RefusedError
        If there is no such plan; its details are the memory table where that is why.
    """
    from trn3.planner.several import Plans
    from trn3.planner.training import Training, plan_training

    if unused:
        message = f"{unused[0]} is for serving: it has no meaning with --train"
        raise RefusedError(message)
    for name in ("global_batch", "sequence"):
        if training[name] is None:
            message = f"--train needs --{name.replace('_', '-')}"
            raise RefusedError(message)
    given = {name: value for name, value in training.items() if value is not None}
    with detailing(ValueError, TypeError, MemoryError):
        asked = Training(**given)
        with working(f"planning {model}"):
            plan = plan_training(model, system, asked, **where)
    if html is not None:
        plan.to_html(html)
    if isinstance(plan, Plans):
        if as_json:
            print_json(plan.to_dict(), versioned=True)
        else:
            plan_several.show(plan, model)
    elif as_json:
        print_json(asdict(plan), versioned=True)
    else:
        show(plan)
    if html is not None and not as_json:
        typer.echo(f"wrote {html}")


def show(plan: TrainingPlan) -> None:
    """Print a plan."""
    screen = output()
    screen.print(f"[bold]{plan.model}[/] on {plan.chips:,} chips of {plan.system}: it fits")
    for name, value in _figures(plan):
        screen.print(f"{name:<16}{value}")
    numbers = ("ms", "share", "hidden ms")
    phases = table("part of a step", *numbers, "limited by", right=numbers)
    for phase in plan.phases:
        hidden = f"{phase.hidden * 1e3:,.1f}" if phase.hidden else ""
        phases.add_row(
            phase.name, f"{phase.seconds * 1e3:,.1f}", f"{phase.share:.1%}", hidden, phase.binding
        )
    screen.print(phases)
    memory = table("memory of a logical core", "GiB", right=("GiB",))
    for name, size in plan.memory.rows.items():
        memory.add_row(name, f"{size / 2**30:.3f}")
    memory.add_row(
        "on a bank", f"{plan.memory.used / 2**30:.3f} of {plan.memory.available / 2**30:g}"
    )
    screen.print(memory)
    for text in plan.not_included:
        screen.print(f"not included: {text}")
    for text in plan.assumptions:
        screen.print(f"assumed: {text}")


def _figures(plan: TrainingPlan) -> list[tuple[str, Any]]:
    batch = f"{plan.global_batch:,} sequences of {plan.sequence:,}"
    rows: list[tuple[str, Any]] = [
        ("layout", f"{plan.layout}, {plan.micro_batches} micro-batches"),
        ("step", f"{plan.step_time:.4g} s for {batch}"),
        (
            "rate",
            (
                f"{plan.sequences_per_second:,.2f} sequences/s, "
                f"{plan.tokens_per_second:,.0f} tokens/s, "
                f"{plan.tokens_per_second_per_chip:,.0f} tokens/s a chip"
            ),
        ),
        (
            "use",
            (
                f"{plan.mfu:.1%} MFU (6PT), {plan.mfu_with_attention:.1%} with attention, "
                f"{plan.hfu:.1%} HFU, pipeline bubble {plan.bubble:.1%}"
            ),
        ),
        *plan.schedule.said.items(),
        (
            "expected",
            (
                f"{plan.sequences_per_second_low:,.2f} to {plan.sequences_per_second_high:,.2f} "
                f"sequences/s ({plan.band['text']})"
            ),
        ),
        *quantile_lines(plan.uncertainty),
        ("limited by", plan.bottleneck),
    ]
    if plan.energy is not None and plan.watts is not None:
        variants = ", ".join(
            f"{watts * plan.chips / 1e3:,.1f} kW at {tdp:g} W"
            for tdp, watts in plan.energy.variants.items()
        )
        rows.append(("power", f"{plan.watts / 1e3:,.1f} kW (TDP of a chip: {variants})"))
    if plan.joules_per_token is not None:
        rows.append(("energy", f"{plan.joules_per_token:.4g} J a token"))
    if plan.cost is not None and plan.cost.per_million_tokens is not None:
        dollars = plan.cost.per_million_tokens
        rows.append(
            ("cost", f"{dollars:.4g} USD a million tokens, {plan.cost.per_hour:,.2f} USD an hour")
        )
    return rows
