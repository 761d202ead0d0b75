"""Annotations of legacy kernels, imported as ``neuronxcc.nki.typing``."""

from __future__ import annotations

from trn3.nki.typing import mutable_tensor, tensor

__all__ = ["mutable_tensor", "tensor"]
