"""Where modules that users could import went: the old names keep working for one release.

One table for all of them. An old name, or one below it, gives the module itself and not a copy of
it, with one `DeprecationWarning` for each name. A second table has the short names that stay.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from importlib import import_module
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from importlib.abc import Loader

#: Old name to new name; what lies below an old name lies below the new one, unless it is listed.
MOVED: dict[str, str] = {
    "trn3.budget": "trn3.studies.budget",
    "trn3.chakra": "trn3.interchange.chakra",
    "trn3.chakra.attributes": "trn3.interchange.chakra.replaying",
    "trn3.chakra.plans": "trn3.interchange.chakra.steps",
    "trn3.cli.results": "trn3.checkpoint.outcomes",
    "trn3.cli.statistics": "trn3.checkpoint.statistics",
    "trn3.cli.writer": "trn3.checkpoint.writer",
    "trn3.chakra.schema": "trn3.interchange.chakra.codec",
    "trn3.export": "trn3.interchange",
    "trn3.export.document": "trn3.interchange.exported",
    "trn3.k8s.cel": "trn3.k8s.errors",
    "trn3.k8s.claims": "trn3.k8s.devices",
    "trn3.k8s.configs": "trn3.k8s.allocate",
    "trn3.k8s.explain": "trn3.k8s.allocate",
    "trn3.k8s.inventory": "trn3.k8s.devices",
    "trn3.k8s.names": "trn3.k8s.slices",
    "trn3.k8s.placement": "trn3.k8s.devices",
    "trn3.k8s.search": "trn3.k8s.allocate",
    "trn3.k8s.topology": "trn3.k8s.slices",
    "trn3.k8s.values": "trn3.k8s.devices",
    "trn3.k8s.workloads": "trn3.k8s.allocate",
    "trn3.export.levels": "trn3.interchange.exported",
    "trn3.machine.data": "trn3.profile.data",
    "trn3.machine.families": "trn3.profile.families",
    "trn3.machine.figures": "trn3.profile.plots",
    "trn3.machine.files": "trn3.files",
    "trn3.machine.findings": "trn3.profile.findings",
    "trn3.machine.intervals": "trn3.profile",
    "trn3.machine.logical": "trn3.profile.profile",
    "trn3.machine.perfetto_trace": "trn3.profile",
    "trn3.machine.profile": "trn3.profile.profile",
    "trn3.machine.results": "trn3.profile.results",
    "trn3.machine.summary": "trn3.profile.summary",
    "trn3.machine.table": "trn3.profile",
    "trn3.machine.verdict": "trn3.profile",
    "trn3.machine.wire": "trn3.profile",
    "trn3.system.plots": "trn3.facts.plots",
    "trn3.nki.aliases": "trn3.nki.dialects.vendor.aliases",
    "trn3.nki.annotations": "trn3.nki.values.annotations",
    "trn3.nki.arguments": "trn3.nki.launch.arguments",
    "trn3.nki.arrays": "trn3.nki.values.arrays",
    "trn3.nki.collective_call": "trn3.nki.ranks.calls",
    "trn3.nki.context": "trn3.nki.ranks.context",
    "trn3.nki.control": "trn3.nki.language.control",
    "trn3.nki.debugging": "trn3.nki.launch.debugging",
    "trn3.nki.differences": "trn3.nki.launch.differences",
    "trn3.nki.dtypes": "trn3.nki.values.element_types",
    "trn3.nki.fabric": "trn3.nki.ranks.fabric",
    "trn3.nki.gang": "trn3.nki.ranks.gang",
    "trn3.nki.grid": "trn3.nki.launch.grid",
    "trn3.nki.hardware": "trn3.nki.dialects.vendor.hardware",
    "trn3.nki.isa.cores": "trn3.nki.isa.logical_core",
    "trn3.nki.isa.reduction": "trn3.nki.isa.tensor_reduction",
    "trn3.nki.kernel": "trn3.nki.launch.jit",
    "trn3.nki.launches": "trn3.nki.launch.observers",
    "trn3.nki.legacy": "trn3.nki.dialects.legacy",
    "trn3.nki.legacy.overloads": "trn3.nki.dialects.legacy.views",
    "trn3.nki.legacy.tensors": "trn3.nki.dialects.legacy.views",
    "trn3.nki.library": "trn3.nki.dialects.vendor.library",
    "trn3.nki.logical": "trn3.nki.ranks.logical",
    "trn3.nki.memory": "trn3.nki.language",
    "trn3.nki.multirank": "trn3.nki.launch.multirank",
    "trn3.nki.neuron_dtypes": "trn3.nki.values.neuron_dtypes",
    "trn3.nki.objects": "trn3.nki.values.objects",
    "trn3.nki.operators": "trn3.nki.values.operators",
    "trn3.nki.portability": "trn3.nki.lint",
    "trn3.nki.portability.places": "trn3.nki.lint.breaches",
    "trn3.nki.portability.running": "trn3.nki.lint.watch",
    "trn3.nki.profiling": "trn3.nki.launch.profiling",
    "trn3.nki.recording": "trn3.nki.launch.recording",
    "trn3.nki.runners": "trn3.nki.launch.profiling",
    "trn3.nki.running": "trn3.nki.launch.run",
    "trn3.nki.targets": "trn3.nki.values.targets",
    "trn3.nki.tensors": "trn3.nki.language.assignment",
    "trn3.nki.tile_sizes": "trn3.nki.language.tile_sizes",
    "trn3.nki.tracing": "trn3.nki.launch.tracing",
    "trn3.nki.turns": "trn3.nki.ranks.turns",
    "trn3.nki.version": "trn3.nki.values.version",
    "trn3.planner.plans": "trn3.planner.serving",
    "trn3.sweeps": "trn3.studies.sweep",
    "trn3.sweeps.checkpoint": "trn3.studies.sweep.journal",
    "trn3.sweeps.errors": "trn3.studies.sweep",
    "trn3.sweeps.result": "trn3.studies.sweep.points",
    "trn3.system.comparison": "trn3.facts.comparison",
    "trn3.system.cores": "trn3.system.chip_figures",
    "trn3.system.documents": "trn3.facts.documents",
    "trn3.system.expressions": "trn3.facts.expressions",
    "trn3.system.facts": "trn3.facts",
    "trn3.system.mappings": "trn3.facts.mappings",
    "trn3.system.quantity": "trn3.facts.quantity",
    "trn3.system.spec": "trn3.facts.spec",
    "trn3.system.units": "trn3.text",
    "trn3.system.collective_data": "trn3.collectives.arrays",
    "trn3.system.collective_result": "trn3.collectives.answers",
    "trn3.system.collective_tables": "trn3.collectives.nccom_tables",
    "trn3.system.collective_timing": "trn3.collectives.timing",
    "trn3.system.groups": "trn3.collectives.groups",
    "trn3.validation.specs": "trn3.validation.sources",
}

#: Public names of modules that stand elsewhere: they stay, and nobody is warned.
PUBLIC: dict[str, str] = {
    "trn3.cost": "trn3.economics.cost",
    "trn3.power": "trn3.economics.power",
    "trn3.systems": "trn3.system.catalogue",
}


def renamed(name: str) -> str | None:
    """Return where a module of this name stands; None if it stands under the name itself.

    >>> renamed("trn3.numerics") is None
    True
    """
    if name in PUBLIC:
        return PUBLIC[name]
    stem, below = name, ""
    while stem != "trn3":
        if stem in MOVED:
            return MOVED[stem] + below
        stem, _, last = stem.rpartition(".")
        below = f".{last}{below}"
    return None


class MovedFinder:
    """Finds modules by the names that they had in an earlier release.

    It derives from nothing: to import `importlib.abc` takes longer than the rest of the package.
    """

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None = None,
        target: ModuleType | None = None,
    ) -> ModuleSpec | None:
        """Return a spec whose loader gives the moved module; None for every other name."""
        del path, target
        if not fullname.startswith("trn3.") or renamed(fullname) is None:
            return None
        return ModuleSpec(fullname, cast("Loader", self))

    def create_module(self, spec: ModuleSpec) -> None:
        """Leave the placeholder, which `exec_module` replaces, to the import system."""

    def exec_module(self, module: ModuleType) -> None:
        """Put the moved module in the place of the old name."""
        old = module.__name__
        new = renamed(old)
        assert new is not None
        if old not in PUBLIC:
            warnings.warn(
                f"{old} is now {new}; the old name goes with the next release",
                DeprecationWarning,
                stacklevel=2,
            )
        sys.modules[old] = import_module(new)
        # What is loaded already is not imported again by its old name: that would put a module in
        # the place of a function of the same name, which the package offers.
        for name in [name for name in sys.modules if name.startswith(f"{new}.")]:
            earlier = old + name.removeprefix(new)
            if renamed(earlier) == name:
                sys.modules.setdefault(earlier, sys.modules[name])


def install() -> None:
    """Look for moved names before the folders: below an alias these would load a module twice."""
    if not any(isinstance(finder, MovedFinder) for finder in sys.meta_path):
        sys.meta_path.insert(0, MovedFinder())
