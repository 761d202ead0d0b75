# mypy: ignore-errors
"""Loops that releases from 0.7 on refuse; each line that a rule finds is marked with it."""

import nki
import nki.isa as nisa
import nki.language as nl


@nki.jit
def looped(x, y=None):
    for _ in nl.dynamic_range(4):  # P027
        pass
    register = nisa.register_alloc(4)
    while register:  # P027
        nisa.register_move(register, 0)

    def body(index):
        nl.load(x[nl.ds(index * 2, 1)])

    nl.fori_loop(0, 4, body)
    # All of Python is traced.
    try:
        z = x if y is None else y
    except ValueError:
        z = min([x], key=lambda each: 0)
    return z
