# Written by scripts/vendor_stubs.py.
from trn3.nki.dialects.legacy.typing import *  # noqa: F403
