"""Hashes of results, committed before what computes them was made faster: bits do not change.

``python -m support.corpus`` (in ``tests``) prints the table; ``corpora/results.json`` is what it
printed first. Who changes the contract on purpose records it again and says so in the CHANGELOG.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from oracle import operands
from oracle.operands import BFLOAT16, E2M1FN, E4M3FN, E5M2, FLOAT32
from support import battery
from trn3 import numerics

FILE = Path(__file__).parents[1] / "corpora" / "results.json"


def large(random: np.random.Generator) -> Iterator[tuple[str, battery.Operation]]:
    """Name calls that span several blocks, tasks and panels, with edges."""
    for dtype in (FLOAT32, BFLOAT16, E4M3FN):
        a = operands.normal(random, (777, 1313), dtype)
        b = operands.normal(random, (1313, 901), dtype)
        yield f"large matmul {dtype}", partial(numerics.matmul, a, b)
        yield f"large matmul, turned {dtype}", partial(numerics.matmul, b.T, a.T)
    for dtype in (E4M3FN, E5M2, E2M1FN):
        x = operands.normal(random, (333, 1600), FLOAT32)
        y = operands.normal(random, (1600, 517), FLOAT32)
        yield f"large matmul_mx {dtype}", partial(_matmul_mx, x, y, dtype)
    x = operands.between(random, (1024, 992), FLOAT32, -30, 30)
    for dtype in (E4M3FN, E5M2, E2M1FN):
        for axis in (0, 1):
            yield f"large quantize_mx {dtype} {axis}", partial(_quantize, x, dtype, axis)
    codes = operands.codes(random, (1 << 20,), FLOAT32)
    for dtype in (BFLOAT16, E4M3FN, E5M2):
        yield f"large cast {dtype}", partial(numerics.cast, codes, dtype)
        yield f"large stochastic cast {dtype}", partial(_stochastic, codes, dtype)
    for name in battery.ACTIVATIONS:
        yield f"large activation {name}", partial(numerics.activation, codes, name)
        yield f"large activation {name} of logits", partial(numerics.activation, x, name)
    w = operands.normal(random, (1024, 515), BFLOAT16)
    a = operands.normal(random, (250, 1024), BFLOAT16)
    patterns: tuple[Any, ...] = ("1:4", "2:4", "4:8", "4:16")
    for pattern in patterns:
        yield f"large matmul_sparse {pattern}", partial(_sparse, a, w, pattern)
    for lanes, generators in ((128, 1), (128, 4), (5, 1)):
        yield f"large draws {lanes} {generators}", partial(_draws, lanes, generators)


def _matmul_mx(x: Any, y: Any, dtype: Any) -> Any:
    left = numerics.quantize_mx(x, dtype, axis=-1)
    return numerics.matmul_mx(left, numerics.quantize_mx(y, dtype, axis=-2))


def _quantize(x: Any, dtype: Any, axis: int) -> Any:
    found = numerics.quantize_mx(x, dtype, axis=axis)
    return found.elements, found.scales, found.dequantize()


def _stochastic(x: Any, dtype: Any) -> Any:
    source = numerics.Xorwow.seed(11, generators=4)
    return numerics.cast(x, dtype, rounding="stochastic", rng=source), source.state


def _sparse(a: Any, w: Any, pattern: Any) -> Any:
    return numerics.matmul_sparse(a, numerics.compress(numerics.prune(w, pattern), pattern))


def _draws(lanes: int, generators: int) -> Any:
    source = numerics.Xorwow.seed(3, lanes=lanes, generators=generators)
    return source.uint32(40_001), source.uniform(999, 0, 1), source.state


def inputs() -> str:
    """Return the hash of what is drawn, which a later NumPy may draw otherwise."""
    drawn = battery.make_inputs()
    random = np.random.default_rng(19)
    parts = [drawn[name] for name in sorted(drawn)]
    every = (FLOAT32, BFLOAT16, E4M3FN, E5M2, E2M1FN)
    parts += [operands.normal(random, (99, 101), dtype) for dtype in every]
    parts.append(operands.between(random, (99, 101), FLOAT32, -30, 30))
    parts.append(operands.codes(random, (999,), FLOAT32))
    return battery.digest(tuple(parts))


def results() -> dict[str, str]:
    """Call everything and hash the results."""
    found = battery.run(battery.make_inputs())
    for name, operation in large(np.random.default_rng(2027)):
        found[name] = battery.digest(operation())
    return found


if __name__ == "__main__":
    table = {"inputs": inputs(), "results": results()}
    sys.stdout.write(json.dumps(table, indent=1) + "\n")
