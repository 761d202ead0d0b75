# Written by scripts/vendor_stubs.py.
from trn3.nki.experimental import *  # noqa: F403
