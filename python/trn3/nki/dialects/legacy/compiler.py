"""Allocators and decorators of the legacy dialect, imported as ``neuronxcc.nki.compiler``."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

from trn3.nki.dialects.legacy.issuing import error
from trn3.nki.language.control import no_reorder
from trn3.nki.ranks.context import current_figures

__all__ = [
    "allocation_scope",
    "enable_stack_allocator",
    "force_auto_alloc",
    "multi_buffer",
    "no_reorder",
    "psum",
    "sbuf",
    "skip_middle_end_transformations",
]

F = TypeVar("F", bound=Callable[..., Any])
Block = tuple[int, ...]
#: (block, partitions, bytes a partition) to an address.
Addresses = Callable[[Block, int, int], Sequence[int]]


class Allocator:
    """What ``buffer=`` takes: where each block of a tensor lies.

    Attributes
    ----------
    memory : {"sbuf", "psum"}
    addresses : callable or None
        None leaves the place to the simulator.
    """

    def __init__(self, memory: str, addresses: Addresses | None) -> None:
        self.memory: Final = memory
        self.addresses: Final = addresses

    def address(self, block: Block, blocks: Block, partitions: int, count: int) -> tuple[int, int]:
        """Return the first partition and the first byte of a block.

        Raises
        ------
        ValueError
            If the function gave no such numbers, or tile counts for other axes than the blocks'.
        """
        assert self.addresses is not None
        if isinstance(self.addresses, _Modulo):
            self.addresses.check(blocks)
        given = tuple(self.addresses(block, partitions, count))
        wanted = 2 if self.memory == "sbuf" else 3
        if len(given) != wanted:
            named = "(partition, byte)" if wanted == 2 else "(bank, partition, byte)"
            message = f"{self.memory}.alloc: the function returned {given}; allowed: {named}"
            raise error(ValueError, message)
        numbers = [int(number) for number in given]
        if wanted == 2:
            return numbers[0], numbers[1]
        return numbers[1], numbers[0] * current_figures()["psum_bank_bytes"] + numbers[2]


class _Modulo:
    """Blocks of a tensor take turns on a few tiles, each block axis modulo its tile count."""

    def __init__(
        self, memory: str, start: tuple[int, int, int], par: Any, free: Any, bank: Any
    ) -> None:
        self._memory = memory
        self._bank, self._partition, self._byte = start
        self._counts = {"par": _counts(par), "free": _counts(free), "bank": _counts(bank)}

    def check(self, blocks: Block) -> None:
        """Refuse tile counts of other length than the block axes."""
        for kind, counts in self._counts.items():
            if counts and len(counts) != len(blocks):
                message = (
                    f"{self._memory}.mod_alloc num_{kind}_tiles is {counts}; allowed: one number "
                    f"for each of the {len(blocks)} block axes {blocks}"
                )
                raise error(ValueError, message)

    def __call__(self, block: Block, partitions: int, count: int) -> tuple[int, ...]:
        par, free, bank = (_place(block, self._counts[kind]) for kind in ("par", "free", "bank"))
        partition = self._partition + par * partitions
        byte = self._byte + free * count
        if self._memory == "sbuf":
            return partition, byte
        banks = -(-count // current_figures()["psum_bank_bytes"])
        return self._bank + bank * banks, partition, byte


def _by_keyword(function: Addresses) -> Addresses:
    """Return a function of three places that calls one with these keywords, if it takes them."""
    try:
        inspect.signature(function).bind(idx=(), pdim_size=0, fdim_size=0)
    except (TypeError, ValueError):  # other names, or no signature at all
        return function
    called: Callable[..., Sequence[int]] = function
    return lambda block, partitions, count: called(idx=block, pdim_size=partitions, fdim_size=count)


def _counts(value: Any) -> Block:
    return tuple(int(n) for n in value) if isinstance(value, (tuple, list)) else (int(value),)


def _place(block: Block, counts: Block) -> int:
    """Return the number of the tile that a block takes: each axis modulo its count, in order."""
    number = 0
    for index, count in zip(block, counts, strict=False):
        number = number * count + index % count
    return number


class _Memory:
    """``nki.compiler.sbuf`` or ``nki.compiler.psum``."""

    def __init__(self, memory: str) -> None:
        self._memory = memory

    def __repr__(self) -> str:
        return f"nki.compiler.{self._memory}"

    def alloc(self, func: Addresses) -> Allocator:
        """Place blocks by a function of (block indices, partitions, bytes a partition).

        Parameters
        ----------
        func : callable
            Returns (partition, byte) in SBUF, (bank, partition, byte) in PSUM. It is called by the
            keywords ``idx``, ``pdim_size`` and ``fdim_size`` where it has them, as functions that
            `functools.partial` gave more keywords need it, else by position.
        """
        given: Any = func
        if not callable(given):
            message = f"{self._memory}.alloc func is {func!r}; allowed: a function"
            raise TypeError(message)
        return Allocator(self._memory, _by_keyword(func))

    def auto_alloc(self) -> Allocator:
        """Leave the place to the simulator."""
        return Allocator(self._memory, None)

    def mod_alloc(
        self,
        *,
        base_addr: int = 0,
        base_bank: int = 0,
        base_partition: int = 0,
        num_par_tiles: Any = (),
        num_free_tiles: Any = (),
        num_bank_tiles: Any = (),
    ) -> Allocator:
        """Let blocks take turns on a few tiles.

        Parameters
        ----------
        base_addr : int
            First byte in each partition, of the bank in PSUM.
        base_bank : int
            First bank; PSUM.
        base_partition : int
        num_par_tiles, num_free_tiles, num_bank_tiles : tuple of int
            Tiles along partitions, bytes and banks, for each block axis.
        """
        if self._memory == "sbuf" and (base_bank or num_bank_tiles):
            message = (
                "sbuf.mod_alloc has no banks; allowed: base_addr, base_partition, num_par_tiles, "
                "num_free_tiles"
            )
            raise TypeError(message)
        start = (base_bank, base_partition, base_addr)
        modulo = _Modulo(self._memory, start, num_par_tiles, num_free_tiles, num_bank_tiles)
        return Allocator(self._memory, modulo)


#: Allocators of SBUF.
sbuf = _Memory("sbuf")
#: Allocators of PSUM.
psum = _Memory("psum")


def _unchanged(function: Any = None, **_options: Any) -> Any:
    """Return a kernel as it is; with options alone, a decorator that does."""

    def same(given: F) -> F:
        return given

    return same if function is None else function


def skip_middle_end_transformations(function: Any = None) -> Any:
    """Return a kernel as it is: nothing here transforms it."""
    return _unchanged(function)


def enable_stack_allocator(function: Any = None, **options: Any) -> Any:
    """Return a kernel as it is: tiles lie where they are first made."""
    return _unchanged(function, **options)


def force_auto_alloc(function: Any = None) -> Any:
    """Return a kernel as it is; its allocators keep their addresses (**choice**)."""
    return _unchanged(function)


class allocation_scope:
    """A ``with`` block or decorator that changes nothing: tiles are freed with their last view."""

    def __init__(self, *_: Any, **__: Any) -> None:
        """Take what compilers take."""

    def __enter__(self) -> None:
        """Begin."""

    def __exit__(self, *_: object) -> None:
        """End."""

    def __call__(self, function: F) -> F:
        """Return a function as it is."""
        return function


class multi_buffer(allocation_scope):
    """Accepts ``factor``; each iteration of a loop has its own tiles anyway."""

    def __init__(self, factor: int = 2) -> None:
        super().__init__()
        self.factor = factor


def __getattr__(name: str) -> Any:
    # Modules of the vendor's compiler, which say that there is none.
    if name in ("frontend", "ncc_driver", "kernel_builder"):
        return importlib.import_module("trn3.nki.dialects.vendor.hardware")
    message = f"module {__name__!r} has no attribute {name!r}"
    raise AttributeError(message)
