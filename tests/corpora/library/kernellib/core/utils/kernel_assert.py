"""Checks that fail the way a compiler's validation does."""

_PREFIX = "[INTERNAL_ERROR] [NCC_INKI016] Kernel validation exception: "


def kernel_assert(condition, error_text):
    """Raise an AssertionError with the compiler's prefix unless the condition holds."""
    assert condition, f"{_PREFIX}{error_text}"
