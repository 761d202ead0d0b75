# Written by scripts/vendor_stubs.py.
from trn3.nki.dialects.legacy.compiler import *  # noqa: F403

from . import frontend as frontend, kernel_builder as kernel_builder, ncc_driver as ncc_driver
