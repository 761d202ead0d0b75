"""Which machine a kernel runs on, and the sizes that kernels ask of it."""

from __future__ import annotations

from functools import cache
from typing import Any, Final

from trn3._trn3.machine import NeuronCore
from trn3.nki.values.environment import variable

#: Machine descriptions by every name of a target.
TARGETS: Final = {
    "trn1": "trn1", "inf2": "trn1", "gen2": "trn1",
    "trn2": "trn2", "gen3": "trn2",
    "trn3": "trn3", "gen4": "trn3",
    "trainium4_whatif": "trainium4_whatif",
}  # fmt: skip
DEFAULT: Final = "trn3"


def canonical_target(name: Any, origin: str) -> str:
    """Return the machine description that a target's name means.

    Raises
    ------
    ValueError
        If it means none; the text names `origin`.
    """
    text = str(name).strip().lower()
    # The older simulator writes bare generation numbers: 2, 3, 4.
    found = TARGETS.get(text) or TARGETS.get(f"gen{text}")
    if found is None:
        message = f"{origin} is {name!r}; allowed: {', '.join(TARGETS)}"
        raise ValueError(message)
    return found


def current_target() -> str:
    """Return the target of kernels called now, as ``NEURON_PLATFORM_TARGET_OVERRIDE`` says.

    That variable unset, ``NKI_NC_VERSION`` counts; without both it is ``"trn3"``.

    Raises
    ------
    ValueError
        If the variable names no target.
    """
    for name in ("NEURON_PLATFORM_TARGET_OVERRIDE", "NKI_NC_VERSION"):
        value = variable(name)
        if value:
            return canonical_target(value, name)
    return DEFAULT


class MachineSizes:
    """Sizes of one machine, from its description, which is looked at when a size is asked for."""

    __slots__ = ("_description", "_entries", "arch", "generation")

    def __init__(self, arch: str, core: NeuronCore) -> None:
        self.arch = arch
        self.generation = core.arch[1]
        self._description = core.description
        self._entries: dict[str, float] | None = None

    def __getitem__(self, key: str) -> int:
        return int(self._known()[key])

    def entries(self) -> dict[str, float]:
        """Return every entry of the description."""
        return dict(self._known())

    def _known(self) -> dict[str, float]:
        if self._entries is None:
            self._entries = self._description.values()
        return self._entries


@cache
def figures_of(arch: str) -> MachineSizes:
    """Return the sizes of a machine, by name or path of its description."""
    return MachineSizes(arch, NeuronCore(arch, values=False, timing=False))
