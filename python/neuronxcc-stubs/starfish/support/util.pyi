# Written by scripts/vendor_stubs.py.
from trn3.nki.dialects.legacy.support import *  # noqa: F403
