"""The functions that the compiled core evaluates are those that tests go through."""

from __future__ import annotations

from oracle.activation import EXACT
from support import battery
from trn3._trn3 import ACTIVATIONS


def test_names_are_those_of_the_oracle() -> None:
    assert ACTIVATIONS == tuple(EXACT) == battery.ACTIVATIONS
