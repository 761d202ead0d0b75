"""The library is imported as its users would: `nki` stands for trn3's package meanwhile."""

from __future__ import annotations

import importlib
import pkgutil
import sys
from pathlib import Path

from trn3 import nki

HERE = Path(__file__).parent
collect_ignore_glob = ["kernellib/*"]

sys.path.insert(0, str(HERE))
_present = "nki" in sys.modules
nki.install()
try:
    for _module in pkgutil.walk_packages([str(HERE / "kernellib")], "kernellib."):
        importlib.import_module(_module.name)
finally:
    if not _present:
        nki.uninstall()
