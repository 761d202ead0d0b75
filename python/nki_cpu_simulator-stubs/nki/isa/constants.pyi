# Written by scripts/vendor_stubs.py.
from trn3.nki.isa.constants import *  # noqa: F403
