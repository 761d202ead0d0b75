"""What a sweep gives: its points in the order of the grid."""

from __future__ import annotations

import csv
import dataclasses
import io
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from trn3.markup import mimebundle
from trn3.offers import Reported
from trn3.pictures import finished
from trn3.studies.sweep.grid import Grid, Parameters
from trn3.studies.sweep.plots import draw_sweep
from trn3.studies.sweep.tasks import Finished, PointError

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure
    from rich.table import Table

#: Rows of the table that a result prints as; the rest is counted.
SHOWN_ROWS = 20


@dataclass(frozen=True, slots=True, eq=False)
class Point:
    """One point of a sweep.

    Attributes
    ----------
    index
        Its place in the grid, from 0.
    parameters
        The arguments of the call.
    value
        What the function returned; None if the point failed.
    error
        Why it failed; None if it did not.
    seconds
        How long the last call took.
    attempts
        How many calls it took; with `retries` or dead workers more than one.
    is_resumed
        Whether it came out of the checkpoint.
    """

    index: int
    parameters: Parameters
    value: Any
    error: PointError | None
    seconds: float
    attempts: int
    is_resumed: bool

    @property
    def ok(self) -> bool:
        """Whether the point has a value."""
        return self.error is None


class SweepResult(Reported, Sequence[Point]):
    """The points of a sweep, in the order of the grid whatever order they finished in.

    ``result[3]`` is the fourth point, ``result[{"batch": 8, "tokens": 512}]`` the one of these
    parameters, ``result.select(batch=8)`` all that have one; a loop gives every point.

    Attributes
    ----------
    names
        The names of the parameters.
    notes
        What the reader should know, such as a last line of the checkpoint that was cut off.
    """

    def __init__(
        self,
        grid: Grid,
        finished: Sequence[Finished | None],
        notes: Sequence[str] = (),
        indices: Sequence[int] | None = None,
    ) -> None:
        self._grid = grid
        self._finished = finished
        self._indices = (
            [at for at, each in enumerate(finished) if each is not None]
            if indices is None
            else indices
        )
        self.names = grid.names
        self.notes = tuple(notes)

    def __len__(self) -> int:
        return len(self._indices)

    @overload
    def __getitem__(self, key: int) -> Point: ...
    @overload
    def __getitem__(self, key: slice) -> SweepResult: ...
    @overload
    def __getitem__(self, key: Mapping[str, Any]) -> Point: ...
    def __getitem__(self, key: int | slice | Mapping[str, Any]) -> Point | SweepResult:
        if isinstance(key, slice):
            return self._part(self._indices[key])
        if isinstance(key, Mapping):
            found = self.select(**key)
            if len(found) != 1:
                message = (
                    f"{len(found)} points have {dict(key)!r}; result.select gives all that match"
                )
                raise KeyError(message)
            return found[0]
        return self._point(self._indices[key])

    def __iter__(self) -> Iterator[Point]:
        return (self._point(index) for index in self._indices)

    def __repr__(self) -> str:
        failed = sum(1 for _ in self._failures())
        resumed = sum(1 for each in self._each() if each.is_resumed)
        seconds = math.fsum(each.outcome.seconds for each in self._each())
        parts = [
            f"{len(self)} point{'s' * (len(self) != 1)} of {', '.join(self.names) or 'no axes'}"
        ]
        parts += [f"{failed} failed"] * bool(failed) + [f"{resumed} from the checkpoint"] * bool(
            resumed
        )
        return f"<SweepResult: {', '.join(parts)}; {seconds:.3g} s in the function>"

    _repr_mimebundle_ = mimebundle

    def __rich__(self) -> Table:
        from rich.table import Table

        rows = self[:SHOWN_ROWS].to_rows()
        table = Table(title=repr(self)[1:-1], title_justify="left")
        columns = list(rows[0]) if rows else [*self.names, "value"]
        if not any(row.get("error") for row in rows):
            columns = [name for name in columns if name != "error"]
        for name in columns:
            table.add_column(name, justify="left" if name in (*self.names, "error") else "right")
        for row in rows:
            table.add_row(*(_cell(row[name]) for name in columns))
        if len(self) > SHOWN_ROWS:
            table.caption = (
                f"and {len(self) - SHOWN_ROWS} more; to_csv, to_json and to_pandas have all"
            )
        return table

    @property
    def values(self) -> list[Any]:
        """What the function returned for each point, None where it failed."""
        return [each.outcome.value for each in self._each()]

    @property
    def errors(self) -> tuple[Point, ...]:
        """The points that failed."""
        return tuple(self._point(index) for index in self._failures())

    def select(self, **parameters: Any) -> SweepResult:
        """Return the points that have these parameters.

        Raises
        ------
        KeyError
            If the sweep has no parameter of such a name.
        """
        unknown = [name for name in parameters if name not in self.names]
        if unknown:
            message = f"no parameter {', '.join(unknown)}; there are {', '.join(self.names)}"
            raise KeyError(message)
        return self._part(
            [
                index
                for index in self._indices
                if all(
                    name in point and _same(point[name], wanted)
                    for point in [self._grid.point(index)]
                    for name, wanted in parameters.items()
                )
            ]
        )

    def raise_errors(self) -> SweepResult:
        """Raise if a point failed, else return this result.

        Raises
        ------
        SweepError
            With the first failed points, and the traceback of the first one as a note.
        """
        failed = self.errors
        if not failed:
            return self
        shown = [f"  {_call(point.parameters)}: {point.error}" for point in failed[:3]]
        if len(failed) > len(shown):
            shown.append(f"  and {len(failed) - len(shown)} more; result.errors has all")
        error = SweepError(f"{len(failed)} of {len(self)} points failed\n" + "\n".join(shown), self)
        first = failed[0].error
        if first is not None and first.traceback:
            error.add_note(f"The first one:\n{first.traceback}")
        raise error

    def to_rows(self) -> list[dict[str, Any]]:
        """Return a dictionary for each point, all with the same keys.

        They are the parameters, then ``value``, ``error``, ``seconds`` and ``attempts``. Where
        values are dictionaries, dataclasses or named tuples, each of their entries has a column of
        its own in place of ``value``: ``value.NAME``. What a point lacks is None.
        """
        parts = [(point, _spread(point.value) if point.ok else {}) for point in self]
        # In order of first appearance.
        columns = list(dict.fromkeys(name for _, spread in parts for name in spread)) or ["value"]
        rows = []
        for point, spread in parts:
            row = {name: point.parameters.get(name) for name in self.names}
            row.update({_free(name, self.names): spread.get(name) for name in columns})
            row[_free("error", self.names)] = None if point.error is None else str(point.error)
            row[_free("seconds", self.names)] = point.seconds
            row[_free("attempts", self.names)] = point.attempts
            rows.append(row)
        return rows

    @overload
    def plot(self, path: None = None, *, x: str | None = None, y: str | None = None) -> Figure: ...
    @overload
    def plot(
        self, path: str | os.PathLike[str], *, x: str | None = None, y: str | None = None
    ) -> Path: ...
    def plot(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        x: str | None = None,
        y: str | None = None,
    ) -> Path | Figure:
        """Draw a figure of the values over one parameter, a line for each choice of the others.

        Parameters
        ----------
        path
            A ``.png``, ``.svg`` or ``.pdf`` file; without one a figure of matplotlib is returned.
        x
            A parameter; by default the one with most values, numbers first.
        y
            A column of `to_rows` that holds numbers, or an entry of the values; by default
            ``value``, or the first of its entries that is a number. Points without one are left
            out.

        Raises
        ------
        ImportError
            If matplotlib is not installed.
        ValueError
            If there is no such parameter or column, or the file has another ending.
        OSError
            If the file cannot be written.

        Examples
        --------
        >>> import trn3
        >>> figure = trn3.sweep(pow, {"base": [2, 3], "exp": [1, 2, 4]}, workers=0).plot()
        >>> figure.axes[0].get_xlabel(), figure.axes[0].get_ylabel()
        ('exp', 'value')
        """
        return finished(draw_sweep(self.to_rows(), self.names, x, y), path)

    def to_csv(self, path: str | os.PathLike[str] | None = None) -> str:
        """Write the rows as CSV with a heading, if a path is given; return the text.

        The file appears when it is complete.
        """
        rows = self.to_rows()
        columns = list(rows[0]) if rows else [*self.names, "value", "error", "seconds", "attempts"]
        out = io.StringIO()
        writer = csv.DictWriter(out, columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows({name: _text(value) for name, value in row.items()} for row in rows)
        return _write(path, out.getvalue())

    def to_json(self, path: str | os.PathLike[str] | None = None) -> str:
        """Write the points as JSON for other programs, if a path is given; return the text.

        An object with ``names``, ``notes`` and ``points``, of which each has ``parameters``,
        ``value``, ``error``, ``seconds`` and ``attempts``. NumPy arrays are lists, dataclasses and
        named tuples objects, floats that are not finite the texts ``"NaN"``, ``"Infinity"`` and
        ``"-Infinity"``, complex numbers pairs, and what JSON cannot say is its ``repr``. The file
        appears when it is complete.
        """
        import json

        points = [
            {
                "parameters": _plain(point.parameters),
                "value": _plain(point.value),
                "error": None if point.error is None else dataclasses.asdict(point.error),
                "seconds": point.seconds,
                "attempts": point.attempts,
            }
            for point in self
        ]
        document = {"names": self.names, "notes": self.notes, "points": points}
        return _write(path, json.dumps(document, indent=1, allow_nan=False) + "\n")

    def to_pandas(self) -> pd.DataFrame:
        """Return the rows as a pandas data frame (the extra ``dataframe``).

        Raises
        ------
        ImportError
            If pandas is not installed.
        """
        try:
            import pandas as pd
        except ImportError as error:
            message = "to_pandas needs pandas: pip install 'trn3[dataframe]'; to_rows() needs none"
            raise ImportError(message) from error
        return pd.DataFrame(self.to_rows())

    def _each(self) -> Iterator[Finished]:
        for index in self._indices:
            each = self._finished[index]
            assert each is not None
            yield each

    def _failures(self) -> Iterator[int]:
        pairs = zip(self._indices, self._each(), strict=True)
        return (index for index, each in pairs if each.outcome.error is not None)

    def _point(self, index: int) -> Point:
        each = self._finished[index]
        assert each is not None
        value, error, seconds = each.outcome
        parameters = self._grid.point(index)
        return Point(index, parameters, value, error, seconds, each.attempts, each.is_resumed)

    def _part(self, indices: Sequence[int]) -> SweepResult:
        return SweepResult(self._grid, self._finished, self.notes, indices)


class SweepError(RuntimeError):
    """Some points of a sweep failed; `result` has all of them, also those that did not."""

    def __init__(self, message: str, result: SweepResult | None = None) -> None:
        super().__init__(message)
        self.result = result


class BrokenExecutorError(SweepError):
    """The executor given runs nothing any more; `result` has the points that it finished."""


class WorkerStartError(SweepError):
    """The worker processes end before they could run a single point."""


class WorkerDiedError(SweepError):
    """A point killed the process that ran it; as the type of a point's error, its name only."""


def _same(one: Any, other: Any) -> bool:
    if one is other:
        return True
    if isinstance(one, np.ndarray) or isinstance(other, np.ndarray):
        return np.array_equal(one, other)
    return bool(one == other)


def _call(parameters: Parameters) -> str:
    return ", ".join(f"{name}={value!r}" for name, value in parameters.items()) or "no parameters"


def _spread(value: Any) -> dict[str, Any]:
    """Return the columns of a value."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        entries = {each.name: getattr(value, each.name) for each in dataclasses.fields(value)}
    elif isinstance(value, Mapping) and value:
        entries = {str(key): entry for key, entry in value.items()}
    elif isinstance(value, tuple) and hasattr(value, "_asdict"):
        entries = value._asdict()
    else:
        return {"value": value}
    return {f"value.{name}": entry for name, entry in entries.items()}


def _free(name: str, taken: Sequence[str]) -> str:
    """Return a column's name that no parameter has."""
    while name in taken:
        name = f"result.{name}"
    return name


def _plain(value: Any) -> Any:
    if isinstance(value, Enum):
        return value.name
    if isinstance(value, np.generic | np.ndarray):
        kind = value.dtype.kind
        # Extension types (bfloat16, float8...) become the Python floats and integers they are.
        return _plain(value.astype(np.float64).tolist() if kind == "V" else value.tolist())
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        if math.isfinite(value):
            return value
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, complex):
        return [_plain(value.real), _plain(value.imag)]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {each.name: _plain(getattr(value, each.name)) for each in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(key): _plain(entry) for key, entry in value.items()}
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return _plain(value._asdict())
    if isinstance(value, list | tuple):
        return [_plain(entry) for entry in value]
    return repr(value)


def _text(value: Any) -> Any:
    """Return a cell of a CSV file: numbers as they are, structures as JSON."""
    import json

    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool | int | float | str):
        return value
    plain = _plain(value)
    return plain if isinstance(plain, str) else json.dumps(plain)


def _cell(value: Any) -> str:
    from rich.markup import escape

    if isinstance(value, float | np.floating):
        return f"{float(value):.6g}"
    text = "" if value is None else str(value)
    return escape(text if len(text) <= 60 else f"{text[:57]}...")


def _write(path: str | os.PathLike[str] | None, text: str) -> str:
    if path is not None:
        from trn3.files import write_bytes

        write_bytes(path, [text.encode()])
    return text
