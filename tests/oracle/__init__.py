"""Slow, exact definitions that the library's results are compared with.

Everything here is written from the numerics contract alone, in Python integers, fractions and
mpmath. Nothing in this package imports trn3: an oracle that shared a line with the implementation
would share its mistakes.
"""
