"""What operators are refused with."""

__all__ = ["AtenError"]


class AtenError(Exception):
    """An operator asks for what graphs do not have; the text says what is allowed."""
