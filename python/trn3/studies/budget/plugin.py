"""What ``pytest --trn3-budget`` does; `trn3_pytest` loads it when an option asks for it."""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import Any, Final

import pytest

from trn3 import nki
from trn3.studies.budget.record import Budget, BudgetError, Change, Costs, KernelCost

#: Carries what a test spent to the process that reports, whichever process ran it.
PROPERTY: Final = "trn3_budget"
_GONE: Final = "trn3_budget_gone"
_TEST: Final = pytest.StashKey[str]()
_PERCENT: Final = re.compile(r"\s*([0-9]*\.?[0-9]+)\s*%?\s*")


class BudgetPlugin:
    """One session of pytest.

    Only what a test itself launches counts, not what its fixtures do: which test sets up a shared
    fixture depends on the order of tests (**choice**).

    Parameters
    ----------
    config : pytest.Config

    Raises
    ------
    pytest.UsageError
        If an option, or the file, cannot be read.
    """

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._percent = _percent(config.getoption("--trn3-budget"))
        self._update = bool(config.getoption("--trn3-budget-update"))
        given = config.getoption("--trn3-budget-file")
        home = config.invocation_params.dir if given else config.rootpath
        self.path = home / (given or "trn3-budget.json")
        # Workers of pytest-xdist only measure and judge; the process that started them reports.
        self._is_worker = hasattr(config, "workerinput")
        self._measured: dict[str, dict[str, KernelCost]] = {}
        self._gone: set[str] = set()
        self._written = False
        try:
            self._budget = Budget.load(self.path)
        except (BudgetError, OSError) as error:
            raise pytest.UsageError(str(error)) from error

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, items: Sequence[pytest.Item]) -> None:
        """Note which tests of the file do not exist any more, before any are deselected."""
        for item in items:
            # Groups of pytest-xdist change the names of tests later.
            item.stash[_TEST] = item.nodeid
        collected = {item.nodeid for item in items}
        files = {_file(test) for test in collected}
        chosen = {_file(argument) for argument in self._config.args if "::" in argument}
        partly = {
            file for file in files if any(Path(each).name == Path(file).name for each in chosen)
        }
        if self._config.getoption("lf", default=False):
            # Only part of each file is collected.
            partly = files
        self._gone = {
            test
            for test in self._budget.tests
            if test not in collected
            and (
                _file(test) in files - partly or not (self._config.rootpath / _file(test)).exists()
            )
        }

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, Any, Any]:
        """Measure a test, and fail it if it passed but got slower than allowed."""
        costs: dict[str, KernelCost] = {}

        def note(launched: nki.Launched) -> None:
            kernel = f"{launched.kernel} on {launched.arch}"
            if launched.ranks > 1:
                kernel += f", {launched.ranks} ranks"
            cost = KernelCost(1, launched.latency_ps, launched.level)
            costs[kernel] = costs[kernel] + cost if kernel in costs else cost

        with nki.observing(note):
            result = yield
        numbers = {kernel: dataclasses.astuple(cost) for kernel, cost in costs.items()}
        test = item.stash.get(_TEST, item.nodeid)
        item.user_properties.append((PROPERTY, {"test": test, "kernels": numbers}))
        slower = self._slower(test, costs)
        if slower and not self._update:
            lines = [f"{change}, allowed {self._percent:g} %" for change in slower]
            hint = f"({self._shown_path()}; --trn3-budget-update accepts it)"
            if any(change.is_of_other_level for change in slower):
                lines.append("compile=, or the variable TRN3_COMPILE, chooses the compiler's level")
            pytest.fail("\n".join(["trn3 budget:", *lines, hint]), pytrace=False)
        return result

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Take what a test spent, from this process or from a worker."""
        if report.when == "call" and not self._is_worker:
            for name, spent in report.user_properties:
                if name == PROPERTY and isinstance(spent, dict):
                    self._measured[str(spent["test"])] = {
                        kernel: KernelCost(*cost) for kernel, cost in spent["kernels"].items()
                    }

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Take what a worker of pytest-xdist knows of the tests that there are."""
        self._gone |= set(getattr(node, "workeroutput", {}).get(_GONE, ()))

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Write the file, if an option asks for it."""
        if self._is_worker:
            session.config.workeroutput[_GONE] = sorted(self._gone)  # type: ignore[attr-defined]
        elif self._update:
            self._budget.merged(self._measured, frozenset(self._gone)).save(self.path)
            self._written = True

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Say what is new, gone, slower and faster."""
        if self._is_worker:
            return
        changes = [
            change
            for test, costs in sorted(self._measured.items())
            for change in self._budget.changes(test, costs)
        ]
        known = [each for each in changes if each.old is not None and each.new is not None]
        groups: dict[str, list[Change]] = {
            f"slower by more than {self._percent:g} %": [
                each for each in known if each.percent > self._percent
            ],
            "faster": [each for each in known if each.percent < 0 and not each.is_of_other_level],
            "at another level of the compiler": [
                each for each in known if each.is_of_other_level and each.percent <= self._percent
            ],
            "new": [each for each in changes if each.old is None],
            "gone": [each for each in changes if each.new is None]
            + [
                Change(test, kernel, cost, None)
                for test in sorted(self._gone)
                for kernel, cost in self._budget.tests.get(test, {}).items()
            ],
        }
        write = terminalreporter.write_line
        terminalreporter.section("trn3 budget")
        for title, members in groups.items():
            for change in members:
                write(f"{title}: {change} ({change.test})")
        count = sum(map(len, self._measured.values()))
        write(f"{count} kernels of {sum(map(bool, self._measured.values()))} tests measured")
        if self._written:
            write(f"wrote {self._shown_path()}")
        elif groups["new"] or groups["gone"]:
            write(f"--trn3-budget-update brings {self._shown_path()} up to date")
        origin = self._budget.origin() if self._budget.tests else []
        for number, line in enumerate(origin):
            write(line if number else f"{self._shown_path()} is {line}")

    def _slower(self, test: str, costs: Costs) -> list[Change]:
        return [
            change
            for change in self._budget.changes(test, costs)
            if change.old is not None and change.new is not None and change.percent > self._percent
        ]

    def _shown_path(self) -> str:
        try:
            return str(self.path.relative_to(self._config.invocation_params.dir))
        except ValueError:
            return str(self.path)


def _file(test: str) -> str:
    return test.partition("::")[0]


def _percent(text: str | None) -> float:
    """Return what ``--trn3-budget`` allows."""
    if text is None:
        return 5.0
    found = _PERCENT.fullmatch(text)
    value = float(found[1]) if found else math.nan
    if not math.isfinite(value):
        message = (
            f"--trn3-budget is {text!r}; allowed: a percentage, as --trn3-budget=5%, or nothing, "
            "where no path follows"
        )
        raise pytest.UsageError(message)
    return value
