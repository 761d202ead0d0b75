"""The loop of a sweep: keeps workers busy, retries, and writes down what is finished.

Points are drawn from the grid only when there is a place for them, so a long grid takes no memory
before its results do. A point whose worker died is a suspect: **(choice)** suspects run again when
all other points are finished, each alone, so that no other point can be taken for the culprit and
one that ran out of memory has all of it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from trn3.studies.sweep.grid import Grid
from trn3.studies.sweep.journal import Journal
from trn3.studies.sweep.points import WorkerDiedError
from trn3.studies.sweep.progress import Silent
from trn3.studies.sweep.tasks import Event, Finished, PointError, PointOutcome, Task

#: How long to wait for news before progress is shown again, in seconds.
POLL_SECONDS = 0.2
#: How often a task may get lost through no fault of its own before it counts as failed.
MAX_LOSSES = 10


class Workplace(Protocol):
    """Where points run: at most `capacity` are submitted at a time."""

    capacity: int

    def submit(self, task: Task) -> None:
        """Have a task run."""

    def wait(self, seconds: float) -> Sequence[Event]:
        """Return what has become of tasks as soon as there is news, or nothing after a while."""

    def close(self, *, cancel: bool) -> None:
        """End what runs for the sweep; `cancel` if tasks may be in flight."""


@dataclass(slots=True)
class SweepRun:
    """One run of a sweep.

    Attributes
    ----------
    finished
        A place for each point that was drawn, None until it is finished.
    """

    grid: Grid
    workplace: Workplace
    retries: int
    max_crashes: int
    checkpoint: Journal | None
    progress: Silent
    finished: list[Finished | None] = field(default_factory=list)
    done: int = 0
    failed: int = 0
    _again: deque[Task] = field(default_factory=deque)
    _suspects: deque[Task] = field(default_factory=deque)
    _in_flight: int = 0

    def run(self) -> None:
        """Run every point that the checkpoint does not have."""
        with self.progress:
            fresh = self._draw()
            is_exhausted = False
            while True:
                while self._in_flight < self.workplace.capacity:
                    task = self._again.popleft() if self._again else next(fresh, None)
                    if task is None:
                        is_exhausted = True
                        break
                    self._submit(task)
                if self._in_flight == 0:
                    assert is_exhausted
                    if not self._suspects:
                        break
                    self._submit(self._suspects.popleft())
                for event in self.workplace.wait(POLL_SECONDS):
                    self._in_flight -= 1
                    self._take(event)
                self._show()
            self._show()
            if self.checkpoint is not None:
                self.checkpoint.check_end(len(self.finished))

    def _draw(self) -> Iterator[Task]:
        for index, parameters in enumerate(self.grid):
            self.finished.append(None)
            record = self.checkpoint.resumed(index, parameters) if self.checkpoint else None
            if record is None:
                yield Task(index, parameters)
            else:
                self.finished[index] = Finished(record.outcome, record.attempts, is_resumed=True)
                self.done += 1

    def _submit(self, task: Task) -> None:
        task.attempts += 1
        self.workplace.submit(task)
        self._in_flight += 1

    def _take(self, event: Event) -> None:
        task = event.task
        if event.outcome is not None:
            task.failures += event.outcome.error is not None
            if event.outcome.error is not None and task.failures <= self.retries:
                self._again.append(task)
            else:
                self._finish(task, event.outcome)
        elif event.death is not None:
            self._take_death(event)
        else:
            task.attempts -= 1
            task.losses += 1
            if task.losses > MAX_LOSSES:
                self._give_up(task, f"the executor lost the point {task.losses} times")
            else:
                self._again.append(task)

    def _take_death(self, event: Event) -> None:
        task = event.task
        # An executor that runs a point again by itself counts its deaths, but when others were in
        # flight they may be those of another.
        task.crashes += event.crashes if self._in_flight == 0 else 1
        if task.crashes >= self.max_crashes:
            times = "once" if task.crashes == 1 else f"{task.crashes} times"
            message = f"the process that ran the point died {times} ({event.death})"
            self._give_up(task, message)
        else:
            self._suspects.append(task)

    def _give_up(self, task: Task, message: str) -> None:
        error = PointError(WorkerDiedError.__name__, message, "")
        self._finish(task, PointOutcome(None, error, 0.0))

    def _finish(self, task: Task, outcome: PointOutcome) -> None:
        if self.checkpoint is not None:
            self.checkpoint.add(task.index, task.parameters, outcome, task.attempts)
        self.finished[task.index] = Finished(outcome, task.attempts)
        self.done += 1
        self.failed += outcome.error is not None
        self._show()

    def _show(self) -> None:
        self.progress.update(self.done, self.failed, self.grid.size)
