"""What quantization did to a tensor, gathered piece by piece in bounded memory."""

from __future__ import annotations

from trn3._trn3.checkpoint import HISTOGRAM_BINS, HISTOGRAM_LIMIT, ErrorStatistics

__all__ = ["HISTOGRAM_BINS", "HISTOGRAM_LIMIT", "ErrorStatistics"]
