"""The pytest plug-in of trn3: the fixture `trn3_check`, and ``pytest --trn3-budget``.

The one holds a kernel's result against a golden, the other keeps simulated latencies from growing.
It stands beside the package, not in it, so that pytest runs that do not ask for it import nothing:
what it does is in `trn3.nki` and `trn3.studies.budget`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

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
    group.addoption(
        "--trn3-budget-by",
        default=None,
        metavar="NAMES",
        help="what to keep besides latencies: line, instructions, dma_bytes, hbm_read_bytes, "
        "hbm_write_bytes, sbuf_peak_bytes, psum_peak_bytes (default: what the file has)",
    )
    group.addoption(
        "--trn3-budget-report", default=None, metavar="PATH", help="write the report into a file"
    )
    group.addoption(
        "--trn3-budget-format",
        default=None,
        choices=("text", "github", "sarif", "junit", "markdown", "json"),
        help="of the report (default: by the ending .json, .md, .sarif or .xml, else text)",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Load the plug-in proper, if an option asks for it."""
    if config.getoption("--trn3-budget") is None and not config.getoption("--trn3-budget-update"):
        return
    from trn3.studies.budget.plugin import BudgetPlugin

    config.pluginmanager.register(BudgetPlugin(config), "trn3-budget")


@pytest.fixture
def trn3_check() -> Callable[..., Any]:
    """Return ``trn3_check(kernel, *args, golden=, rtol=, atol=)``, which runs and checks a kernel.

    It returns what the kernel returns. A result that misses the golden fails the test, with the
    worst place and the first line that deviates from a run in float64. `golden` is an array, a
    tuple of them, or a function of the same arguments, which are given to it as they were. Of each
    element ``atol + rtol * abs(golden)`` is allowed, as by `numpy.testing.assert_allclose`; without
    both, what the narrowest element type on the way to the result allows.
    """

    def check(
        kernel: Callable[..., Any],
        *args: Any,
        golden: Any,
        rtol: float | None = None,
        atol: float | None = None,
        **kwargs: Any,
    ) -> Any:
        __tracebackhide__ = True
        from trn3.nki import CheckedRun, ResultTolerance

        given = rtol is not None or atol is not None
        tolerance = ResultTolerance.given(rtol, atol) if given else None
        attempt = CheckedRun(kernel, args, kwargs, timing=False)
        result = attempt.run()
        found = attempt.check(attempt.golden(golden), tolerance)
        if found.is_wrong:
            raise AssertionError(str(found))
        return result

    return check
