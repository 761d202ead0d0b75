"""What the vendor's simulator offers by this name; `trn3.nki` has the same at its top."""

from __future__ import annotations

from trn3.nki.launch.jit import simulate
from trn3.nki.launch.profiling import simulate_kernel

__all__ = ["simulate", "simulate_kernel"]
