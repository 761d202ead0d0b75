"""One recipe on several systems: their plans beside each other, and why some have none."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

from trn3 import offers
from trn3.markup import mimebundle
from trn3.pictures import finished
from trn3.planner.results import Plan
from trn3.text import printable

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from rich.table import Table

HEADINGS = ("system", "chips", "plan", "first token ms", "token ms", "step s", "tokens/s a chip",
            "W a chip", "USD/M tokens")  # fmt: skip
"""What `Plans.table` shows of each; `plan` is the reason of one that has none."""


@dataclass(frozen=True)
class Plans(offers.Reported):
    """Plans of one recipe on several systems, in the order in which these were named.

    Attributes
    ----------
    systems : tuple[str, ...]
        As they were named.
    plans : tuple[Plan or TrainingPlan or None, ...]
        The plan on each; None where there is none.
    refused : Mapping[str, str]
        Why, by the name of the system.
    """

    systems: tuple[str, ...]
    plans: tuple[Any, ...]
    refused: Mapping[str, str]

    def __len__(self) -> int:
        return len(self.plans)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.plans)

    def __getitem__(self, index: int) -> Any:
        return self.plans[index]

    def to_dict(self) -> dict[str, Any]:
        """Return ``{"plans": [...]}``: what each plan has, with the name in ``asked``; or why not.

        A system without a plan has ``asked`` and ``refused``.
        """
        return {"plans": [{"asked": name, **self._document(name, plan)} for name, plan in self._by]}

    def table(self) -> list[tuple[str, ...]]:
        """Return a row for each system, of the columns `HEADINGS`; empty texts for what is not."""
        return [self._row(name, plan) for name, plan in self._by]

    _repr_mimebundle_ = mimebundle

    def __rich__(self) -> Table:
        from rich.table import Table
        from rich.text import Text

        table = Table(box=None, header_style="bold", pad_edge=False)
        for heading in HEADINGS:
            table.add_column(heading, justify="left" if heading in {"system", "plan"} else "right")
        for row in self.table():
            table.add_row(*(Text(printable(cell)) for cell in row))
        return table

    @overload
    def plot(self, path: None = None) -> Figure: ...
    @overload
    def plot(self, path: str | Path) -> Path: ...
    def plot(self, path: str | Path | None = None) -> Path | Figure:
        """Draw the frontiers of speed against throughput of all systems into one picture.

        Parameters
        ----------
        path
            A ``.png``, ``.svg`` or ``.pdf`` file; without one a figure of matplotlib is returned.

        Raises
        ------
        ImportError
            If matplotlib is not installed.
        ValueError
            If there is no plan of serving, or the file has another ending.
        OSError
            If the file cannot be written.
        """
        from trn3.planner import plots

        drawn = [(name, plan) for name, plan in self._by if isinstance(plan, Plan)]
        if not drawn:
            why = "; ".join(self.refused.values()) or "these are plans of training"
            message = f"no plan of serving is there to draw: {why}"
            raise ValueError(message)
        lines = [(name, plan.frontier()[1], plots.speeds(plan)) for name, plan in drawn]
        return finished(plots.draw_frontiers(drawn[0][1].model.name, lines), path)

    @property
    def _by(self) -> list[tuple[str, Any]]:
        return list(zip(self.systems, self.plans, strict=True))

    def _document(self, name: str, plan: Any) -> dict[str, Any]:
        if plan is None:
            return {"refused": self.refused[name]}
        document: dict[str, Any] = plan.to_dict() if isinstance(plan, Plan) else asdict(plan)
        return document

    def _row(self, name: str, plan: Any) -> tuple[str, ...]:
        if plan is None:
            return (name, "", self.refused[name].partition("\n")[0], *[""] * (len(HEADINGS) - 3))
        if isinstance(plan, Plan):
            layout = f"{plan.layout}, batch {plan.batch:,}"
            times = (f"{plan.ttft * 1e3:,.0f}", f"{plan.tpot * 1e3:,.2f}", "")
            watts = plan.energy.watts_per_chip if plan.energy else None
        else:
            layout, times, watts = str(plan.layout), ("", "", f"{plan.step_time:.4g}"), plan.watts
        dollars = plan.cost.per_million_tokens if plan.cost else None
        figures = (plan.tokens_per_second_per_chip, watts, dollars)
        shown = ("" if one is None else f"{one:,.4g}" for one in figures)
        return (name, f"{plan.chips:,}", layout, *times, *shown)


def on_each(plan: Callable[..., Any], systems: Sequence[Any], arguments: dict[str, Any]) -> Plans:
    """Return the plans of one recipe on each of some systems.

    Parameters
    ----------
    plan
        What plans on one.
    systems
        Names, or whatever else it takes as ``system``.
    arguments
        What else it is given.

    Raises
    ------
    ValueError
        If no system is named, one is twice, or none has a plan; why one has none is in `Plans`.
    """
    names = tuple(_name(one) for one in systems)
    if not names or len(set(names)) < len(names):
        message = f"systems are {list(names)}; needed: at least one, and each once"
        raise ValueError(message)
    plans: list[Any] = []
    refused: dict[str, str] = {}
    for name, system in zip(names, systems, strict=True):
        try:
            plans.append(plan(system=system, **arguments))
        except (ValueError, MemoryError, OSError) as error:
            plans.append(None)
            refused[name] = str(error)
    if len(refused) == len(names):
        whys = "; ".join(f"{name}: {why.partition(chr(10))[0]}" for name, why in refused.items())
        message = f"no system has a plan: {whys}"
        raise ValueError(message)
    return Plans(names, tuple(plans), refused)


def _name(system: Any) -> str:
    """Return what a system was asked for by; of one with changes its title alone says so."""
    known = (getattr(system, key, None) for key in ("asked", "title", "name"))
    return next((text for text in known if isinstance(text, str)), str(system))
