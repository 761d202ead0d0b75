# Written by scripts/vendor_stubs.py.
from trn3.nki.dtype import *  # noqa: F403
