"""The compiler: what it makes of kernels, and what it advises."""
