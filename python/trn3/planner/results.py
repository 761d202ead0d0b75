"""A plan of serving, and what a search for plans found."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, overload

from trn3 import offers, text
from trn3._trn3 import planner as _planner
from trn3.markup import fields, mimebundle
from trn3.pictures import finished
from trn3.planner.models import Model, summary
from trn3.planner.parts import (
    FrontierPoint,
    Layout,
    MemoryRow,
    MemoryTable,
    Part,
    Phase,
    PlanCost,
    PlanEnergy,
    PlanPhase,
    Searched,
)
from trn3.planner.requests import whole
from trn3.typed import typed

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from rich.table import Table

__all__ = [
    "FrontierPoint",
    "Layout",
    "MemoryRow",
    "MemoryTable",
    "Part",
    "Phase",
    "Plan",
    "PlanCost",
    "PlanEnergy",
    "Search",
    "Searched",
    "plan_of",
]

PhaseName: TypeAlias = Literal["decode", "prefill"]


@dataclass(frozen=True, repr=False)
class Plan(offers.Reported):
    """A model on a system, served in one layout.

    Attributes
    ----------
    model : Model
        The model.
    system, chip : str
        Names of the system and of its chip.
    dtypes : Mapping[str, str]
        Format of each class of tensors, of ``kv`` and of ``activations``.
    layout : Layout
        Degrees of parallelism and replicas.
    batch : int
        Sequences that a replica decodes at once.
    input_tokens, output_tokens : int
        Tokens of a prompt, and tokens generated for it; 0 if only decoding at a context matters.
    chips : int
        Chips of all replicas.
    fits : bool
        Whether memory holds it; False only with ``on_overflow="report"``.
    why_not : str or None
        If not, why, and what would.
    largest_batch : int
        The largest batch that fits this layout.
    ttft : float
        Seconds from a prompt's start to its first token, without waiting.
    tpot : float
        Seconds between tokens of one sequence.
    tokens_per_second_per_user : float
        Its inverse.
    tokens_per_second, tokens_per_second_per_chip : float
        Generated tokens of all replicas, and of one chip, while they decode.
    served_tokens_per_second_per_chip, requests_per_second : float or None
        The same if the chips read the prompts too; None without `output_tokens`.
    prefill, decode : PlanPhase
        Both phases in parts.
    prefill_mfu, decode_mbu : float
        Share of the array's peak, and of the memory's.
    decode_floor_bytes, decode_floor_seconds : float
        What a step of decoding must read, and how long that takes at the memory's peak.
    tokens_per_second_per_megawatt : float or None
        Generated tokens a second for a million watts of chips, prompts included where
        `output_tokens` is given; None without `energy`.
    joules_per_request : float or None
        Energy of chips for a request with its prompt; None without `energy` or `output_tokens`.
    energy : PlanEnergy or None
        None if the chip has no published TDP and none was given.
    cost : PlanCost or None
        None if no price is known for the chip and none was given.
    searched : Searched or None
        How the layout was found, if it was not given.
    assumptions : tuple[str, ...]
        Every undocumented number that was used.
    tpot_low, tpot_high, ttft_low, ttft_high : float
        Between which seconds both times are expected.
    band, ttft_band : Mapping[str, Any]
        What says so, of a token and of the first: ``class``, published ``rows`` of it, how many lie
        ``within`` the ``width``, and the ``basis`` of that.
    uncertainty : Mapping[str, Any] or None
        ``p10``, ``p50`` and ``p90`` of ``tpot``, ``ttft`` and ``tokens_per_second_per_chip`` in
        ``figures``, over as many ``samples`` of constants that nobody publishes; None unless asked.
    """

    model: Model
    system: str
    chip: str
    dtypes: Mapping[str, str]
    layout: Layout
    batch: int
    input_tokens: int
    output_tokens: int
    chips: int
    fits: bool
    why_not: str | None
    largest_batch: int
    ttft: float
    tpot: float
    tokens_per_second_per_user: float
    tokens_per_second: float
    tokens_per_second_per_chip: float
    served_tokens_per_second_per_chip: float | None
    requests_per_second: float | None
    prefill: PlanPhase
    decode: PlanPhase
    prefill_mfu: float
    decode_mbu: float
    decode_floor_bytes: float
    decode_floor_seconds: float
    tokens_per_second_per_megawatt: float | None
    joules_per_request: float | None
    energy: PlanEnergy | None
    cost: PlanCost | None
    searched: Searched | None
    assumptions: tuple[str, ...]
    tpot_low: float
    tpot_high: float
    ttft_low: float
    ttft_high: float
    band: Mapping[str, Any]
    ttft_band: Mapping[str, Any]
    uncertainty: Mapping[str, Any] | None
    _memory: MemoryTable
    _document: Mapping[str, Any] = field(compare=False)
    _request: Mapping[str, Any] = field(compare=False)

    def memory_table(self) -> MemoryTable:
        """Return bytes by the runtime's categories; `str` of it is the table."""
        return self._memory

    @property
    def bottleneck(self) -> str:
        """The resource that takes most of a step of decoding."""
        return self.decode.bottleneck

    @property
    def breakdown(self) -> dict[str, dict[str, float]]:
        """Seconds of each part of ``prefill`` and ``decode``, on one stage of the pipeline."""
        return {"prefill": self.prefill.breakdown, "decode": self.decode.breakdown}

    def at(self, *, batch: int | None = None, context: int | None = None) -> Plan:
        """Return the plan of the same layout for another batch or context.

        It may not fit: see `fits` and `why_not`. With a context, only decoding after it counts.

        Examples
        --------
        >>> import trn3
        >>> plan = trn3.plan("llama-3-8b", "gen2", tp=4, batch=1, context=8_000)
        >>> plan.at(batch=64).tokens_per_second_per_chip > plan.tokens_per_second_per_chip
        True
        """
        request = self._asked()
        if batch is not None:
            request["batch"] = whole("batch", batch)
        if context is not None:
            request |= {"input": whole("context", context), "output": 0}
        said = self.assumptions[: len(self.assumptions) - len(self._document["assumptions"])]
        return plan_of(_planner.plan(request), request, said)

    def sweep(self, *, batch: Iterable[int] = (), context: Iterable[int] = ()) -> tuple[Plan, ...]:
        """Return the plans of the same layout for batches, or contexts, or all pairs of both."""
        batches, contexts = tuple(batch) or (None,), tuple(context) or (None,)
        return tuple(self.at(batch=b, context=c) for b in batches for c in contexts)

    @property
    def speculation(self) -> Mapping[str, Any] | None:
        """What a draft model guesses, as it was asked for; None if nothing is guessed."""
        guessed: Mapping[str, Any] | None = self._request.get("speculation")
        return guessed

    def operations(self, phase: PhaseName = "decode") -> list[dict[str, Any]]:
        """Return the operations of one logical core in one stage, as the roofline counts them.

        Each has its ``name``, how often it runs (``count``) and what one of it takes: ``flops``,
        ``weight_bytes``, ``kv_bytes``, ``activation_bytes``, and its ``dtype``.

        Examples
        --------
        >>> import trn3
        >>> plan = trn3.plan("llama-3-8b", "gen2", tp=4, batch=1, context=8_000)
        >>> [one["count"] for one in plan.operations() if one["name"] == "mlp_out"]
        [32.0]
        """
        found = _planner.operations(self._asked())
        return [one for one in found if one["phase"] == phase]

    def exchanges(self, phase: PhaseName = "decode") -> list[dict[str, Any]]:
        """Return what ranks exchange in one stage: collectives, and sends to the next stage.

        Each has its ``name``, its ``collective``, how often it runs (``count``), the ``bytes`` of
        one, and in ``group`` how many ``ranks`` take part and how far apart (``stride``) they are.

        Examples
        --------
        >>> import trn3
        >>> plan = trn3.plan("llama-3-8b", "gen2", tp=4, batch=1, context=8_000)
        >>> [one["group"]["ranks"] for one in plan.exchanges() if one["name"] == "mlp all-reduce"]
        [4]
        """
        found = _planner.exchanges(self._asked())
        exchanged: list[dict[str, Any]] = found[phase]
        return exchanged

    def _asked(self) -> dict[str, Any]:
        """Return the request for exactly this plan."""
        degrees = ("tp", "ep", "pp", "dp", "cp", "replicas", "lnc")
        layout = {name: getattr(self.layout, name) for name in degrees}
        fixed = {"batch": self.batch, "objective": None, "report_overflow": True}
        return {**self._request, **layout, **fixed}

    def frontier(self) -> tuple[str, list[tuple[float, float]]]:
        """Return what other plans there are, and their tokens a second for a user and a chip."""
        from trn3.planner import plots

        if self.searched is not None:
            return "best of all layouts", [plots.speeds(one) for one in self.searched.frontier]
        powers = (1 << power for power in range(self.largest_batch.bit_length()))
        return "this layout, by batch", [plots.speeds(one) for one in self.sweep(batch=powers)]

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain numbers, texts, lists and mappings."""
        return {**self._document, "assumptions": list(self.assumptions)}

    def to_resource_claims(self, **options: Any) -> list[dict[str, Any]]:
        """Return what claims a replica's devices from Kubernetes, and the workload of its pods.

        `options` are those of `trn3.k8s.claims_of_plan`, which has an example.

        Raises
        ------
        trn3.k8s.K8sError
            If the system has no nodes of Kubernetes.
        """
        made: list[dict[str, Any]] = offers.take("plan to resource claims")(self, **options)
        return made

    def to_chakra(self, prefix: str | Path, phase: PhaseName = "decode") -> list[Path]:
        """Write one step as Chakra traces ``PREFIX.RANK.et``, one for each rank of a replica.

        Returns
        -------
        list of pathlib.Path
            The files.

        Raises
        ------
        ValueError
            As `trn3.interchange.chakra.from_plan`.
        """
        written: list[Path] = offers.take("plan to Chakra")(self, prefix, phase)
        return written

    @overload
    def plot(self, path: None = None) -> Figure: ...
    @overload
    def plot(self, path: str | Path) -> Path: ...
    def plot(self, path: str | Path | None = None) -> Path | Figure:
        """Draw the breakdown of both phases and the frontier of speed against throughput.

        Parameters
        ----------
        path
            A ``.png``, ``.svg`` or ``.pdf`` file; without one a figure of matplotlib is returned.

        Raises
        ------
        ImportError
            If matplotlib is not installed.
        ValueError
            If the file has another ending.
        OSError
            If it cannot be written.
        """
        from trn3.planner import plots

        figure = plots.draw_plan(
            f"{self.model.name} on {self.system}: {self.layout}, batch {self.batch}",
            (("prompt", self.prefill, self.ttft), ("a token", self.decode, self.tpot)),
            *self.frontier(),
            plots.speeds(self),
        )
        return finished(figure, path)

    _repr_mimebundle_ = mimebundle

    def __rich__(self) -> Table:
        rows = {
            "model, system": f"{self.model.name} on {self.system}",
            "layout": f"{self.layout}, batch {self.batch:,}, {self.chips:,} chips",
            "fits": "yes" if self.fits else f"no: {self.why_not}",
            "time to first token": text.time(self.ttft),
            "time a token": text.time(self.tpot),
            "tokens/s": f"{self.tokens_per_second_per_user:,.4g} a user, "
            f"{self.tokens_per_second_per_chip:,.4g} a chip",
            "of the peaks": f"{self.prefill_mfu:.1%} prefill MFU, {self.decode_mbu:.1%} decode MBU",
            "energy": "no TDP is known" if self.energy is None
            else f"{self.energy.watts_per_chip:,.4g} W a chip",
            "cost": "no price is known" if self.cost is None
            else f"{self.cost.per_million_tokens:,.4g} $ a million tokens",
            "assumptions": f"{len(self.assumptions)}: plan.assumptions",
        }  # fmt: skip
        return fields("Plan", rows)

    def __repr__(self) -> str:
        return (
            f"<plan of {self.model.name} on {self.system}: {self.layout}, batch {self.batch}, "
            f"TTFT {self.ttft * 1e3:,.0f} ms, {self.tpot * 1e3:.2f} ms a token, "
            f"{self.tokens_per_second_per_chip:,.0f} tokens/s a chip>"
        )


@dataclass(frozen=True, repr=False)
class Search:
    """What a search found: the best plan, and the next ones of other layouts, in order.

    Whatever a plan has, a search has of its best one: ``search.tpot`` is ``search.best.tpot``.
    """

    best: Plan
    plans: tuple[Plan, ...]

    @property
    def frontier(self) -> tuple[FrontierPoint, ...]:
        """Plans that no other beats in both speed for a user and throughput of a chip."""
        return self.best.searched.frontier if self.best.searched else ()

    @property
    def evaluated(self) -> int:
        """Plans whose time was computed."""
        return self.best.searched.evaluated if self.best.searched else 0

    def __iter__(self) -> Iterator[Plan]:
        return iter(self.plans)

    _repr_mimebundle_ = mimebundle

    def __rich__(self) -> Table:
        return self.best.__rich__()

    def __getattr__(self, name: str) -> Any:
        # Fields are not there yet while a copy is being made.
        if name.startswith("_") or name in {"best", "plans"}:
            raise AttributeError(name)
        return getattr(self.best, name)

    def __len__(self) -> int:
        return len(self.plans)

    def __getitem__(self, index: int) -> Plan:
        return self.plans[index]

    def __repr__(self) -> str:
        return f"<best of {self.evaluated:,} plans: {self.best!r}>"


def plan_of(found: dict[str, Any], request: dict[str, Any], said: tuple[str, ...]) -> Plan:
    """Return the plan of a result of the core; `said` are assumptions made before it."""
    memory, workload, system = found["memory"], found["workload"], found["system"]
    rows = tuple(typed(MemoryRow, row, per_core=row["per_rank"]) for row in memory["rows"])
    return typed(
        Plan,
        found,
        model=summary(found["model"], request["model"]),
        system=system["name"],
        chip=system["chip"],
        batch=workload["batch"],
        input_tokens=workload["input"],
        output_tokens=workload["output"],
        prefill=_phase(found["prefill"]),
        decode=_phase(found["decode"]),
        decode_floor_bytes=found["floor_bytes"],
        decode_floor_seconds=found["floor_seconds"],
        assumptions=(*said, *found["assumptions"]),
        _memory=typed(MemoryTable, memory, rows=rows, cores_per_bank=memory["ranks_per_bank"]),
        _document=found,
        _request=request,
    )


def _phase(found: dict[str, Any]) -> PlanPhase:
    return typed(PlanPhase, {**found["activity"], **found})
