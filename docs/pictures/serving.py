"""Pictures of services under load."""

from __future__ import annotations

from matplotlib.figure import Figure

import trn3


def over_time() -> Figure:
    """Draw what users of one replica wait for, and how full it is over time."""
    served = trn3.serve(
        "llama-3-8b",
        "trn2",
        tp=8,
        rate=24,
        input_tokens="lognormal:600:400",
        output_tokens="lognormal:150:100",
        requests=1500,
        max_num_seqs=64,
        bands=False,
    )
    return served.plot()
