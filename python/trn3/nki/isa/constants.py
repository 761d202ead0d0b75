"""The enums of `nki.isa`."""

from __future__ import annotations

import enum
from typing import Any

from trn3.nki.values.suggestions import or_nearest

__all__ = [
    "dependency",
    "dge_mode",
    "dma_engine",
    "engine",
    "matmul_perf_mode",
    "nc_version",
    "oob_mode",
    "reduce_cmd",
]


class _Members(enum.EnumMeta):
    """Names the members in the error about one that there is not."""

    def __getattr__(cls, name: str) -> Any:
        members: dict[str, Any] = vars(cls).get("_member_map_", {})
        if name in members:
            return members[name]
        hint = or_nearest(name, members)
        message = f"nisa.{cls.__name__} has no {name!r}{hint}; allowed: {', '.join(members)}"
        raise AttributeError(message)


class engine(enum.Enum, metaclass=_Members):
    """Which engine runs an instruction."""

    #: The model chooses, as each instruction's description says.
    unknown = 0
    tensor = 1
    scalar = 2
    gpsimd = 3
    dma = 4
    vector = 5
    sync = 6


class dependency(enum.Enum, metaclass=_Members):
    """What `NkiInstruction.depends_on` and `Kernel.with_schedule` ask for (NKI 0.7)."""

    #: The hardware waits until the producers have finished.
    runtime = "runtime"
    #: The compiler issues the producers first and lets them overlap; a kernel's calls run in that
    #: order anyway.
    schedule = "schedule"


class dge_mode(enum.Enum, metaclass=_Members):
    """Who makes the descriptors of a DMA."""

    #: The model chooses.
    unknown = 0
    #: GpSimdE, while the kernel runs.
    swdge = 1
    #: A hardware generator (gen3 on).
    hwdge = 2
    #: They are made before the kernel runs: static addresses only.
    none = 3


class oob_mode(enum.Enum, metaclass=_Members):
    """What a DMA does with dynamic addresses outside the tensor."""

    #: It is an error.
    error = 0
    #: That row is not moved; the destination keeps its data.
    skip = 1


class dma_engine(enum.Enum, metaclass=_Members):
    """What moves the data of `sendrecv`."""

    dma = 1
    gpsimd_dma = 2


class matmul_perf_mode(enum.Enum, metaclass=_Members):
    """Faster forms of `nc_matmul`."""

    none = "none"
    #: Two rows of 8-bit elements in each cell (gen3 on).
    double_row = "double_row"


class reduce_cmd(enum.Enum, metaclass=_Members):
    """What an instruction does with the engine's running sums."""

    #: Leaves them alone.
    idle = 0
    #: Sets them to the identity.
    reset = 1
    #: Adds to them.
    reduce = 2
    #: Sets them to the identity, then adds to them.
    reset_reduce = 3
    #: Sets them to a given value, then adds to them.
    load_reduce = 4


class nc_version(enum.IntEnum, metaclass=_Members):
    """Generation of the NeuronCore; later ones compare greater."""

    gen2 = 2
    gen3 = 3
    gen4 = 4
