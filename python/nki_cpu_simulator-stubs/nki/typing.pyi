# Written by scripts/vendor_stubs.py.
from trn3.nki.typing import *  # noqa: F403
