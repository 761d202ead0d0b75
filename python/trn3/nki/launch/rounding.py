"""How a launch rounds what its engines write: to nearest, or stochastically from a seed."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from trn3.nki.values.environment import variable

if TYPE_CHECKING:
    from trn3._trn3.machine import NeuronCore

__all__ = ["RoundingChoice"]

_SWITCH: Final = "NEURON_RT_STOCHASTIC_ROUNDING_EN"
_SEED: Final = "NEURON_RT_STOCHASTIC_ROUNDING_SEED"
_SEEDS: Final = 2**64


@dataclass(frozen=True, slots=True)
class RoundingChoice:
    """What a caller said of rounding; what it left open the environment says.

    Attributes
    ----------
    stochastic : bool or None
        None: as ``NEURON_RT_STOCHASTIC_ROUNDING_EN`` says, 0 unless set.
    seed : int or None
        None: that of ``NEURON_RT_STOCHASTIC_ROUNDING_SEED``, 0 unless set.

    Examples
    --------
    >>> RoundingChoice(stochastic=True, seed=7).seed_of_launch()
    7
    """

    stochastic: bool | None = None
    seed: int | None = None

    def __post_init__(self) -> None:
        """Refuse seeds that are none, and those of rounding that needs none."""
        if self.seed is not None:
            _check_seed("seed", self.seed)
            if self.stochastic is False:
                message = f"seed is {self.seed} with stochastic_rounding=False, which draws nothing"
                raise ValueError(message)

    def seed_of_launch(self) -> int | None:
        """Return the seed of a launch that begins now; None where it rounds to nearest.

        Raises
        ------
        ValueError
            If an environment variable says neither, or a seed was given and nothing is to be drawn.
        """
        stochastic = self.stochastic
        if stochastic is None:
            wanted = variable(_SWITCH) or "0"
            if wanted not in ("0", "1"):
                message = (
                    f"{_SWITCH} is {wanted!r}; allowed: 0 (results are rounded to nearest), 1 "
                    "(stochastically)"
                )
                raise ValueError(message)
            stochastic = wanted == "1"
        if not stochastic:
            if self.seed is not None:
                message = f"seed is {self.seed} without stochastic_rounding=True or {_SWITCH}=1"
                raise ValueError(message)
            return None
        if self.seed is not None:
            return operator.index(self.seed)
        given = variable(_SEED) or "0"
        try:
            seed = int(given, 0)
        except ValueError:
            message = f"{_SEED} is {given!r}; allowed: a whole number from 0 below 2**64"
            raise ValueError(message) from None
        _check_seed(_SEED, seed)
        return seed

    def apply(self, cores: Sequence[Sequence[NeuronCore]]) -> None:
        """Set the cores of each rank so; every core of the launch draws differently."""
        seed = self.seed_of_launch()
        if seed is not None:
            for place, core in enumerate(core for own in cores for core in own):
                core.set_stochastic_rounding(seed, place)


def _check_seed(name: str, seed: Any) -> None:
    try:
        number = operator.index(seed)
    except TypeError:
        message = f"{name} is of type {type(seed).__name__}; allowed: a whole number"
        raise TypeError(message) from None
    if not 0 <= number < _SEEDS:
        message = f"{name} is {number}; allowed: a whole number from 0 below 2**64"
        raise ValueError(message)
