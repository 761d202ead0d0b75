"""Settings of the environment, looked at before a command begins."""

from __future__ import annotations

from trn3.cli.refusal import RefusedError


def check_settings() -> None:
    """Refuse wrong values of TRN3_SIMD and TRN3_NUM_THREADS before they surprise in mid-work."""
    import trn3

    try:
        trn3.simd_level()
        trn3.get_num_threads()
    except ValueError as error:
        raise RefusedError(str(error)) from error
