# Written by scripts/vendor_stubs.py.
from trn3.nki.dialects.legacy.language.constants import *  # noqa: F403
