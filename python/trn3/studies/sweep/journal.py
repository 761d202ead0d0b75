"""Finished points on disk, one line each, so that a sweep that was stopped goes on from there.

The file is JSON lines, ``{"crc32":"8 hex digits","record":{...}}``; the checksum is that of the
record's bytes. The first record names the function and the grid. Each further one is a point: its
index, a digest of its parameters, the parameters, value or error, seconds, attempts. A later record
of a point replaces an earlier one. Values are plain JSON (`trn3.studies.sweep.values`): reading a file
that came from elsewhere runs no code. The checksum finds accidents, not forgery.

**(choice)** A record is written by one unbuffered write, so it survives the death of the process;
it is forced to the disk (fsync) when a second has gone by since the last time, and at the end.
After a power failure the points of the last second may run again.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import time
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from trn3.studies.sweep.errors import SweepCheckpointError
from trn3.studies.sweep.grid import Parameters
from trn3.studies.sweep.tasks import Outcome, PointError
from trn3.studies.sweep.values import Json, UnsupportedValueError, ValueCodec, json_text

FORMAT = "trn3.sweep"
FORMAT_VERSION = 1
SYNC_SECONDS = 1.0
_BEFORE_SUM, _BEFORE_RECORD, _AFTER_RECORD = b'{"crc32":"', b'","record":', b"}\n"


class Record(NamedTuple):
    """A point as the file has it."""

    digest: str
    outcome: Outcome
    attempts: int
    line: int


class Checkpoint:
    """An open checkpoint: what it had, and a place to add to.

    Parameters
    ----------
    path
        The file; made if it is not there.
    header
        What tells one sweep from another.
    codec
        How values are stored.

    Raises
    ------
    SweepCheckpointError
        If the file is damaged, of another sweep, or in use.
    OSError
        If it cannot be opened.
    """

    def __init__(
        self, path: str | os.PathLike[str], header: Mapping[str, Json], codec: ValueCodec
    ) -> None:
        self.path = Path(path)
        self.notes: list[str] = []
        self.records: dict[int, Record] = {}
        self._codec = codec
        self._file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o666)
        try:
            self._lock()
            self._end = self._read(header)
            if self._end == 0:
                self._append({"format": FORMAT, "format_version": FORMAT_VERSION, **header})
                os.fsync(self._file)
        except BaseException:
            os.close(self._file)
            raise
        self._synced = time.monotonic()

    def digest(self, parameters: Parameters) -> str:
        """Return what tells one point's parameters from another's."""
        return digest_of(self._codec, parameters)

    def add(self, index: int, parameters: Parameters, outcome: Outcome, attempts: int) -> None:
        """Write a finished point.

        Raises
        ------
        SweepCheckpointError
            If the value cannot be stored; it says what in it.
        OSError
            If the file cannot be written; what it had stays whole.
        """
        record: dict[str, Json] = {
            "point": index,
            "digest": self.digest(parameters),
            "parameters": self._codec.encode(parameters, "the point"),
            "attempts": attempts,
            "seconds": outcome.seconds,
        }
        error = outcome.error
        if error is not None:
            record["error"] = {
                "type": error.type,
                "message": error.message,
                "traceback": error.traceback,
            }
        else:
            try:
                record["value"] = self._codec.encode(outcome.value, f"the value of point {index}")
            except UnsupportedValueError as refusal:
                raise SweepCheckpointError(f"checkpoint {self.path}: {refusal}") from None
        self._append(record)
        if time.monotonic() - self._synced >= SYNC_SECONDS:
            os.fsync(self._file)
            self._synced = time.monotonic()

    def close(self) -> None:
        """Force everything to the disk and let go of the file."""
        if self._file >= 0:
            file, self._file = self._file, -1
            try:
                os.fsync(file)
            finally:
                os.close(file)

    def _lock(self) -> None:
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            message = (
                f"checkpoint {self.path} is in use by another sweep; wait for it or give "
                "another path"
            )
            raise SweepCheckpointError(message) from None

    def _append(self, record: Mapping[str, Json]) -> None:
        text = json_text(dict(record)).encode("ascii")
        line = b"%b%08x%b%b%b" % (
            _BEFORE_SUM,
            zlib.crc32(text),
            _BEFORE_RECORD,
            text,
            _AFTER_RECORD,
        )
        try:
            written = 0
            while written < len(line):
                written += os.write(self._file, line[written:])
        except BaseException:
            # Not even a full disk leaves half a line in the middle of the file.
            os.ftruncate(self._file, self._end)
            raise
        self._end += len(line)

    def _read(self, header: Mapping[str, Json]) -> int:
        """Read what is there; return where its last whole line ends, and cut off what follows."""
        end = 0
        with self.path.open("rb") as file:
            for number, line in enumerate(file, start=1):
                if not line.endswith(b"\n"):
                    if number == 1 and not line.startswith(_BEFORE_SUM[: len(line)]):
                        raise self._damaged(1, "it does not begin as a checkpoint does")
                    self.notes.append(
                        f"checkpoint {self.path}: line {number} is cut off, as when a sweep is "
                        "killed while it writes; its point runs again"
                    )
                    break
                record = self._parse(number, line)
                if number == 1:
                    self._check_header(record, header)
                else:
                    self._take(number, record)
                end += len(line)
        os.ftruncate(self._file, end)
        return end

    def _parse(self, number: int, line: bytes) -> Mapping[str, Any]:
        start = len(_BEFORE_SUM) + 8 + len(_BEFORE_RECORD)
        text = line[start : -len(_AFTER_RECORD)]
        frame = line[: len(_BEFORE_SUM)], line[start - len(_BEFORE_RECORD) : start]
        if frame != (_BEFORE_SUM, _BEFORE_RECORD) or not line.endswith(_AFTER_RECORD):
            raise self._damaged(number, "it is no record of a checkpoint")
        if b"%08x" % zlib.crc32(text) != line[len(_BEFORE_SUM) : start - len(_BEFORE_RECORD)]:
            raise self._damaged(number, "its checksum does not match")
        try:
            record = json.loads(text)
        except ValueError as error:
            raise self._damaged(number, f"it is no JSON ({error})") from None
        if not isinstance(record, dict):
            raise self._damaged(number, "its record is no object")
        return record

    def _check_header(self, found: Mapping[str, Any], expected: Mapping[str, Json]) -> None:
        if found.get("format") != FORMAT:
            raise self._damaged(1, "it does not name the format")
        if found.get("format_version") != FORMAT_VERSION:
            message = (
                f"checkpoint {self.path} is of format version {found.get('format_version')}; this "
                f"trn3 reads version {FORMAT_VERSION}"
            )
            raise SweepCheckpointError(message)
        for key, value in expected.items():
            if found.get(key) != value:
                raise self.mismatch(_difference(key, found.get(key), value))

    def _take(self, number: int, record: Mapping[str, Any]) -> None:
        try:
            index = record["point"]
            error = record.get("error")
            if not isinstance(index, int) or index < 0:
                message = f"point is {index!r}"
                raise ValueError(message)
            outcome = Outcome(
                None if error else self._codec.decode(record["value"]),
                PointError(**error) if error else None,
                float(record["seconds"]),
            )
            taken = Record(str(record["digest"]), outcome, int(record["attempts"]), number)
        except (KeyError, TypeError, ValueError, RecursionError) as problem:
            text = f"no {problem}" if isinstance(problem, KeyError) else str(problem)
            raise self._damaged(number, f"its record cannot be read: {text}") from problem
        self.records[index] = taken

    def mismatch(self, difference: str) -> SweepCheckpointError:
        """Return the error for a checkpoint of another sweep."""
        message = (
            f"checkpoint {self.path} is of another sweep: {difference}. Give another path, or "
            "delete the file to start anew"
        )
        return SweepCheckpointError(message)

    def _damaged(self, number: int, reason: str) -> SweepCheckpointError:
        message = (
            f"checkpoint {self.path}, line {number}: {reason}. Give another path, or delete the "
            f"lines from {number} on to run their points again"
        )
        return SweepCheckpointError(message)

    def resumed(self, index: int, parameters: Parameters) -> Record | None:
        """Return the record of a point, if it has a value, having checked that it is of this point.

        Raises
        ------
        SweepCheckpointError
            If the record is of other parameters.
        """
        record = self.records.get(index)
        if record is None:
            return None
        if record.digest != self.digest(parameters):
            raise self.mismatch(f"point {index} has other parameters (line {record.line})")
        return record if record.outcome.error is None else None

    def check_end(self, count: int) -> None:
        """Refuse records of points beyond the last one of the grid."""
        beyond = [index for index in self.records if index >= count]
        if beyond:
            raise self.mismatch(f"it has point {min(beyond)}, the grid has {count} points only")


def digest_of(codec: ValueCodec, parameters: Parameters) -> str:
    """Return the digest of one point's parameters; the order of their names does not matter."""
    try:
        plain = {
            name: codec.encode(parameters[name], f"parameter {name!r}")
            for name in sorted(parameters)
        }
    except UnsupportedValueError as error:
        message = f"with a checkpoint every parameter must be storable: {error}"
        raise SweepCheckpointError(message) from None
    return hashlib.sha256(json_text(dict(plain)).encode("ascii")).hexdigest()[:32]


def digest_of_all(codec: ValueCodec, axis: str, values: Iterator[Any]) -> str:
    """Return the digest of an axis's values, in their order."""
    total = hashlib.sha256()
    for value in values:
        try:
            plain = codec.encode(value, f"a value of axis {axis!r}")
        except UnsupportedValueError as error:
            message = f"with a checkpoint every parameter must be storable: {error}"
            raise SweepCheckpointError(message) from None
        total.update(json_text(plain).encode("ascii") + b"\n")
    return total.hexdigest()[:32]


def _difference(key: str, found: Any, expected: Any) -> str:
    if key == "axes" and isinstance(found, dict) and isinstance(expected, dict):
        if list(found) != list(expected):
            return f"its axes are {', '.join(found)}; now they are {', '.join(expected)}"
        changed = [name for name in expected if found[name] != expected[name]]
        return f"the values of {', '.join(changed)} differ"
    return f"its {key} is {found!r}; now it is {expected!r}"
