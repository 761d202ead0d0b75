"""Times of matrix products on the simulated core, as plans with ``times="machine"`` take them."""

from __future__ import annotations

from trn3._trn3.planner import time_product

__all__ = ["time_product"]
