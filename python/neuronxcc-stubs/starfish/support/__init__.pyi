# Written by scripts/vendor_stubs.py.
from . import dtype as dtype, util as util
