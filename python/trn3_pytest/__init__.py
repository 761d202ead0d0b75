"""The pytest plug-in of trn3: ``pytest --trn3-budget`` keeps simulated latencies from growing.

It stands beside the package, not in it, so that pytest runs that do not ask for it import nothing:
what it does is in `trn3.studies.budget`.
"""

from __future__ import annotations

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options."""
    group = parser.getgroup("trn3", "simulated latency of NKI kernels (trn3)")
    group.addoption(
        "--trn3-budget",
        nargs="?",
        const="5%",
        default=None,
        metavar="PERCENT",
        help="fail a test whose kernels got slower by more than this (default: 5%%)",
    )
    group.addoption(
        "--trn3-budget-file",
        default=None,
        metavar="PATH",
        help="where latencies are kept (default: trn3-budget.json in the root directory)",
    )
    group.addoption(
        "--trn3-budget-update",
        action="store_true",
        help="write what the tests that pass take now; fail none for it",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Load the plug-in proper, if an option asks for it."""
    if config.getoption("--trn3-budget") is None and not config.getoption("--trn3-budget-update"):
        return
    from trn3.studies.budget.plugin import BudgetPlugin

    config.pluginmanager.register(BudgetPlugin(config), "trn3-budget")
