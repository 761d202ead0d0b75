"""What ``pytest --trn3-budget`` does; `trn3_pytest` loads it when an option asks for it."""

from __future__ import annotations

import dataclasses
import json
import math
import re
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import Any, Final

import pytest

from trn3 import nki
from trn3.files import write_bytes
from trn3.notices import FormatName, Notice, NoticeReport
from trn3.studies.budget.record import Budget, BudgetError, Change, Costs, KernelCost

#: Carries what a test spent to the process that reports, whichever process ran it.
PROPERTY: Final = "trn3_budget"
_GONE: Final = "trn3_budget_gone"
_TEST: Final = pytest.StashKey[str]()
#: What `--trn3-budget-by` may name besides ``line``.
_FIGURES: Final = (
    "instructions", "dma_bytes", "hbm_read_bytes", "hbm_write_bytes", "sbuf_peak_bytes",
    "psum_peak_bytes",
)  # fmt: skip
_ENDINGS: Final[dict[str, FormatName]] = {
    ".json": "json", ".md": "markdown", ".sarif": "sarif", ".xml": "junit",
}  # fmt: skip
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
        self._by = _named(config.getoption("--trn3-budget-by"), self._budget)
        report = config.getoption("--trn3-budget-report")
        self._report = config.invocation_params.dir / report if report else None
        form = config.getoption("--trn3-budget-format")
        self._form: FormatName = form or _ENDINGS.get(Path(report or "").suffix, "text")

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
            cost = KernelCost(1, launched.latency_ps, launched.level, _figures(launched, self._by))
            costs[kernel] = costs[kernel] + cost if kernel in costs else cost

        with nki.observing(note):
            result = yield
        numbers = {kernel: dataclasses.astuple(cost) for kernel, cost in costs.items()}
        test = item.stash.get(_TEST, item.nodeid)
        item.user_properties.append((PROPERTY, {"test": test, "kernels": numbers}))
        slower = self._slower(test, costs)
        if slower and not self._update:
            lines = [
                f"{text}, allowed {self._percent:g} %"
                for change in slower
                for text in self._complaints(change)
            ]
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
        if self._report is not None and not self._is_worker:
            if self._form == "text":
                text = "\n".join(self._lines())
            elif self._form == "json":
                text = json.dumps(self._document(), indent=2, allow_nan=False)
            else:
                text = self._notices().written(self._form)
            write_bytes(self._report, [f"{text}\n".encode()])

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Say what is new, gone, slower and faster."""
        if not self._is_worker:
            terminalreporter.section("trn3 budget")
            for line in self._lines():
                terminalreporter.write_line(line)

    def _groups(self) -> dict[str, list[Change]]:
        """Return what differs, by what it is called."""
        changes = [
            change
            for test, costs in sorted(self._measured.items())
            for change in self._budget.changes(test, costs)
        ]
        known = [each for each in changes if each.old is not None and each.new is not None]
        slower = [each for each in known if self._complaints(each)]
        rest = [each for each in known if each not in slower]
        return {
            f"slower by more than {self._percent:g} %": slower,
            "faster": [each for each in rest if each.percent < 0 and not each.is_of_other_level],
            "at another level of the compiler": [each for each in rest if each.is_of_other_level],
            "new": [each for each in changes if each.old is None],
            "gone": [each for each in changes if each.new is None]
            + [
                Change(test, kernel, cost, None)
                for test in sorted(self._gone)
                for kernel, cost in self._budget.tests.get(test, {}).items()
            ],
        }

    def _lines(self) -> list[str]:
        """Return the report for people."""
        groups = self._groups()
        lines = []
        for title, members in groups.items():
            for change in members:
                texts = self._complaints(change) or [str(change)]
                lines += [f"{title}: {text} ({change.test})" for text in texts]
        count = sum(map(len, self._measured.values()))
        lines.append(f"{count} kernels of {sum(map(bool, self._measured.values()))} tests measured")
        if self._written:
            lines.append(f"wrote {self._shown_path()}")
        elif groups["new"] or groups["gone"]:
            lines.append(f"--trn3-budget-update brings {self._shown_path()} up to date")
        origin = self._budget.origin() if self._budget.tests else []
        named = f"{self._shown_path()} is "
        return lines + [line if number else named + line for number, line in enumerate(origin)]

    def _document(self) -> dict[str, Any]:
        return {
            "format": "trn3-budget-report",
            "version": 1,
            "allowed_percent": self._percent,
            "by": ["latency_ps", *self._by],
            "measured": sum(map(len, self._measured.values())),
            "changes": [
                {
                    "group": title.partition(" by more")[0],
                    **dataclasses.asdict(change),
                    "percent": change.percent if math.isfinite(change.percent) else None,
                    "grown": change.grown(self._percent),
                }
                for title, members in self._groups().items()
                for change in members
            ],
        }

    def _notices(self) -> NoticeReport:
        """Return what got slower as errors, unless an update accepts it, all else as notes."""
        notices = [
            Notice(
                "error" if title.startswith("slower") and not self._update else "note",
                title.partition(" ")[0],
                text,
                _file(change.test),
                about=f"{change.test}: {change.kernel}",
            )
            for title, members in self._groups().items()
            for change in members
            for text in self._complaints(change) or [str(change)]
        ]
        checked = [f"{test}: {name}" for test, of in sorted(self._measured.items()) for name in of]
        return NoticeReport("trn3 budget", tuple(notices), tuple(checked))

    def _complaints(self, change: Change) -> list[str]:
        """Return what of a kernel grew by more than is allowed."""
        if change.old is None or change.new is None:
            return []
        latency = [str(change)] if change.percent > self._percent else []
        return latency + [f"{change.kernel}, {text}" for text in change.grown(self._percent)]

    def _slower(self, test: str, costs: Costs) -> list[Change]:
        return [each for each in self._budget.changes(test, costs) if self._complaints(each)]

    def _shown_path(self) -> str:
        try:
            return str(self.path.relative_to(self._config.invocation_params.dir))
        except ValueError:
            return str(self.path)


def _file(test: str) -> str:
    return test.partition("::")[0]


def _named(text: str | None, budget: Budget) -> tuple[str, ...]:
    """Return what is kept besides latencies: what the option names, else what the file has."""
    known = (*_FIGURES, "line")
    if text is None:
        of = {
            name
            for costs in budget.tests.values()
            for each in costs.values()
            for name in each.figures
        }
        return tuple(name for name in known if name in of or (name == "line" and of - {*known}))
    names = tuple(filter(None, (name.strip() for name in text.split(","))))
    for name in names:
        if name not in known:
            message = f"--trn3-budget-by names {name!r}; allowed: {', '.join(known)}"
            raise pytest.UsageError(message)
    return names


def _figures(launched: nki.Launched, by: Sequence[str]) -> dict[str, int]:
    found: dict[str, int] = {}
    for profile in launched.profiles() if by else ():
        figures = profile.figures()
        for name in by:
            if name != "line":
                value, before = int(figures[name]), found.get(name, 0)
                found[name] = max(value, before) if "_peak_" in name else value + before
        for line in profile.lines() if "line" in by else ():
            name = f"{Path(line.file).name}: {line.text or line.line}"
            found[name] = found.get(name, 0) + round(line.slot_us * 1e6)
    return found


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
