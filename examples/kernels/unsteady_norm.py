"""A layer norm that gives NaN, and the same one mended: for the page on finding a NaN.

The variance is the mean of squares less the square of the mean. Where the mean is large beside the
spread, that takes two large numbers from each other that differ little, and what the squares lost
when they were rounded to bfloat16 is all that is left: it may be negative, and its root is NaN.
"""

import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np

ROWS, COLUMNS = 128, 512
EPSILON = 1e-5


def inputs(seed=0):
    """Return rows whose means grow from 0 to 30, with a spread of 1."""
    rng = np.random.default_rng(seed)
    means = np.linspace(0, 30, ROWS, dtype=np.float32)[:, None]
    return {"x": rng.standard_normal((ROWS, COLUMNS), dtype=np.float32) + means}


def golden(x):
    """Return what the kernels approximate, in float64."""
    x = x.astype(np.float64)
    return (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + EPSILON)


def mean_of(tile, name):
    """Return the mean of each row."""
    mean = nl.ndarray((ROWS, 1), nl.float32, name=name)
    nisa.tensor_reduce(mean, nl.add, tile, axis=1)
    nisa.tensor_scalar(mean, mean, nl.multiply, 1 / COLUMNS)
    return mean


def scaled(tile, mean, variance):
    """Return the tile less its mean, over the root of its variance."""
    root = nl.ndarray((ROWS, 1), nl.float32, name="root")
    nisa.tensor_scalar(variance, variance, nl.add, EPSILON)
    nisa.activation(root, nl.rsqrt, variance)
    out = nl.ndarray((ROWS, COLUMNS), nl.float32, buffer=nl.shared_hbm, name="out")
    nisa.tensor_scalar(tile, tile, nl.subtract, mean, op1=nl.multiply, operand1=root)
    nisa.dma_copy(out, tile)
    return out


@nki.jit
def unsteady(x):
    """Return rows of mean 0 and variance 1; NaN in some of them."""
    tile = nl.ndarray((ROWS, COLUMNS), nl.float32, name="tile")
    nisa.dma_copy(tile, x)
    mean = mean_of(tile, "mean")
    squares = nl.ndarray((ROWS, COLUMNS), nl.bfloat16, name="squares")
    nisa.activation(squares, nl.square, tile)
    variance = mean_of(squares, "variance")
    squared = nl.ndarray((ROWS, 1), nl.bfloat16, name="squared")
    nisa.tensor_tensor(squared, mean, mean, op=nl.multiply)
    nisa.tensor_tensor(variance, variance, squared, op=nl.subtract)
    return scaled(tile, mean, variance)


@nki.jit
def steady(x):
    """Return rows of mean 0 and variance 1: the mean is taken away before anything is squared."""
    tile = nl.ndarray((ROWS, COLUMNS), nl.float32, name="tile")
    nisa.dma_copy(tile, x)
    mean = mean_of(tile, "mean")
    centred = nl.ndarray((ROWS, COLUMNS), nl.float32, name="centred")
    nisa.tensor_scalar(centred, tile, nl.subtract, mean)
    squares = nl.ndarray((ROWS, COLUMNS), nl.bfloat16, name="squares")
    nisa.activation(squares, nl.square, centred)
    variance = mean_of(squares, "variance")
    return scaled(tile, mean, variance)
