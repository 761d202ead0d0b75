# Written by scripts/vendor_stubs.py.
from trn3.nki.collectives import *  # noqa: F403
