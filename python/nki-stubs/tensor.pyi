# Written by scripts/vendor_stubs.py.
from trn3.nki.tensor import *  # noqa: F403
