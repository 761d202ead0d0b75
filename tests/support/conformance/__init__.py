"""What every instruction of `nki.isa` must do: rows of calls with results, and refusals.

Results are NumPy's, written from the instructions' definitions; nothing of the implementation is
used to compute them. The page on coverage is counted from these tables.
"""
