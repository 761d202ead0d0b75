# Written by scripts/vendor_stubs.py.
from trn3.nki.language import *  # noqa: F403
