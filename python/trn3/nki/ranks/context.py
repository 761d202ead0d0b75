"""The kernel that runs on this thread: its core, its target, its place in the launch."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from trn3.nki.values.targets import MachineSizes, current_target, figures_of

if TYPE_CHECKING:
    from trn3._trn3.machine import NeuronCore
    from trn3.nki.lint.watch import Watch
    from trn3.nki.ranks.logical import LogicalCore, SharedTensors
    from trn3.nki.ranks.turns import Turns
    from trn3.nki.ranks.world import World

OUTSIDE = (
    "no kernel runs on this thread: call a function decorated with nki.jit, or "
    "nki.simulate(function)(...)"
)


class Context:
    """What a running kernel needs beside its core.

    Attributes
    ----------
    core
        The NeuronCore that executes.
    figures
        Sizes of the target.
    program_ids, grid
        Place in the launch grid and its lengths; both empty without brackets.
    instance
        Number of this run of the kernel among those of the launch.
    logical
        The cores that run side by side with this one; None where there is no other.
    shared
        Tensors in ``nl.shared_hbm``, where other instances reach them; None where there are none.
    rank
        Number of the logical core among those of the launch.
    world
        The ranks of the launch, this one among them; None before it is launched.
    turns
        The instances of the launch that share this one's core; None where it is the only one.
    static_only
        How many `no_reorder` blocks are open.
    prints
        How often `device_print` printed each prefix, by the core's number.
    warned
        What the run has warned of already.
    names
        Names that tensors were given, in strict runs.
    loops
        Loops that the core was told of and that have not ended, the innermost last.
    constants
        HBM tensors of `shared_constant`, by content.
    watch
        Collects what hardware would refuse; None unless ``TRN3_NKI_STRICT`` asks for it.
    """

    __slots__ = (
        "constants", "core", "figures", "grid", "instance", "logical", "loops", "names",
        "prints", "program_ids", "rank", "shared", "static_only", "turns", "warned", "watch",
        "world",
    )  # fmt: skip

    def __init__(self, core: NeuronCore, figures: MachineSizes, grid: tuple[int, ...]) -> None:
        self.core = core
        self.figures = figures
        self.grid = grid
        self.program_ids = (0,) * len(grid)
        self.instance = 0
        self.logical: LogicalCore | None = None
        self.shared: SharedTensors | None = None
        self.rank = 0
        self.world: World | None = None
        self.static_only = 0
        self.turns: Turns | None = None
        self.prints: dict[tuple[int, str], int] = {}
        self.warned: set[str] = set()
        self.names: set[str] = set()
        self.loops: list[Any] = []
        self.constants: dict[Any, Any] = {}
        self.watch: Watch | None = None


class _Slot(threading.local):
    # Class attributes are what a thread sees before it runs its first kernel.
    context: Context | None = None
    core: NeuronCore | None = None


slot = _Slot()


def core() -> NeuronCore:
    """Return the core that this thread's kernel runs on.

    Raises
    ------
    RuntimeError
        Outside a kernel.
    """
    running = slot.core
    if running is None:
        raise RuntimeError(OUTSIDE)
    return running


def context() -> Context:
    """Return the context of the kernel that runs on this thread.

    Raises
    ------
    RuntimeError
        Outside a kernel.
    """
    running = slot.context
    if running is None:
        raise RuntimeError(OUTSIDE)
    return running


class Running:
    """Makes a context this thread's own for the length of a ``with`` block, nested ones too."""

    __slots__ = ("_context", "_outer")

    def __init__(self, context: Context) -> None:
        self._context = context
        self._outer: list[Context | None] = []

    def __enter__(self) -> Context:
        self._outer.append(slot.context)
        slot.context, slot.core = self._context, self._context.core
        return self._context

    def __exit__(self, *_: object) -> None:
        outer = self._outer.pop()
        slot.context, slot.core = outer, None if outer is None else outer.core


def current_figures() -> MachineSizes:
    """Return the sizes of the kernel's machine, or outside kernels of the current target."""
    running = slot.context
    return running.figures if running is not None else figures_of(current_target())
