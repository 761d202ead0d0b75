# Written by scripts/vendor_stubs.py.
from . import nki as nki, starfish as starfish
