"""Running kernels: decorators, launch grids, arguments in and results out, reports on a run."""
