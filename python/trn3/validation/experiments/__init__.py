"""Runs on the simulated core that measure what was measured on the hardware.

An experiment takes the name of a machine and parameters, and returns its figures by name:
times in nanoseconds, rates in bytes a nanosecond (GB/s), counts and ratios.
"""

from __future__ import annotations

from trn3.validation.experiments import authored, instructions, kernels, transfers
from trn3.validation.experiments._registry import Figures, figures, forget, names

__all__ = [
    "Figures",
    "authored",
    "figures",
    "forget",
    "instructions",
    "kernels",
    "names",
    "transfers",
]
