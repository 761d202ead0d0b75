"""What plans are made of."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from trn3.planner.models import Model, summary

GIB = 2**30


@dataclass(frozen=True, slots=True)
class Layout:
    """How replicas of a model lie on logical cores.

    A stage of the pipeline has ``tp * cp * dp`` logical cores. Attention and dense blocks are split
    over `tp`, sequences over `dp`, the tokens of a sequence over `cp`, experts over `ep` groups of
    the stage's cores. `replicas` share nothing.
    """

    tp: int
    ep: int
    pp: int
    dp: int
    cp: int
    replicas: int
    lnc: int

    @property
    def ranks(self) -> int:
        """Logical cores of one replica."""
        return self.tp * self.cp * self.dp * self.pp

    def __str__(self) -> str:
        degrees = ((name, getattr(self, name)) for name in ("tp", "ep", "pp", "dp", "cp"))
        shown = [f"{name.upper()} {value}" for name, value in degrees if value > 1] or ["TP 1"]
        many = f"{self.replicas:,} replicas" if self.replicas > 1 else "1 replica"
        return f"{' x '.join(shown)}, {many}, LNC={self.lnc}"


@dataclass(frozen=True, slots=True)
class MemoryRow:
    """Bytes of one category on a logical core, on a bank, and of a whole replica."""

    category: str
    per_core: float
    per_bank: float
    per_replica: float


@dataclass(frozen=True, slots=True)
class MemoryTable:
    """Memory in the runtime's categories against what a bank has; `str` gives it as text.

    Attributes
    ----------
    rows : tuple[MemoryRow, ...]
        Categories that are not empty.
    cores_per_bank : int
        Logical cores that share a bank: 2 at LNC=1, 1 at LNC=2.
    bank, used : float
        Bytes of a bank, and what of them is used.
    fits : bool
        Whether `used` is no more than `bank`.
    """

    rows: tuple[MemoryRow, ...]
    cores_per_bank: int
    bank: float
    used: float
    fits: bool

    def __iter__(self) -> Iterator[MemoryRow]:
        return iter(self.rows)

    def __getitem__(self, category: str) -> MemoryRow:
        for row in self.rows:
            if row.category == category:
                return row
        raise KeyError(category)

    def __str__(self) -> str:
        lines = [f"{'GiB':<22}{'a logical core':>16}{'a bank':>12}{'a replica':>14}"]
        lines += [
            f"{row.category:<22}{row.per_core / GIB:>16.3f}{row.per_bank / GIB:>12.3f}"
            f"{row.per_replica / GIB:>14.3f}"
            for row in self.rows
        ]
        lines.append(f"{'total':<22}{self.used / GIB:>28.3f}")
        lines.append(f"{'available':<22}{self.bank / GIB:>28.3f}")
        return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class Part:
    """A share of a phase: an operation, a collective or an overhead, and what it waits for."""

    name: str
    seconds: float
    resource: str


@dataclass(frozen=True, slots=True)
class Phase:
    """Reading a prompt, or a step of decoding, on one stage of the pipeline.

    Attributes
    ----------
    seconds : float
        How long the stage takes.
    parts : tuple[Part, ...]
        What that is made of.
    by_resource : Mapping[str, float]
        Seconds by what they wait for: ``TensorEngine``, ``HBM``, ``DMA engines``,
        ``links: LEVEL``, ``layer overhead``, ``measured kernels``, ``draft model``.
    bottleneck : str
        The resource that takes most of the time.
    flops : Mapping[str, float]
        Operations of one chip meanwhile, by format.
    hbm_bytes, link_bytes : float
        Bytes that one chip moves meanwhile.
    """

    seconds: float
    parts: tuple[Part, ...]
    by_resource: Mapping[str, float]
    bottleneck: str
    flops: Mapping[str, float]
    hbm_bytes: float
    link_bytes: float

    @property
    def breakdown(self) -> dict[str, float]:
        """Seconds of each part."""
        return {part.name: part.seconds for part in self.parts}


@dataclass(frozen=True, slots=True)
class PlanEnergy:
    """What a plan draws: watts, joules a token, and the same for each TDP that sources give."""

    watts_per_chip: float
    watts: float
    decode_watts_per_chip: float
    prefill_watts_per_chip: float
    joules_per_token: float
    tdp: float
    variants: Mapping[float, float]
    assumptions: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PlanCost:
    """What a plan costs at a price of a chip and hour, in US dollars."""

    price_per_chip_hour: float
    price: str
    per_hour: float
    per_million_tokens: float
    not_included: tuple[str, ...]
    assumptions: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class FrontierPoint:
    """A plan that no other beats in both speed for a user and throughput of a chip."""

    layout: Layout
    batch: int
    tokens_per_second_per_user: float
    tokens_per_second_per_chip: float
    ttft: float


@dataclass(frozen=True, slots=True)
class Searched:
    """How a layout was found: by what objective, among how many plans, what was refused."""

    objective: str
    evaluated: int
    refused: Mapping[str, int]
    frontier: tuple[FrontierPoint, ...]


@dataclass(frozen=True, repr=False)
class Plan:
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
    prefill, decode : Phase
        Both phases in parts.
    prefill_mfu, decode_mbu : float
        Share of the array's peak, and of the memory's.
    decode_floor_bytes, decode_floor_seconds : float
        What a step of decoding must read, and how long that takes at the memory's peak.
    energy : PlanEnergy or None
        None if the chip has no published TDP and none was given.
    cost : PlanCost or None
        None if no price is known for the chip and none was given.
    searched : Searched or None
        How the layout was found, if it was not given.
    assumptions : tuple[str, ...]
        Every undocumented number that was used.
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
    prefill: Phase
    decode: Phase
    prefill_mfu: float
    decode_mbu: float
    decode_floor_bytes: float
    decode_floor_seconds: float
    energy: PlanEnergy | None
    cost: PlanCost | None
    searched: Searched | None
    assumptions: tuple[str, ...]
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
        from trn3.planner.plans import replanned

        return replanned(self, batch=batch, context=context)

    def sweep(self, *, batch: Iterable[int] = (), context: Iterable[int] = ()) -> tuple[Plan, ...]:
        """Return the plans of the same layout for batches, or contexts, or all pairs of both."""
        batches, contexts = tuple(batch) or (None,), tuple(context) or (None,)
        return tuple(self.at(batch=b, context=c) for b in batches for c in contexts)

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain numbers, texts, lists and mappings."""
        return {**self._document, "assumptions": list(self.assumptions)}

    def to_chakra(
        self, prefix: str | Path, phase: Literal["decode", "prefill"] = "decode"
    ) -> list[Path]:
        """Write one step as Chakra traces ``PREFIX.RANK.et``, one for each rank of a replica.

        Returns
        -------
        list of pathlib.Path
            The files.

        Raises
        ------
        ValueError
            As `trn3.chakra.from_plan`.
        ImportError
            If protobuf is not installed (the extra ``interchange``).
        """
        from trn3 import chakra

        return chakra.write_ranks(chakra.from_plan(self, phase), prefix)

    def plot(self, path: str | Path) -> Path:
        """Draw the breakdown of both phases and the frontier of speed against throughput.

        Parameters
        ----------
        path
            A ``.png``, ``.svg`` or ``.pdf`` file.

        Raises
        ------
        ImportError
            If matplotlib is not installed.
        """
        from trn3.planner.plots import plot_plan

        return plot_plan(self, Path(path))

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
    memory, workload = found["memory"], found["workload"]
    same = (
        "chips", "fits", "why_not", "largest_batch", "ttft", "tpot", "tokens_per_second_per_user",
        "tokens_per_second", "tokens_per_second_per_chip", "served_tokens_per_second_per_chip",
        "requests_per_second", "prefill_mfu", "decode_mbu", "dtypes",
    )  # fmt: skip
    rows = tuple(
        MemoryRow(row["category"], row["per_rank"], row["per_bank"], row["per_replica"])
        for row in memory["rows"]
    )
    return Plan(
        **{name: found[name] for name in same},
        model=summary(found["model"], request["model"]),
        system=found["system"]["name"],
        chip=found["system"]["chip"],
        layout=Layout(**found["layout"]),
        batch=workload["batch"],
        input_tokens=workload["input"],
        output_tokens=workload["output"],
        prefill=_phase(found["prefill"]),
        decode=_phase(found["decode"]),
        decode_floor_bytes=found["floor_bytes"],
        decode_floor_seconds=found["floor_seconds"],
        energy=_energy(found["energy"]),
        cost=_cost(found["cost"]),
        searched=_searched(found["searched"]),
        assumptions=(*said, *found["assumptions"]),
        _memory=MemoryTable(
            rows, memory["ranks_per_bank"], memory["bank"], memory["used"], memory["fits"]
        ),
        _document=found,
        _request=request,
    )


def _phase(found: dict[str, Any]) -> Phase:
    activity = found["activity"]
    return Phase(
        seconds=found["seconds"],
        parts=tuple(Part(**part) for part in found["parts"]),
        by_resource=found["by_resource"],
        bottleneck=found["bottleneck"],
        flops=activity["flops"],
        hbm_bytes=activity["hbm_bytes"],
        link_bytes=activity["link_bytes"],
    )


def _energy(found: dict[str, Any] | None) -> PlanEnergy | None:
    if found is None:
        return None
    return PlanEnergy(
        **{
            **found,
            "variants": dict(found["variants"]),
            "assumptions": tuple(found["assumptions"]),
        }
    )


def _cost(found: dict[str, Any] | None) -> PlanCost | None:
    if found is None:
        return None
    lists = {name: tuple(found[name]) for name in ("not_included", "assumptions")}
    return PlanCost(**{**found, **lists})


def _searched(found: dict[str, Any] | None) -> Searched | None:
    if found is None:
        return None
    points = tuple(
        FrontierPoint(**{**point, "layout": Layout(**point["layout"])})
        for point in found["frontier"]
    )
    return Searched(found["objective"], found["evaluated"], found["refused"], points)
