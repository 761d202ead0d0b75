"""Kernels rebuilt: what was published, with the work of a compiler of the time done by hand.

Products are hoisted, broadcasts go through TensorE and stay in PSUM, and what does not fit is
loaded again. The texts as their authors have them stand beside them
in ``authored``.
"""

from __future__ import annotations

from typing import Any

from trn3.validation.imported import authored


def __getattr__(name: str) -> Any:
    return getattr(authored("rebuilt"), name)
