"""Kernels written in other ways: the legacy dialect, and the vendor's names for all of it."""
