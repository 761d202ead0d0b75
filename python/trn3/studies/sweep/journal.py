"""Finished points on disk, in an SQLite database, so that a sweep that was stopped goes on.

One table of JSON records. That of point -1 names the function and the grid; each other one is a
finished point: a digest of its parameters, the parameters, value or error, seconds and attempts. A
record has a checksum, which finds accidents, not forgery. Values are plain JSON
(`trn3.studies.sweep.values`), and a database with any other schema is refused: reading a file that
came from elsewhere runs no code.

**(choice)** A point is one transaction of SQLite's write-ahead log, so it survives the death of the
process; it is forced to the disk when a second has gone by since the last time, and at the end.
After a power failure the points of the last second may run again.
"""

from __future__ import annotations

import dataclasses
import errno
import json
import os
import sqlite3
import stat
import time
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from trn3.studies.sweep.grid import Parameters
from trn3.studies.sweep.identity import SweepCheckpointError, digest_of
from trn3.studies.sweep.tasks import PointError, PointOutcome
from trn3.studies.sweep.values import Json, UnsupportedValueError, ValueCodec, json_text

#: The ``application_id`` of a checkpoint's database: the letters trn3.
APPLICATION = 0x74726E33
FORMAT_VERSION = 2
#: How files of format version 1 begin, lines of JSON that trn3 0.1.0 wrote.
_VERSION_1 = b'{"crc32":"'
SYNC_SECONDS = 1.0
SCHEMA = "CREATE TABLE records (point INTEGER PRIMARY KEY, record TEXT, crc32 INTEGER)"
HEADER = -1


class Record(NamedTuple):
    """A point as the file has it."""

    digest: str
    outcome: PointOutcome
    attempts: int


class Journal:
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
        If the file is damaged, of another sweep, of another version, or in use.
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
        self._synced = time.monotonic()
        self._has_header = False
        self._refuse_devices()
        was_killed = Path(f"{self.path}-wal").exists()
        with self._told():
            self._database = sqlite3.connect(
                os.path.abspath(self.path),  # noqa: PTH100  ":memory:" is a file's name too
                timeout=0,
                isolation_level=None,
            )
        try:
            with self._told():
                self._open(dict(header))
        except BaseException:
            self._database.close()
            raise
        if was_killed:
            self.notes.append(
                f"checkpoint {self.path}: the last sweep was cut off, as when it is killed; its "
                f"{len(self.records)} finished points are here, those that it ran then run again"
            )

    def add(self, index: int, parameters: Parameters, outcome: PointOutcome, attempts: int) -> None:
        """Write a finished point.

        Raises
        ------
        SweepCheckpointError
            If the value cannot be stored; it says what in it.
        OSError
            If the file cannot be written; what it had stays whole.
        """
        record: dict[str, Json] = {
            "digest": digest_of(self._codec, parameters),
            "parameters": self._codec.encode(parameters, "the point"),
            "attempts": attempts,
            "seconds": outcome.seconds,
        }
        if outcome.error is not None:
            record["error"] = dataclasses.asdict(outcome.error)
        else:
            try:
                record["value"] = self._codec.encode(outcome.value, f"the value of point {index}")
            except UnsupportedValueError as refusal:
                raise SweepCheckpointError(f"checkpoint {self.path}: {refusal}") from None
        with self._told():
            self._write(index, record)
            if time.monotonic() - self._synced >= SYNC_SECONDS:
                self._ask("PRAGMA wal_checkpoint(PASSIVE)")
                self._synced = time.monotonic()

    def close(self) -> None:
        """Force everything to the disk, into the one file, and let go of it."""
        try:
            with self._told():
                self._database.execute("PRAGMA journal_mode = DELETE").fetchall()
        finally:
            self._database.close()

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
        if record.digest != digest_of(self._codec, parameters):
            raise self._mismatch(f"point {index} has other parameters")
        return record if record.outcome.error is None else None

    def check_end(self, count: int) -> None:
        """Refuse records of points beyond the last one of the grid."""
        beyond = [index for index in self.records if index >= count]
        if beyond:
            raise self._mismatch(f"it has point {min(beyond)}, the grid has {count} points only")

    def _refuse_devices(self) -> None:
        try:
            mode = os.stat(self.path).st_mode  # noqa: PTH116  opening it would wait at a pipe
        except FileNotFoundError:
            return
        if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
            raise SweepCheckpointError(f"checkpoint {self.path} is no regular file")

    def _open(self, header: dict[str, Json]) -> None:
        ask = self._ask
        # A file from elsewhere may try to run functions from its schema, or be damaged on purpose.
        for pragma in ("trusted_schema = OFF", "cell_size_check = ON", "locking_mode = EXCLUSIVE"):
            ask(f"PRAGMA {pragma}")
        ask("PRAGMA synchronous = NORMAL")
        ask("BEGIN EXCLUSIVE")
        if self.path.stat().st_size == 0 and not ask("SELECT * FROM sqlite_master"):
            ask(f"PRAGMA application_id = {APPLICATION}")
            ask(f"PRAGMA user_version = {FORMAT_VERSION}")
            ask(SCHEMA)
            self._write(HEADER, header)
        else:
            self._check_format()
            for row in self._database.execute("SELECT * FROM records ORDER BY point"):
                self._take(*row, header=header)
            if not self._has_header:
                raise self._damaged("it does not name its sweep")
        ask("COMMIT")
        ask("PRAGMA journal_mode = WAL")

    def _ask(self, statement: str, *values: str | int) -> list[Any]:
        return self._database.execute(statement, values).fetchall()

    def _write(self, point: int, record: Mapping[str, Json]) -> None:
        text = json_text(dict(record))
        checksum = zlib.crc32(f"{point} {text}".encode("ascii"))
        self._ask("INSERT OR REPLACE INTO records VALUES (?, ?, ?)", point, text, checksum)

    def _check_format(self) -> None:
        ((application,),) = self._ask("PRAGMA application_id")
        ((version,),) = self._ask("PRAGMA user_version")
        if application != APPLICATION:
            raise self._damaged("it is a database of something else")
        if version != FORMAT_VERSION:
            raise self._other_version(version)
        ((health,),) = self._ask("PRAGMA integrity_check(1)")
        if health != "ok":
            raise self._damaged(" ".join(str(health).split()))
        if self._ask("SELECT sql FROM sqlite_master") != [(SCHEMA,)]:
            raise self._damaged("its tables are not those of a checkpoint")

    def _take(self, point: int, text: object, checksum: int, *, header: dict[str, Json]) -> None:
        name = "its header" if point == HEADER else f"point {point}"
        try:
            if zlib.crc32(f"{point} {text}".encode()) != checksum:
                raise ValueError("its checksum does not match")
            record = json.loads(str(text))
            if point == HEADER:
                for key, value in header.items():
                    if record[key] != value:
                        raise self._mismatch(_difference(key, record[key], value))
                self._has_header = True
                return
            error = record.get("error")
            outcome = PointOutcome(
                None if error else self._codec.decode(record["value"]),
                PointError(**error) if error else None,
                float(record["seconds"]),
            )
            taken = Record(str(record["digest"]), outcome, int(record["attempts"]))
        except SweepCheckpointError:
            raise
        except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as problem:
            reason = f"it has no {problem}" if isinstance(problem, KeyError) else str(problem)
            raise self._damaged(f"{name} cannot be read: {reason}") from problem
        self.records[point] = taken

    @contextmanager
    def _told(self) -> Iterator[None]:
        """Say what SQLite's errors mean."""
        try:
            yield
        except sqlite3.Error as error:
            code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
            if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
                message = (
                    f"checkpoint {self.path} is in use by another sweep; wait for it or give "
                    "another path"
                )
                raise SweepCheckpointError(message) from None
            if code == sqlite3.SQLITE_NOTADB:
                raise self._no_database() from None
            if code in _SYSTEM_ERRORS:
                # The system says more than SQLite does, if it refuses the file itself.
                os.close(os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666))
                number = _SYSTEM_ERRORS[code]
                raise OSError(number, f"{os.strerror(number)} ({error})", str(self.path)) from None
            if code == sqlite3.SQLITE_TOOBIG:
                message = f"checkpoint {self.path}: a value is longer than it can hold ({error})"
                raise SweepCheckpointError(message) from None
            raise self._damaged(str(error)) from error

    def _no_database(self) -> SweepCheckpointError:
        with self.path.open("rb") as file:
            head = file.read(len(_VERSION_1))
        return self._other_version(1) if head == _VERSION_1 else self._damaged("it is none")

    def _other_version(self, version: int) -> SweepCheckpointError:
        writer = " (trn3 0.1.0)" if version == 1 else ""
        message = (
            f"checkpoint {self.path} is of format version {version}{writer}; this trn3 reads "
            f"version {FORMAT_VERSION}. Give another path, or go on with the trn3 that wrote it"
        )
        return SweepCheckpointError(message)

    def _mismatch(self, difference: str) -> SweepCheckpointError:
        message = (
            f"checkpoint {self.path} is of another sweep: {difference}. Give another path, or "
            "delete the file to start anew"
        )
        return SweepCheckpointError(message)

    def _damaged(self, reason: str) -> SweepCheckpointError:
        message = (
            f"checkpoint {self.path} cannot be used: {reason}. Give another path, or delete the "
            "file to start anew"
        )
        return SweepCheckpointError(message)


#: What SQLite calls errors of the system.
_SYSTEM_ERRORS = {
    sqlite3.SQLITE_FULL: errno.ENOSPC,
    sqlite3.SQLITE_IOERR: errno.EIO,
    sqlite3.SQLITE_CANTOPEN: errno.EIO,
    sqlite3.SQLITE_READONLY: errno.EROFS,
    sqlite3.SQLITE_PERM: errno.EACCES,
}


def _difference(key: str, found: Any, expected: Any) -> str:
    if key == "axes" and isinstance(found, dict) and isinstance(expected, dict):
        if list(found) != list(expected):
            return f"its axes are {', '.join(found)}; now they are {', '.join(expected)}"
        changed = [name for name in expected if found[name] != expected[name]]
        return f"the values of {', '.join(changed)} differ"
    return f"its {key} is {found!r}; now it is {expected!r}"
