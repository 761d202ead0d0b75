"""`System`: what every assembled system answers, whatever it is made of."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from trn3._trn3 import system as _core
from trn3.collectives.engine import CollectiveEngine
from trn3.files import read_text
from trn3.markup import fields, mimebundle
from trn3.system.chip_figures import checked_lnc, chip_facts, count_of
from trn3.system.collectives import CollectiveMethods
from trn3.system.fabric import Slowdown
from trn3.system.faults import Fault, check_health, fault_name
from trn3.system.joined_chips import Links
from trn3.system.links import ChipId, ChipLike, Group, Link, NodeId, node_name
from trn3.system.views import Views
from trn3.traffic import Traffic

if TYPE_CHECKING:
    from rich.table import Table

    from trn3.facts import Facts
    from trn3.facts.spec import Spec

__all__ = ["ChipLike", "Group", "Links", "System"]


@dataclass(frozen=True, eq=False, repr=False)
class System(Views, CollectiveMethods):
    """A number of chips and the fabric that joins them.

    Made by `trn3.systems`, by the class methods of `Instance` and `UltraServer`, or from a file by
    `System.load`. Nothing about it changes; `fail` returns another one.

    Attributes
    ----------
    name : str
        Name of the spec file.
    links : str
        ``"docs"``, the documented rate of each level, or ``"headline"``, those rates times one
        factor such that a chip's one-way total is half of the published headline.
    lnc : int
        Physical cores a logical core.
    """

    _file: tuple[str, str] | None = field(default=None, repr=False)
    _whole: System | None = field(default=None, repr=False)
    _failed: tuple[tuple[str, ...], ...] = field(default=(), repr=False)

    @classmethod
    def built_in(cls, name: str, *, links: Links = "docs", lnc: int | None = None) -> Self:
        """Return a system of a spec file that the package carries.

        Raises
        ------
        ValueError
            If there is none of that name, it has no fabric, or an option has no such value.
        """
        fabric = _core.Fabric.built_in(name, links)
        return cls(name, links, checked_lnc(fabric.chip or name, lnc), fabric)

    @classmethod
    def load(
        cls,
        path: str | Path,
        *,
        system: str | None = None,
        links: Links = "docs",
        lnc: int | None = None,
    ) -> Self:
        """Return the system that a spec file describes.

        Parameters
        ----------
        path
            A TOML file with a ``_fabric`` table; ``docs/reference/fabric.md`` says what stands
            in one.
        system
            Which of the file's systems, where several have a fabric.
        links, lnc
            As in `UltraServer.gen2`.

        Raises
        ------
        OSError
            If the file cannot be read.
        ValueError
            If it describes no fabric or a wrong one; the text names the key.
        """
        path = Path(path)
        text = read_text(path, "spec file")
        return cls.described(path.name, text, system, links=links, lnc=lnc)

    @classmethod
    def described(
        cls,
        file: str,
        text: str,
        system: str | None = None,
        *,
        links: Links = "docs",
        lnc: int | None = None,
    ) -> Self:
        """Return the system that a spec file's text describes; see `load`."""
        fabric = _core.Fabric.parse(file, text, system, links)
        mode = checked_lnc(fabric.chip or fabric.name, lnc, (file, text))
        return cls(fabric.name, links, mode, fabric, (file, text))

    def spec(self) -> Spec:
        """Return its figures by the facts' own names, computed from its parts where they can be.

        Examples
        --------
        >>> from trn3 import systems
        >>> systems.trn3_gen2().spec()["hbm_bandwidth"].formula
        'chips * chip.hbm_bandwidth = 144 x 4.9 TB/s = 705.6 TB/s'
        """
        from trn3.facts.spec import spec_of

        return spec_of(self.facts)

    @cached_property
    def facts(self) -> Facts:
        """What its spec file says."""
        from trn3 import facts

        if self._file is None:
            return facts.load(self.name)
        file, text = self._file
        return facts.parse(text, file)[self.name]

    @property
    def spec_file(self) -> tuple[str, str] | None:
        """Name and text of the spec file that it was loaded from; None for one of the package."""
        return self._file

    def exported(self, program: str) -> tuple[Mapping[str, Any], tuple[str, ...]]:
        """Return what another simulator reads of it, and what was simplified; see `interchange`.

        Parameters
        ----------
        program
            ``"astra_sim"``, ``"astra_sim_system"``, ``"astra_sim_memory"``, ``"calculon"`` or
            ``"llmcompass"``.

        Raises
        ------
        ValueError
            If it has faults, lacks a figure, or there is no such program.
        """
        content, notes = self._fabric.export(program, *(self._file or (self.name, None)))
        return content, tuple(notes)

    @property
    def cores_per_chip(self) -> int:
        """Physical cores of a chip."""
        return count_of(chip_facts(self.chip or self.name, self._file), "cores") or 1

    @property
    def ranks_per_chip(self) -> int:
        """Logical cores of a chip, each of which is a rank."""
        return self.cores_per_chip // self.lnc

    @property
    def ranks(self) -> int:
        """Logical cores of the system."""
        return self.num_chips * self.ranks_per_chip

    @property
    def logical_cores(self) -> int:
        """The same as `ranks`."""
        return self.ranks

    def chip_of(self, rank: int) -> ChipId:
        """Return the id of the chip that a rank runs on; ranks of a chip are neighbours.

        Raises
        ------
        ValueError
            If there is no such rank.
        """
        if not 0 <= operator.index(rank) < self.ranks:
            message = f"rank is {rank}; {self.name} has {self.ranks} ranks, 0 to {self.ranks - 1}"
            raise ValueError(message)
        return self.chips[rank // self.ranks_per_chip]

    @cached_property
    def collective_engine(self) -> CollectiveEngine:
        """What runs its collectives."""
        # What it has counted stays with the system, so that the next call of a group is quick.
        return CollectiveEngine.of(self._fabric, self.ranks_per_chip)

    @property
    def collective_units(self) -> None:
        """None: its chips are one graph."""

    def fail(
        self,
        *faults: Fault,
        chip: ChipLike | None = None,
        link: str | Link | tuple[NodeId, NodeId] | None = None,
        switch: str | None = None,
        health: str | None = None,
    ) -> Self:
        """Return the system without what failed; routes take other ways where there are any.

        Chips that fail are gone from the new system, the others keep their ids. What it lost is in
        `faults`, what it cost in `slowdown`, and who is out of reach in `cut_off`.

        Parameters
        ----------
        *faults
            Chips (ids), switches (names), links (a `Link`, or the two nodes it joins), or any of
            them as text: ``"0/3/1"``, ``"rack/0"``, ``"0/3/1-1/3/1"``. Behind a colon stands how
            many links of a bundle fail, where not all do: ``"rack/0:1"`` is one of the planes
            behind rack 0, ``"0/3/1-1/3/1:1"`` one of two links. Links fail in both directions.
        chip, link, switch
            The same, by name.
        health
            The driver's health class, checked against what fails: ``"hbm"``, ``"sram"``,
            ``"link_intraserver"``, ``"link_host"``, ``"link_interserver"``, ``"link_switch"``,
            ``"axi_fabric"``. A chip whose memory, interconnect or host link is at fault takes no
            part any more **(choice)**.

        Raises
        ------
        ValueError
            If something is not part of the system, or fewer than two chips would be left.

        Examples
        --------
        >>> from trn3 import systems
        >>> broken = systems.trn3_gen2().fail(link=((0, 3, 1), (1, 3, 1)))
        >>> [leg.level for leg in broken.route((0, 3, 1), (1, 3, 1)).legs]
        ['server', 'cross-rack', 'server']
        >>> round(broken.slowdown.factor, 2)
        1.02
        """
        named = [fault_name(self, fault) for fault in faults]
        if chip is not None:
            named.append(node_name(self.chips[self.index(chip)]))
        if link is not None:
            named.append(fault_name(self, link))
        if switch is not None:
            named.append(switch)
        if not named:
            message = "nothing was named to fail; give a chip, a switch or a link"
            raise ValueError(message)
        if health is not None:
            check_health(self._fabric, health, named)
        return replace(
            self,
            _fabric=self._fabric.fail(named),
            _whole=self._whole or self,
            _failed=(*self._failed, tuple(named)),
        )

    @property
    def cut_off(self) -> tuple[ChipId, ...]:
        """Chips that the largest part of the system does not reach."""
        return tuple(self.chips[chip] for part in self._fabric.cut_off() for chip in part)

    @property
    def slowdown(self) -> Slowdown:
        """What the faults cost uniform all-to-all traffic among the chips that are left.

        Raises
        ------
        trn3.system.UnreachableError
            If chips are cut off; it names them.
        ValueError
            If nothing has failed.
        """
        if self._whole is None:
            message = f"nothing of {self.name} has failed, so nothing is slower"
            raise ValueError(message)
        before, after = self._whole._fabric.slowdown(self._fabric)
        asked = Traffic("all-to-all", self.chips)
        none = np.empty(0)
        return Slowdown(
            self._whole._bound(asked, len(self), before, none),
            self._bound(asked, len(self), after, none.copy()),
        )

    def _key(self) -> tuple[object, ...]:
        return (type(self), self.name, self.links, self.lnc, self._file, self.faults)

    def __eq__(self, other: object) -> bool:
        return self._key() == other._key() if isinstance(other, System) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._key())

    def __reduce__(self) -> tuple[Any, ...]:
        # The core's graph is built again where it is needed; faults are names and apply again.
        if self._whole is not None:
            return (_with_faults, (self._whole, self._failed))
        return (_rebuilt, (type(self), self.name, self.links, self.lnc, self._file))

    _repr_mimebundle_ = mimebundle

    def __rich__(self) -> Table:
        rows = {
            "chips": f"{self.num_chips:,}",
            "links": self.links,
            "physical cores a logical core": self.lnc,
            "faults": len(self.faults),
        }
        return fields(f"{type(self).__name__} {self.name}", rows)

    def __repr__(self) -> str:
        faults = f", {len(self.faults)} faults" if self.faults else ""
        links = f"links={self.links!r}, lnc={self.lnc}"
        return f"<{type(self).__name__} {self.name}: {self.num_chips} chips, {links}{faults}>"


def _with_faults(whole: System, failed: tuple[tuple[str, ...], ...]) -> System:
    for named in failed:
        whole = whole.fail(*named)
    return whole


def _rebuilt(
    cls: type[System], name: str, links: Links, lnc: int, file: tuple[str, str] | None
) -> System:
    if file is None:
        return cls.built_in(name, links=links, lnc=lnc)
    return cls(name, links, lnc, _core.Fabric.parse(*file, name, links), file)
