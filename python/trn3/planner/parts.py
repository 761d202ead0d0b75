"""Parts of plans of serving: layouts, phases, memory, energy, cost."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

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
class LoadTimeline:
    """The state of a service at times that are equally far apart.

    Attributes
    ----------
    interval : float
        Seconds from one point to the next; the first is at second 0.
    waiting, running : tuple[int, ...]
        Requests that wait, and that replicas work on.
    kv_cache_usage : tuple[float, ...]
        Share of the blocks of keys and values in use.
    replicas : tuple[int, ...]
        Replicas that serve.
    """

    interval: float
    waiting: tuple[int, ...]
    running: tuple[int, ...]
    kv_cache_usage: tuple[float, ...]
    replicas: tuple[int, ...]


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
class PlanPhase:
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


#: Its name in earlier releases.
Phase = PlanPhase


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
