# Written by scripts/vendor_stubs.py.
from trn3.nki.dialects.legacy import *  # noqa: F403

from . import (
    collectives as collectives,
    compiler as compiler,
    isa as isa,
    language as language,
    typing as typing,
)
