"""Work over many runs: sweeps over grids of parameters, budgets of kernels' latencies."""
