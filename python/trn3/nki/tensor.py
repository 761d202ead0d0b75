"""The tensor class under the name that test harnesses import it by."""

from __future__ import annotations

from trn3._trn3.machine import NkiTensor
from trn3.nki.values.annotations import make_annotation

__all__ = ["NkiTensor"]

make_annotation(__name__)
