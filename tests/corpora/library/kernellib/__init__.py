"""A library of kernels as production code is written: packages, helpers, relative imports.

It is imported with `nki` standing for trn3's package and knows nothing of the simulator.
"""
