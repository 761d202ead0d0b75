# Written by scripts/vendor_stubs.py.
from trn3.nki.simulator import *  # noqa: F403
