# Written by scripts/vendor_stubs.py.
from trn3.nki.isa import *  # noqa: F403

from . import constants as constants
