# mypy: ignore-errors
"""A kernel of the legacy dialect, which compilers of 0.4 and later refuse as a whole."""

import neuronxcc.nki as nki
import neuronxcc.nki.language as nl


@nki.jit  # P024
def legacy(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    if x is None:
        return out
    nl.store(out, nl.load(x))
    return out
