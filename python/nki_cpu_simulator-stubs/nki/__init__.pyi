# Written by scripts/vendor_stubs.py.
from trn3.nki import *  # noqa: F403

from . import (
    builtin as builtin,
    compiler as compiler,
    isa as isa,
    language as language,
    simulator as simulator,
    tensor as tensor,
    typing as typing,
)
