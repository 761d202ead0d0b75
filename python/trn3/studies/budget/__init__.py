"""Simulated latencies of a project's kernels, kept in a file, and tests that notice when they grow.

``pytest --trn3-budget`` uses it. Simulated time does not depend on the machine that simulates, so
one committed file serves every developer and every runner of continuous integration.
"""

from __future__ import annotations

from trn3.studies.budget.record import Budget, BudgetError, Change, Cost, KernelCost

__all__ = ["Budget", "BudgetError", "Change", "Cost", "KernelCost"]
