# Facts, fabrics, collectives, energy; what has named parts comes and leaves as mappings.

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, Self, TypeAlias, final

import numpy as np
from numpy.typing import NDArray

from trn3._trn3 import Xorwow

__all__ = [
    "Cluster",
    "Collectives",
    "DoesNotFitError",
    "Fabric",
    "UnreachableError",
    "built_in_prices",
    "collective_names",
    "cost_implied",
    "cost_own",
    "cost_rent",
    "energy_chip",
    "energy_estimate",
    "energy_load",
    "energy_parameters",
    "energy_per_watt",
    "energy_racks",
    "flow_bound",
    "flow_messages",
    "flow_simulate",
    "health_classes",
    "parse_prices",
    "price_sets",
    "replay_job",
]

class DoesNotFitError(MemoryError): ...
class UnreachableError(ConnectionError): ...

def built_in_prices(name: str, /) -> dict[str, Any]: ...
def cost_implied(
    claim: float,
    pflops: float,
    peer_pflops: float,
    peer_capex: float | None,
    running: Mapping[str, float] | None,
    /,
) -> list[dict[str, Any]]: ...
def cost_own(
    ownership: Mapping[str, Any], pflops: float | None, tokens_per_second: float | None, /
) -> dict[str, Any]: ...
def cost_rent(
    price: float,
    chips: int,
    utilisation: float,
    pflops: float | None,
    tokens_per_second: float | None,
    /,
) -> dict[str, Any]: ...
def energy_chip(system: str, /) -> str: ...
def energy_estimate(
    chip: str,
    tdp: float | None,
    flops: list[tuple[str, float]],
    hbm_bytes: float,
    link_bytes: float,
    sbuf_bytes: float,
    seconds: float,
    /,
) -> dict[str, Any]: ...
def energy_load(
    chip: str,
    tdp: float | None,
    dtype: str,
    utilisation: float,
    hbm: float,
    link_rate: float,
    sbuf_rate: float,
    /,
) -> dict[str, Any]: ...
def energy_parameters() -> dict[str, Any]: ...
def energy_per_watt(chip: str, peer: str, /) -> list[dict[str, Any]]: ...
def energy_racks(system: str, tdp: float | None, /) -> list[dict[str, Any]]: ...
def parse_prices(file: str, text: str, /) -> list[dict[str, Any]]: ...
def price_sets() -> list[str]: ...
def health_classes() -> list[tuple[str, str]]: ...

# from, to, level, switch, rate, latency, links
_Leg: TypeAlias = tuple[int, int, str, str | None, float, float, list[int]]
# legs, links, rate, latency, relays
_Route: TypeAlias = tuple[list[_Leg], list[int], float, float, list[int]]
# name, rate, links
_Cut: TypeAlias = tuple[str, float, list[int]]
# per chip, time, binding links, levels, slowest pair, cut, per chip by cut, whether it is the cut
_Limits: TypeAlias = tuple[
    float,
    float,
    list[int],
    list[tuple[str, float]],
    tuple[int, int] | None,
    _Cut,
    float,
    bool,
]

@final
class Fabric:
    @staticmethod
    def built_in(name: str, links: str, /) -> Fabric: ...
    @staticmethod
    def parse(file: str, text: str, name: str | None, links: str, /) -> Fabric: ...
    @staticmethod
    def cluster(name: str, file: str, text: str | None, count: int, links: str, /) -> Fabric: ...
    @property
    def name(self) -> str: ...
    @property
    def title(self) -> str: ...
    @property
    def chip(self) -> str | None: ...
    @property
    def chips(self) -> int: ...
    @property
    def id_parts(self) -> list[str]: ...
    @property
    def faults(self) -> list[str]: ...
    @property
    def assumptions(self) -> list[str]: ...
    @property
    def is_whole(self) -> bool: ...
    def chip_ids(self) -> list[tuple[int, ...]]: ...
    def axes(self) -> list[tuple[str, int]]: ...
    def coordinates(self) -> list[list[int]]: ...
    def numa(self) -> list[int | None]: ...
    def switches(self) -> list[str]: ...
    # from, to, rate, latency, level, number of links
    def links(self) -> list[tuple[int, int, float, float, str, int]]: ...
    # name, kind, number of links, rate, latency, rate of a chip
    def levels(self) -> list[tuple[str, str, int, float, float, float]]: ...
    def index_of(self, chip: list[int], /) -> int: ...
    def select(self, patterns: str, /) -> list[int]: ...
    def route(self, source: int, target: int, /) -> _Route: ...
    def paths(self, source: int, target: int, /) -> list[tuple[float, list[int]]]: ...
    def link_shares(self, source: int, target: int, /) -> list[tuple[int, float]]: ...
    def all_to_all(self, group: list[int] | None, /) -> tuple[_Limits, NDArray[np.float64]]: ...
    def traffic(self, matrix: NDArray[np.float64], /) -> tuple[_Limits, NDArray[np.float64]]: ...
    def bisection(self, group: list[int] | None, /) -> list[_Cut]: ...
    def fail(self, faults: list[str], /) -> Fabric: ...
    def health_class(self, fault: str, /) -> str: ...
    def cut_off(self) -> list[list[int]]: ...
    def slowdown(self, after: Fabric, /) -> tuple[_Limits, _Limits]: ...
    def hamiltonian_cycles(self) -> list[list[int]]: ...

# lists of numbers: list i is values[offsets[i]:offsets[i + 1]]
_Lists: TypeAlias = tuple[NDArray[np.uint32], NDArray[np.uint32]]
# resources and weights of each transfer
_Uses: TypeAlias = tuple[_Lists, NDArray[np.float64]]
# begins, ends, finish, bytes carried, seconds busy, bottlenecks (-1 for none), what binds
_Flows: TypeAlias = tuple[
    NDArray[np.float64],
    NDArray[np.float64],
    float,
    NDArray[np.float64],
    NDArray[np.float64],
    NDArray[np.int64],
    list[int],
]

class _Columns(Protocol):
    @property
    def bytes(self) -> NDArray[np.float64]: ...
    @property
    def latency(self) -> NDArray[np.float64]: ...
    @property
    def share(self) -> NDArray[np.float64]: ...
    @property
    def start(self) -> NDArray[np.float64]: ...
    @property
    def priority(self) -> NDArray[np.uint8]: ...
    @property
    def after(self) -> _Lists: ...

def flow_simulate(
    names: list[str], rates: NDArray[np.float64], columns: _Columns, uses: _Uses, /
) -> _Flows: ...
def flow_bound(
    names: list[str], rates: NDArray[np.float64], columns: _Columns, uses: _Uses, /
) -> tuple[float, list[int]]: ...

# names of links, and as above
def flow_messages(
    fabric: Fabric, source: NDArray[np.uint32], target: NDArray[np.uint32], columns: _Columns, /
) -> tuple[list[str], _Flows]: ...

# steps within a unit (from, to, level, switch, rate, latency, links) or None; nodes; rate; latency
_ClusterLeg: TypeAlias = tuple[int, int, str, str | None, float, float, list[int]]
_ClusterRoute: TypeAlias = tuple[list[_ClusterLeg] | None, list[str], float, float]
# operation, bytes, units, chips, count, algorithm
_Exchange: TypeAlias = tuple[str, float, int | None, int | None, int, str]
# seconds; units; chips; of each phase name, seconds, steps, bytes, what binds; what binds in all
_ExchangeTime: TypeAlias = tuple[float, int, int, list[tuple[str, float, int, float, str]], str]
# rate, latency, oversubscription, units under a bottom node, bottom nodes under a middle one
_Network: TypeAlias = tuple[float | None, float | None, float | None, int | None, int | None]

@final
class Cluster:
    def __new__(
        cls, name: str, file: str, text: str | None, units: int, links: str, network: _Network, /
    ) -> Cluster: ...
    @property
    def units(self) -> int: ...
    @property
    def live_units(self) -> int: ...
    @property
    def chips(self) -> int: ...
    @property
    def failed(self) -> list[int]: ...
    @property
    def assumptions(self) -> list[str]: ...
    @property
    def network(self) -> tuple[str, float, float, float, int, int]: ...
    def roles(self) -> list[tuple[int, tuple[int, int], tuple[int, int]]]: ...
    def route(self, source: tuple[int, int], target: tuple[int, int], /) -> _ClusterRoute: ...
    def all_to_all(self) -> tuple[float, str, list[tuple[str, float]]]: ...
    def fail(self, unit: int, /) -> Cluster: ...
    def step(
        self, exchanges: list[_Exchange], /
    ) -> tuple[float, list[_ExchangeTime], str, list[str]]: ...

class _Asked(Protocol):
    @property
    def operation(self) -> str: ...
    @property
    def algorithm(self) -> str: ...
    @property
    def groups(self) -> Sequence[Sequence[int]]: ...
    @property
    def ranks_per_chip(self) -> int: ...
    @property
    def root(self) -> int: ...
    @property
    def pairs(self) -> Sequence[tuple[int, int]]: ...

class _AskedNumbers(Protocol):
    @property
    def reduction(self) -> str: ...
    @property
    def element(self) -> str: ...
    @property
    def item_size(self) -> int: ...
    @property
    def wire(self) -> str | None: ...
    @property
    def out(self) -> str | None: ...
    @property
    def rounding(self) -> str: ...
    @property
    def order(self) -> str: ...
    @property
    def rng(self) -> Xorwow | None: ...

# [n, n] of each in row order, by sender
class _AskedCounts(Protocol):
    @property
    def counts(self) -> Sequence[int]: ...
    @property
    def send_displacements(self) -> Sequence[int]: ...
    @property
    def receive_displacements(self) -> Sequence[int]: ...

# Arrays are contiguous bytes, one for each rank of the (first) group.
_Buffers: TypeAlias = Sequence[NDArray[np.uint8]]

@final
class Collectives:
    def __new__(cls, fabric: Fabric, /) -> Self: ...
    @property
    def fabric(self) -> Fabric: ...
    def cost(self, asked: _Asked, bytes: float, is_simulated: bool, /) -> dict[str, Any]: ...
    def across(
        self, asked: _Asked, bytes: float, systems: int, rate: float, latency: float, /
    ) -> dict[str, Any]: ...
    def cost_v(self, asked: _Asked, sizes: Sequence[float], /) -> dict[str, Any]: ...
    def estimate(self, asked: _Asked, bytes: float, /) -> tuple[str, float]: ...
    def candidates(self, asked: _Asked, bytes: float, /) -> list[tuple[str, int, float]]: ...
    def overlap(
        self, running: Sequence[tuple[_Asked, float, int, float]], /
    ) -> list[tuple[str, float, float, float]]: ...
    def execute(
        self, asked: _Asked, numbers: _AskedNumbers, arrays: _Buffers, /
    ) -> list[NDArray[np.uint8]]: ...
    def all_gather_v(
        self, asked: _Asked, item_size: int, arrays: _Buffers, /
    ) -> list[NDArray[np.uint8]]: ...
    def all_to_all_v(
        self,
        asked: _Asked,
        item_size: int,
        counts: _AskedCounts,
        arrays: _Buffers,
        destinations: _Buffers,
        /,
    ) -> list[NDArray[np.uint8]]: ...

def collective_names() -> tuple[list[str], list[str], list[str]]: ...

_NodeColumns: TypeAlias = tuple[
    list[int],
    list[str],
    NDArray[np.uint8],
    NDArray[np.float64],
    NDArray[np.uint32],
    NDArray[np.int64],
    NDArray[np.uint8],
    list[list[int]],
]

def replay_job(
    system: Collectives,
    places: list[int],
    ranks_per_chip: int,
    groups: list[tuple[str, list[int]]],
    algorithms: tuple[str, list[tuple[str, str]]],
    ranks: list[_NodeColumns],
    /,
) -> tuple[
    tuple[list[NDArray[np.float64]], list[NDArray[np.float64]], float],
    tuple[list[float], list[float], list[float]],
    list[tuple[str, float]],
    list[tuple[int, int, float, float, float, str]],
    list[tuple[str, float]],
    str | None,
    list[tuple[str, str, int]],
    list[str],
]: ...
