# Written by scripts/vendor_stubs.py.
from . import support as support
