# Written by scripts/vendor_stubs.py.
from trn3.nki import *  # noqa: F403

from . import (
    collectives as collectives,
    compiler as compiler,
    dtype as dtype,
    experimental as experimental,
    isa as isa,
    language as language,
    simulator as simulator,
    tensor as tensor,
    typing as typing,
)
