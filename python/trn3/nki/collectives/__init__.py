"""Operations between ranks: logical cores with memories of their own.

`trn3.nki.simulate_ranks` runs a kernel on several ranks; elsewhere there is one, rank 0. A
collective starts when every rank of the group has come to it and has its operands ready, and takes
as long as the system's fabric says; what does not use the operands goes on meanwhile.

`srcs` and `dsts` are lists of tensors, all in HBM or all in SBUF; several only in HBM. A rank's
*index* is its position in its list of the `ReplicaGroup`. Sums are added in float32 by ascending
index and rounded once, to the result's type; integers wrap (**choice**).

On two cores, both issue the call. Where they pass the same tensors it takes place once, and orders
what both did in HBM; else each core's call is a transfer of its own with the same core of the other
ranks (**choice**).

A core's collectives run one after another. A `priority` puts them in classes: a more urgent one
overtakes those of later classes that wait or run, and the next ones of these wait so much longer;
none is the last class (**choice**). Profiles count what a core sends or gets as bytes of its DMA.

With ``TRN3_NKI_STRICT=1``, refused too (the hardware's rules): `all_gather_v` outside of lists of
four ranks of two cores, and `all_to_all_v` outside of two cores, or in lists that have some of a
device's ranks but not all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trn3.nki.collectives.exchanges import all_gather, all_reduce, all_to_all, reduce_scatter
from trn3.nki.collectives.permutations import (
    collective_permute,
    collective_permute_implicit,
    collective_permute_implicit_current_processing_rank_id,
    collective_permute_implicit_reduce,
    rank_id,
)
from trn3.nki.collectives.variable import all_gather_v, all_to_all_v
from trn3.nki.ranks.replica_group import ReplicaGroup
from trn3.nki.values.suggestions import missing_attribute as _missing_attribute

__all__ = [
    "ReplicaGroup",
    "all_gather",
    "all_gather_v",
    "all_reduce",
    "all_to_all",
    "all_to_all_v",
    "collective_permute",
    "collective_permute_implicit",
    "collective_permute_implicit_current_processing_rank_id",
    "collective_permute_implicit_reduce",
    "rank_id",
    "reduce_scatter",
]


def __dir__() -> list[str]:
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})


if not TYPE_CHECKING:  # to checkers a name that is misspelt shall be an error

    def __getattr__(name: str) -> object:
        raise _missing_attribute(__name__, name, __all__)
