# Written by scripts/vendor_stubs.py.
from trn3.nki.dialects.vendor.hardware import *  # noqa: F403
