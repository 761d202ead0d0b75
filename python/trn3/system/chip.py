"""`Chip`: what one Trainium consists of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from trn3 import offers
from trn3._trn3 import system as _core
from trn3.facts.mappings import FrozenMapping
from trn3.system.chip_figures import checked_lnc, chip_facts, count_of
from trn3.system.chip_runs import KernelRunner, KernelWidth, placed_kernels
from trn3.system.links import Level

if TYPE_CHECKING:
    from trn3.facts.spec import Spec

_SHORT = {"trn1": "trainium1", "trn2": "trainium2", "trn3": "trainium3"}

# The system whose fabric has all links of a chip, and the machine's name of its cores.
_HOME = {"trainium1": "trn1_32xlarge", "trainium2": "trn2_ultraserver", "trainium3": "trn3_gen2"}
_MACHINE = {"trainium1": "trn1", "trainium2": "trn2", "trainium3": "trn3"}

Ports: TypeAlias = Mapping[str, Level]


@dataclass(frozen=True, slots=True)
class Core:
    """A NeuronCore's place on its chip.

    Attributes
    ----------
    index : int
        Number on the chip.
    logical : int
        The logical core it belongs to.
    chiplet : int or None
        The compute chiplet it lies on, where that is published.
    hbm_stack : int or None
        The memory stack it shares with its neighbour, where that is published.
    dma_engines : range
        Its DMA engines, as numbers on the chip; empty where that is not published.
    cc_cores : range
        Its collective-communication cores, as numbers on the chip; empty where not published.
    """

    index: int
    logical: int
    chiplet: int | None
    hbm_stack: int | None
    dma_engines: range
    cc_cores: range


@dataclass(frozen=True)
class Chip:
    """One Trainium chip.

    Parameters
    ----------
    arch
        ``"trainium3"``, ``"trainium2"`` or ``"trainium1"``, or the short ``"trn3"`` and so on.
    lnc
        Physical cores of a logical core: 1 or 2 on Trainium3 and Trainium2, 2 being the default;
        1 on Trainium1.

    Raises
    ------
    ValueError
        If there is no such chip or mode.

    Examples
    --------
    >>> from trn3 import Chip
    >>> chip = Chip()
    >>> chip.num_cores, chip.chiplets, chip.hbm_stacks, chip.dma_engines, chip.cc_cores
    (8, 2, 4, 128, 16)
    >>> chip.ranks, Chip(lnc=1).ranks
    (4, 8)
    >>> core = chip.cores[5]
    >>> core.logical, core.chiplet, core.hbm_stack, core.dma_engines, core.cc_cores
    (2, 1, 2, range(80, 96), range(10, 12))
    """

    arch: str = "trainium3"
    lnc: int | None = None

    def __post_init__(self) -> None:
        name = _SHORT.get(str(self.arch).lower(), self.arch)
        if name not in _HOME:
            allowed = ", ".join([*_HOME, *_SHORT])
            message = f"arch is {self.arch!r}; allowed: {allowed}"
            raise ValueError(message)
        object.__setattr__(self, "arch", name)
        object.__setattr__(self, "lnc", checked_lnc(name, self.lnc))

    def _count(self, key: str) -> int | None:
        return count_of(chip_facts(self.arch), key)

    @property
    def name(self) -> str:
        """Name of its spec file."""
        return self.arch

    def spec(self) -> Spec:
        """Return its figures by the facts' own names, computed from its cores where they can be.

        Examples
        --------
        >>> Chip().spec()["tflops_mxfp8"].formula
        'cores * core.tflops_mxfp8 = 8 x 314.57 TFLOPS = 2,516.6 TFLOPS'
        """
        from trn3.facts.spec import spec_of

        return spec_of(self.arch)

    @property
    def num_cores(self) -> int:
        """Number of physical NeuronCores."""
        return self._count("cores") or 1

    @property
    def ranks(self) -> int:
        """Number of logical cores, each of which is a rank."""
        return self.num_cores // (self.lnc or 1)

    @property
    def logical_cores(self) -> tuple[tuple[int, ...], ...]:
        """The physical cores of each logical core."""
        lnc = self.lnc or 1
        return tuple(tuple(range(at, at + lnc)) for at in range(0, self.num_cores, lnc))

    @property
    def chiplets(self) -> int | None:
        """Number of compute chiplets, where that is published."""
        return self._count("compute_chiplets")

    @property
    def hbm_stacks(self) -> int | None:
        """Number of memory stacks, where that is published."""
        return self._count("hbm_stacks")

    @property
    def dma_engines(self) -> int | None:
        """Number of DMA engines, where that is published."""
        return self._count("dma_engines")

    @property
    def cc_cores(self) -> int | None:
        """Number of usable collective-communication cores, where that is published."""
        return self._count("cc_cores")

    @property
    def cores(self) -> tuple[Core, ...]:
        """The physical cores; what the chip has of anything is dealt in order **(choice)**."""

        def part(total: int | None, index: int) -> int | None:
            return None if total is None else index * total // self.num_cores

        def parts(total: int | None, index: int) -> range:
            share = (total or 0) // self.num_cores
            return range(index * share, (index + 1) * share)

        return tuple(
            Core(
                index=index,
                logical=index // (self.lnc or 1),
                chiplet=part(self.chiplets, index),
                hbm_stack=part(self.hbm_stacks, index),
                dma_engines=parts(self.dma_engines, index),
                cc_cores=parts(self.cc_cores, index),
            )
            for index in range(self.num_cores)
        )

    @property
    def ports(self) -> Ports:
        """Its links by level, in the system that uses all of them.

        Examples
        --------
        >>> {name: level.links for name, level in Chip().ports.items()}
        {'server': 4, 'rack': 5, 'cross-rack': 2}
        """
        levels = _core.Fabric.built_in(_HOME[self.arch], "docs").levels()
        return FrozenMapping({parts[0]: Level(*parts) for parts in levels})

    def run(
        self,
        kernels: Mapping[int, Sequence[Any]],
        *,
        values: bool = True,
        arch: Any = None,
        compile: str | None = None,  # noqa: A002 -- what kernels' runs call it
    ) -> tuple[dict[int, Any], Any]:
        """Run kernels on its cores side by side: all start at once, on one HBM.

        Each kernel gives the values that it gives alone. Their transfers share the bandwidth of
        HBM, so that each takes as long as alone or longer.

        Parameters
        ----------
        kernels : dict of int to tuple
            By core, from 0 on: a kernel and its arguments, or a program that `trn3.nki.record`
            made and a dict of its inputs. A kernel of two cores takes those of a logical core and
            stands at the first one.
        values : bool, optional
            False skips arithmetic; results are then None.
        arch : str, dict or ArchSpec, optional
            Machine of all cores instead of the chip's own, such as the what-if
            ``"trn3:hbm_gbps=-50%"``: as `trn3.machine.arch` takes it.
        compile : str, optional
            Level of the compiler for kernels, as in `trn3.nki.simulate`.

        Returns
        -------
        results : dict
            By core, what the kernel returns; of a program its outputs by name.
        profile : trn3.profile.Profile
            Of one kernel its own, of several the joint one; ``profile.cores`` has that of each
            core, in order of their numbers.

        Raises
        ------
        TypeError, ValueError
            If a core is none of the chip's, is taken twice, or has no kernel.
        MemoryError
            If the kernels need more HBM together than the chip has.

        Examples
        --------
        >>> import numpy as np
        >>> from trn3 import nki
        >>> import trn3.nki.language as nl
        >>> @nki.jit
        ... def double(x):
        ...     out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        ...     nl.store(out, nl.multiply(nl.load(x), 2.0))
        ...     return out
        >>> x = np.ones((128, 512), np.float32)
        >>> results, profile = Chip().run({0: (double, x), 4: (double, 2 * x)})
        >>> [float(result[0, 0]) for result in results.values()], len(profile.cores)
        ([2.0, 4.0], 2)
        """
        width: KernelWidth = offers.take("cores of a kernel")
        placed = placed_kernels(kernels, self.num_cores, self.lnc or 1, width)
        run: KernelRunner = offers.take("kernels on cores")
        return run(arch or _MACHINE[self.arch], placed, values=values, compile=compile)

    def neuron_core(self, **options: Any) -> Any:
        """Return one of its cores, simulated: a `trn3.machine.NeuronCore`, which has the options.

        Examples
        --------
        >>> Chip("trainium2").neuron_core(values=False).arch
        ('trn2', 3)
        """
        return offers.take("NeuronCore")(_MACHINE[self.arch], **options)
