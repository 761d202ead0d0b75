# Written by scripts/vendor_stubs.py.
from trn3.nki.values.neuron_dtypes import *  # noqa: F403
