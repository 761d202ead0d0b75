"""What a launch runs on: a target, a description, a new core of it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Final

from trn3._trn3.machine import NeuronCore
from trn3.nki.values.callers import OWN_FOLDER
from trn3.nki.values.environment import variable
from trn3.nki.values.targets import canonical_target

if TYPE_CHECKING:
    from trn3.machine.archs import ArchLike, ArchSpec
    from trn3.nki.values.kernel_function import KernelFunction

__all__ = ["INTERNAL", "arch_of", "core_of", "cores_of", "is_precise"]

#: Where lines of errors and profiles do not lie.
INTERNAL: Final = [OWN_FOLDER]
#: Commands run kernels by themselves: no line of a person called them.
COMMANDS: Final = [f"{OWN_FOLDER}cli{os.sep}"]


def arch_of(arch: ArchLike) -> str | ArchSpec:
    """Return what a core is made of: a target's canonical name, a path, or a description.

    Raises
    ------
    ValueError
        If it names no machine.
    """
    if isinstance(arch, (str, os.PathLike)):
        text = os.fspath(arch)
        if text.endswith(".toml"):
            return text
        if "=" not in text:
            return canonical_target(text, "arch")
    from trn3.machine.archs import arch as described

    return described(arch)


def core_of(machine: str | ArchSpec, **options: Any) -> NeuronCore:
    """Return a new core of a machine, to which lines of this package are none of a kernel's."""
    if isinstance(machine, str):
        return NeuronCore(machine, internal=INTERNAL, commands=COMMANDS, **options)
    # Descriptions bring the reports of `trn3.machine`, which most runs do without.
    from trn3.machine.archs import arch_file

    with arch_file(machine) as path:
        return NeuronCore(path, internal=INTERNAL, commands=COMMANDS, **options)


def cores_of(
    machine: str | ArchSpec, wanted: int, kernel: KernelFunction, **options: Any
) -> list[NeuronCore]:
    """Return so many new cores for a kernel, on one HBM.

    Raises
    ------
    ValueError
        If a logical core of the machine has fewer.
    """
    first = core_of(machine, **options)
    most = first.description.max_lnc if wanted > 1 else 1
    if wanted > most:
        message = f"{kernel!r}: a logical core of {first.arch[0]} has at most {most} cores"
        raise ValueError(message)
    cores = [first]
    while len(cores) < wanted:
        cores.append(NeuronCore("", internal=INTERNAL, commands=COMMANDS, beside=cores))
    return cores


def is_precise() -> bool:
    """Return whether ``NKI_PRECISE_FP`` asks for float32 storage of every type."""
    wanted = variable("NKI_PRECISE_FP") or "1"
    if wanted not in ("0", "1"):
        message = (
            f"NKI_PRECISE_FP is {wanted!r}; allowed: 1 (elements hold what their type holds), 0 "
            "(float32 values in every floating-point type)"
        )
        raise ValueError(message)
    return wanted == "0"
