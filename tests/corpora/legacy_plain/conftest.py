"""The kernels are imported as users would: `neuronxcc` stands for trn3's package meanwhile."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

from trn3.validation.imported import vendor_names

HERE = Path(__file__).parent
collect_ignore_glob = ["plainlib/*"]

sys.path.insert(0, str(HERE))
with vendor_names():
    importlib.import_module("plainlib")
