"""Errors of kernels."""


def kernel_assert(condition, message):
    """Fail as a kernel's own validation does."""
    assert condition, f"[INTERNAL_ERROR] [NCC_INKI016] Kernel validation exception: {message}"
