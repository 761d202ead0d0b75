"""ScalarE's log of every bfloat16."""

import ml_dtypes
import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np


def spread(shape, seed, low=-12, high=12):
    """Return float32 of full precision between powers of two, of both signs."""
    random = np.random.RandomState(seed)
    digits = random.randint(-(2**24) + 1, 2**24, shape)
    return np.ldexp(digits.astype(np.float32), random.randint(low - 24, high - 24, shape)).astype(np.float32)


def patterns(shape, seed, low=0, high=2**32):
    """Return float32 of random bits between two patterns."""
    random = np.random.RandomState(seed)
    return random.randint(low, high, shape, dtype=np.uint64).astype(np.uint32).view(np.float32)


def ties(bits, low, high, seed):
    """Return float32 that are, or are next to, halfway between values with that many bits less."""
    random = np.random.RandomState(seed)
    kept = random.randint(low >> bits, high >> bits, (128, 512), dtype=np.uint64) << np.uint64(bits)
    half = np.uint64(1 << (bits - 1)) + random.randint(0, 3, (128, 512), dtype=np.uint64) - np.uint64(1)
    sign = random.randint(0, 2, (128, 512), dtype=np.uint64) << np.uint64(31)
    return (kept | half | sign).astype(np.uint32).view(np.float32)


#: Every bfloat16 there is.
CODES = np.arange(65536, dtype=np.uint32).astype(np.uint16).view(ml_dtypes.bfloat16).reshape(128, 512)


@nki.jit
def kernel(x):
    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    made = nl.ndarray(x.shape, dtype=nl.float32, buffer=nl.sbuf)
    nisa.activation(dst=made, op=nl.log, data=tile)
    out = nl.ndarray(x.shape, dtype=nl.float32, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=made)
    return out


def inputs():
    return [CODES]
