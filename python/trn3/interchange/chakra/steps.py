"""A plan's step as traces: one for each rank of a replica."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal

from trn3.interchange.chakra.ranks import write_ranks
from trn3.interchange.chakra.trace import Attribute, CollectiveType, Node, NodeType, Trace

if TYPE_CHECKING:
    from pathlib import Path

    from trn3.planner.results import Plan

PS_PER_US = 1_000_000

#: Where collectives stand: after the operation of a layer that comes last of these.
_AFTER: Final = {
    "context all-gather": ("qkv", "kv_up"),
    "context all-reduce": ("attention", "window_attention"),
    "attention all-reduce": ("attention_out",),
    "mlp all-reduce": ("mlp_out",),
    "expert dispatch": ("router",),
    "expert all-gather": ("router",),
    "expert reduce-scatter": ("experts_out",),
    "expert combine": ("experts_out",),
    "experts all-gather": ("experts_out", "shared_experts_out"),
    "experts all-reduce": ("experts_out", "shared_experts_out"),
}
_FIRST: Final = {"embedding", "embedding all-reduce"}
_LAST: Final = {"unembedding", "sampling", "sampling all-gather"}
_TYPES: Final = {
    "all_reduce": CollectiveType.ALL_REDUCE,
    "all_gather": CollectiveType.ALL_GATHER,
    "reduce_scatter": CollectiveType.REDUCE_SCATTER,
    "all_to_all": CollectiveType.ALL_TO_ALL,
}


def from_plan(plan: Plan, phase: Literal["decode", "prefill"] = "decode") -> list[Trace]:
    """Return the traces of one step of a plan, one for each rank of a replica.

    Computation has the plan's times (``duration_ps`` beside whole microseconds), operations
    (``num_ops``) and bytes (``tensor_size``); collectives have sizes and process groups; the
    stages of a pipeline send to each other. Where the plan knows only sums over layers, each layer
    has an equal part. All nodes of a rank follow each other: plans overlap nothing.

    Replicas share nothing, so that one of them is the job. Its ranks are numbered as on the system,
    tensor parallelism innermost.

    Parameters
    ----------
    plan
        What `trn3.plan` returns for inference.
    phase
        One step of decoding of one micro-batch through all stages, or reading prompts, one for
        each data-parallel part.

    Raises
    ------
    TypeError
        If the plan is one of training, whose steps overlap.
    ValueError
        If the phase is neither, or the plan guesses tokens with a draft model.

    Examples
    --------
    >>> import trn3
    >>> from trn3.interchange import chakra
    >>> plan = trn3.plan("openai/gpt-oss-120b", "gen2", tp=8, batch=8, context=10_000)
    >>> traces = chakra.from_plan(plan)
    >>> len(traces), len(traces[0].nodes)
    (8, 365)
    >>> result = chakra.replay(traces, "gen2")
    >>> 0.8 < result.finish / plan.tpot < 1.2
    True
    """
    from trn3.planner.results import Plan

    given: Any = plan
    if not isinstance(given, Plan):
        message = (
            f"plan is {type(given).__name__}; needed: what trn3.plan returns for inference; steps "
            "of training overlap in ways that no list of parts says"
        )
        raise TypeError(message)
    if phase not in {"decode", "prefill"}:
        message = f"phase is {phase!r}; allowed: 'decode', 'prefill'"
        raise ValueError(message)
    if plan.speculation:
        message = "the plan guesses tokens (speculation), which traces cannot say; plan without it"
        raise ValueError(message)
    seconds = dict(getattr(plan, phase).breakdown)
    stage = _Stages(plan, phase, plan.operations(phase), plan.exchanges(phase), seconds)
    return [stage.trace(rank) for rank in range(plan.layout.ranks)]


def write_plan(
    plan: Plan, prefix: str | Path, phase: Literal["decode", "prefill"] = "decode"
) -> list[Path]:
    """Write the traces of one step of a plan as ``PREFIX.RANK.et`` and return their paths.

    Parameters and errors are those of `from_plan`.
    """
    return write_ranks(from_plan(plan, phase), prefix)


@dataclass(frozen=True)
class _Piece:
    """An operation or a collective of the whole model: how often, and what one of it is."""

    name: str
    total: int
    attributes: tuple[Attribute, ...] = ()
    seconds: float = 0.0
    exchange: dict[str, Any] | None = None

    def is_in(self, layer: int, layers: int, before: Iterable[_Piece]) -> bool:
        """Whether a layer has it."""
        if self.total >= layers:
            return True
        if self.name == "window_attention":
            # Layers that look at a window are those that do not look at everything.
            return not any(p.is_in(layer, layers, ()) for p in before if p.name == "attention")
        if self.name.startswith("mlp"):
            return layer < self.total
        if self.name.startswith(("expert", "router", "shared")):
            return layer >= layers - self.total
        return (layer + 1) * self.total // layers > layer * self.total // layers


@dataclass
class _Stages:
    """The pieces of a step, and the traces made of them."""

    plan: Plan
    phase: str
    operations: list[dict[str, Any]]
    exchanges: list[dict[str, Any]]
    seconds: dict[str, float]
    pieces: list[_Piece] = field(default_factory=list)
    transfer: dict[str, Any] | None = None

    def __post_init__(self) -> None:
        stages = self.plan.layout.pp
        for one in self.operations:
            total = max(round(one["count"] * stages), 1)
            moved = one["weight_bytes"] + one["kv_bytes"] + one["activation_bytes"]
            scale = one["count"] * stages / total
            attributes = (
                Attribute("is_cpu_op", value=False),
                Attribute("num_ops", round(one["flops"] * scale), "int64"),
                Attribute("tensor_size", round(moved * scale), "uint64"),
                Attribute("dtype", one["dtype"]),
            )
            seconds = self.seconds.get(one["name"], 0.0) * stages / total
            self.pieces.append(_Piece(one["name"], total, attributes, seconds))
        overhead = self.seconds.get("layer overhead", 0.0)
        if overhead:
            layers = self.plan.model.layers
            none = (
                Attribute("is_cpu_op", value=False),
                Attribute("num_ops", 0, "int64"),
                Attribute("tensor_size", 0, "uint64"),
            )
            seconds = overhead * stages / layers
            self.pieces.append(_Piece("layer overhead", layers, none, seconds))
        for one in self.exchanges:
            if one["collective"] == "send":
                self.transfer = one
                continue
            total = max(round(one["count"] * stages), 1)
            piece = _Piece(one["name"], total, exchange=one)
            place = self._place(one["name"])
            self.pieces.insert(place, piece)

    def _place(self, name: str) -> int:
        """Return where a collective stands among the pieces."""
        if name in _FIRST:
            return next((at + 1 for at, p in enumerate(self.pieces) if p.name == "embedding"), 0)
        anchors = _AFTER.get(name, ())
        found = [at for at, p in enumerate(self.pieces) if p.name in anchors]
        if not found:
            return len(self.pieces)
        # Behind collectives that stand at the same operation.
        at = found[-1] + 1
        while at < len(self.pieces) and self.pieces[at].exchange is not None:
            at += 1
        return at

    def trace(self, rank: int) -> Trace:
        layout, layers = self.plan.layout, self.plan.model.layers
        size = layout.ranks // layout.pp
        stage = rank // size
        made = _Maker(rank)
        if stage == 0:
            made.add(p for p in self.pieces if p.name in _FIRST)
        elif self.transfer is not None:
            made.message(self.transfer, rank - size, is_send=False)
        within = [p for p in self.pieces if p.name not in _FIRST | _LAST]
        for layer in range(stage * layers // layout.pp, (stage + 1) * layers // layout.pp):
            made.add(p for p in within if p.is_in(layer, layers, within))
        if stage == layout.pp - 1:
            made.add(p for p in self.pieces if p.name in _LAST)
        elif self.transfer is not None:
            made.message(self.transfer, rank + size, is_send=True)
        attributes = (
            Attribute("model", self.plan.model.name),
            Attribute("system", self.plan.system),
            Attribute("layout", str(layout)),
            Attribute("phase", self.phase),
            Attribute("rank", rank),
        )
        return Trace(tuple(made.nodes), attributes=attributes)


@dataclass
class _Maker:
    """Nodes of a rank, each after the one before."""

    rank: int
    nodes: list[Node] = field(default_factory=list)
    clock: int = 0

    def add(self, pieces: Iterable[_Piece]) -> None:
        for piece in pieces:
            if piece.exchange is None:
                self._compute(piece)
            else:
                self._collective(piece.exchange)

    def _append(
        self, name: str, type_: NodeType, attributes: tuple[Attribute, ...], ps: int = 0
    ) -> None:
        # Start and end are rounded each, so that the sum of whole microseconds stays right.
        first, final = round(self.clock / PS_PER_US), round((self.clock + ps) / PS_PER_US)
        self.clock += ps
        at = len(self.nodes)
        deps = (at - 1,) if at else ()
        self.nodes.append(
            Node(at, name, type_, deps, (), first, final - first, None, None, attributes)
        )

    def _compute(self, piece: _Piece) -> None:
        ps = round(piece.seconds * 1e12)
        exact = Attribute("duration_ps", ps, "uint64")
        self._append(piece.name, NodeType.COMP_NODE, (*piece.attributes, exact), ps)

    def _collective(self, one: dict[str, Any]) -> None:
        ranks, stride = one["group"]["ranks"], one["group"]["stride"]
        block = self.rank // (ranks * stride) * ranks * stride + self.rank % stride
        size = one["bytes"]
        if one["collective"] == "all_gather":
            # Plans give the gathered buffer, traces a rank's input.
            size /= ranks
        attributes = (
            Attribute("is_cpu_op", value=False),
            Attribute("comm_type", _TYPES[one["collective"]], "int64"),
            Attribute("comm_size", round(size), "int64"),
            Attribute("pg_name", f"{ranks} ranks {stride} apart from {block}"),
        )
        self._append(one["name"], NodeType.COMM_COLL_NODE, attributes)

    def message(self, one: dict[str, Any], other: int, *, is_send: bool) -> None:
        source, target = (self.rank, other) if is_send else (other, self.rank)
        attributes = (
            Attribute("is_cpu_op", value=False),
            Attribute("comm_src", source, "int64"),
            Attribute("comm_dst", target, "int64"),
            Attribute("comm_size", round(one["bytes"]), "int64"),
            Attribute("comm_tag", 0, "int64"),
        )
        type_ = NodeType.COMM_SEND_NODE if is_send else NodeType.COMM_RECV_NODE
        self._append(one["name"], type_, attributes)
