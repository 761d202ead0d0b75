"""Kernels as a library of mixtures of experts has them."""
