# Written by scripts/vendor_stubs.py.
from trn3.nki.values.element_types import *  # noqa: F403
