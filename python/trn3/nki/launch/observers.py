"""Who wants to know of launches of kernels: what they took, as each one ends."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from trn3._trn3.machine import NeuronCore
    from trn3.profile import Profile

__all__ = ["Launched", "Observer", "is_observed", "observing", "report"]


@dataclass(frozen=True, slots=True)
class Launched:
    """One launch that ended well.

    Attributes
    ----------
    kernel : str
        Its name, of a method with its class, and what stood in brackets.
    arch : str
        The machine's name.
    ranks : int
        How many ran it side by side.
    latency_ps : int
        Simulated picoseconds from the start to the end of the core that ended last.
    level : str
        That of the compiler.
    cores : sequence of sequences of NeuronCore
        Those of each rank.
    """

    kernel: str
    arch: str
    ranks: int
    latency_ps: int
    level: str = "as-written"
    cores: Sequence[Sequence[NeuronCore]] = field(default=(), repr=False, compare=False)

    def profiles(self) -> list[Profile]:
        """Return what each rank took, and why; only while the observer is called."""
        from trn3.profile import profile_of

        return [profile_of(own, self.kernel) for own in self.cores]


Observer: TypeAlias = Callable[[Launched], None]

_observers: list[Observer] = []


@contextmanager
def observing(observer: Observer) -> Iterator[None]:
    """Call a function after each launch, for the length of a ``with`` block.

    Launches keep time meanwhile, which they otherwise do for profiles alone.

    Examples
    --------
    >>> import numpy as np
    >>> from trn3 import nki
    >>> import trn3.nki.language as nl
    >>> @nki.jit
    ... def copied(x):
    ...     out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    ...     nl.store(out, nl.load(x))
    ...     return out
    >>> seen = []
    >>> with nki.observing(seen.append):
    ...     _ = copied(np.ones((128, 8), np.float32))
    >>> [(each.kernel, each.arch, each.latency_ps > 0) for each in seen]
    [('copied', 'trn3', True)]
    """
    _observers.append(observer)
    try:
        yield
    finally:
        _observers.remove(observer)


def is_observed() -> bool:
    """Return whether anybody wants to know of launches."""
    return bool(_observers)


def report(kernel: str, cores: Sequence[Sequence[NeuronCore]]) -> None:
    """Tell the observers of a launch that ended, on the cores of each rank."""
    latency = max(core.makespan() for own in cores for core in own)
    first = cores[0][0]
    launched = Launched(kernel, first.arch[0], len(cores), latency, first.compile_level, cores)
    for observer in _observers:
        observer(launched)
