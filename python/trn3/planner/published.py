"""Published results of serving beside what plans say."""

from __future__ import annotations

from trn3._trn3 import planner as _planner
from trn3.planner.training import Published

__all__ = ["published"]


def published() -> tuple[Published, ...]:
    """Return published figures of serving beside the model's.

    Latencies of Llama on Trainium2, among the rows to which recipes are fitted; what their
    speeds with speculation imply; and the ratios that are claimed of GPT-OSS on Trainium3 against
    Trainium2, by the bytes that a step reads at the peak of the memory alone.

    Examples
    --------
    >>> rows = {row.name: row for row in published()}
    >>> round(rows["llama31_405b_trn2_tpot"].ratio, 2)
    1.12
    """
    return tuple(Published(**entry) for entry in _planner.published_serving())
