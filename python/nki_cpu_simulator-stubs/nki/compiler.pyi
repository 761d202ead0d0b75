# Written by scripts/vendor_stubs.py.
from trn3.nki.dialects.legacy.compiler import *  # noqa: F403
