"""Kernels written for ``import nki`` find this package under that name."""

from __future__ import annotations

import importlib
import sys
import types
from typing import Final

from trn3.nki.dialects.vendor import library, neuron_device, torch_devices
from trn3.nki.values.version import set_version

#: Modules by the names that kernels import, and what stands for them.
ALIASES: Final = {
    "nki": "trn3.nki",
    "nki.language": "trn3.nki.language",
    "nki.isa": "trn3.nki.isa",
    "nki.isa.constants": "trn3.nki.isa.constants",
    "nki.collectives": "trn3.nki.collectives",
    "nki.typing": "trn3.nki.typing",
    "nki.dtype": "trn3.nki.dtype",
    "nki.tensor": "trn3.nki.tensor",
    "nki.experimental": "trn3.nki.experimental",
    "nki.simulator": "trn3.nki.simulator",
    "nki.compiler": "trn3.nki.dialects.legacy.compiler",
    "nki.compiler.frontend": "trn3.nki.dialects.vendor.hardware",
    "nki.compiler.ncc_driver": "trn3.nki.dialects.vendor.hardware",
    "nki.compiler.kernel_builder": "trn3.nki.dialects.vendor.hardware",
    "nki.language.constants": "trn3.nki.dialects.legacy.language.constants",
    "nki.language.dtypes": "trn3.nki.values.element_types",
    "neuron_dtypes": "trn3.nki.values.neuron_dtypes",
    "neuronxcc.nki": "trn3.nki.dialects.legacy",
    "neuronxcc.nki.language": "trn3.nki.dialects.legacy.language",
    "neuronxcc.nki.language.constants": "trn3.nki.dialects.legacy.language.constants",
    "neuronxcc.nki.isa": "trn3.nki.dialects.legacy.isa",
    "neuronxcc.nki.isa.constants": "trn3.nki.isa.constants",
    "neuronxcc.nki.compiler": "trn3.nki.dialects.legacy.compiler",
    "neuronxcc.nki.typing": "trn3.nki.dialects.legacy.typing",
    "neuronxcc.nki.collectives": "trn3.nki.collectives",
    "neuronxcc.starfish.support.util": "trn3.nki.dialects.legacy.support",
    "neuronxcc.starfish.support.dtype": "trn3.nki.dialects.legacy.support",
    "nki_cpu_simulator.nki": "trn3.nki",
    "nki_cpu_simulator.nki.builtin": "trn3.nki.language",
    "nki_cpu_simulator.nki.compiler": "trn3.nki.dialects.legacy.compiler",
    "nki_cpu_simulator.nki.isa": "trn3.nki.isa",
    "nki_cpu_simulator.nki.isa.constants": "trn3.nki.isa.constants",
    "nki_cpu_simulator.nki.language": "trn3.nki.language",
    "nki_cpu_simulator.nki.language.dtypes": "trn3.nki.values.element_types",
    "nki_cpu_simulator.nki.simulator": "trn3.nki.simulator",
    "nki_cpu_simulator.nki.tensor": "trn3.nki.tensor",
    "nki_cpu_simulator.nki.typing": "trn3.nki.typing",
}  # fmt: skip
#: Top-level names that belong to the vendor.
OWNED: Final = ("nki", "neuronxcc", "neuron_dtypes", "nki_cpu_simulator")

#: Packages that hold nothing but the modules above.
PACKAGES: Final = (
    "neuronxcc", "neuronxcc.starfish", "neuronxcc.starfish.support", "nki_cpu_simulator",
)  # fmt: skip

# What stood in sys.modules before, by name; None: nothing did.
_replaced: dict[str, types.ModuleType | None] = {}


def install(*, version: str | None = None, torch_xla: bool = False) -> None:
    """Register this package as ``nki``, ``neuron_dtypes`` and ``neuronxcc``, as kernels import it.

    ``nki_cpu_simulator``, an older name of the vendor's simulator, is an alias tree of it. With
    ``nkilib_src`` on the path, ``nkilib`` is the kernel library in it.

    Installing twice does nothing more.

    Parameters
    ----------
    version : str, optional
        NKI version whose behaviour holds where versions differ, ``"0.1"`` to ``"0.7"``; the
        default is the variable ``TRN3_NKI_VERSION``, and 0.6 without it. What differs:
        `trn3.nki.values.releases`.
    torch_xla : bool, optional
        Whether ``import torch_xla`` and ``import torch_neuronx`` shall find stand-ins whose devices
        are torch's CPU, also in place of installed ones; ``trn3 run`` asks for it. The device
        ``"neuron"`` is then the CPU's too, which `uninstall` does not undo, and
        ``torch.compile(backend="neuron")`` is ``backend="trn3"``.

    Raises
    ------
    ImportError
        If the vendor's package of one of these names is loaded already.
    ValueError
        If the version is unknown.

    Examples
    --------
    >>> import trn3.nki
    >>> trn3.nki.install()
    >>> import nki.language as nl
    >>> nl is trn3.nki.language
    True
    >>> trn3.nki.uninstall()
    """
    set_version(version)
    if torch_xla:
        torch_devices.offer()
        neuron_device.offer()
    if _replaced:
        return
    modules = {name: types.ModuleType(name) for name in PACKAGES}
    for name in PACKAGES:
        # A package, to those who import what lies under it.
        modules[name].__path__ = []
    modules |= {alias: importlib.import_module(name) for alias, name in ALIASES.items()}
    for alias, module in modules.items():
        parent = modules.get(alias.rpartition(".")[0])
        if parent is not None and parent.__name__ in PACKAGES:
            setattr(parent, alias.rpartition(".")[2], module)
    for name in OWNED:
        # A mere folder of that name on the path has no file; it gives way.
        origin = getattr(sys.modules.get(name), "__file__", None)
        if origin is not None:
            message = (
                f"{name} is loaded already, from {origin}; call trn3.nki.install() before anything "
                "imports it, in an interpreter of its own"
            )
            raise ImportError(message)
    for alias, module in modules.items():
        _replaced[alias] = sys.modules.get(alias)
        sys.modules[alias] = module
    library.offer()


def uninstall() -> None:
    """Undo `install`: the names are what they were before."""
    set_version(None)
    library.withdraw()
    torch_devices.withdraw()
    neuron_device.withdraw()
    while _replaced:
        alias, before = _replaced.popitem()
        if before is None:
            sys.modules.pop(alias, None)
        else:
            sys.modules[alias] = before
