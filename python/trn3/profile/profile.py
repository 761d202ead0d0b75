"""What a run of a kernel cost, and why: figures, and the doors to files and pictures."""

from __future__ import annotations

import linecache
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, overload

from trn3 import offers
from trn3._trn3 import profile as _profile
from trn3.files import parse_json, read_bytes, write_bytes, write_files
from trn3.markup import mimebundle
from trn3.profile import parquet, plots
from trn3.profile.data import ProfileData
from trn3.profile.figures import FORMAT, FORMAT_VERSION, RunFigures
from trn3.profile.summary import core_table, summary

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from rich.console import RenderableType


class Profile(RunFigures):
    """What one run of a kernel on one NeuronCore cost, and why.

    Times run from the start of the busy window, which `latency_us` measures; what starting and
    ending a kernel costs is apart from it, in `overhead_us`.

    Parameters
    ----------
    data
        What the machine recorded.

    Examples
    --------
    A kernel of one matmul, 1 us long, in an array of 128 x 128 at 1 GHz:

    >>> from trn3.profile import Profile, ProfileData
    >>> zero = [0]
    >>> data = ProfileData.from_dict({
    ...     "arch": {"name": "toy", "generation": 4, "tensor_clock_mhz": 1000, "partitions": 128,
    ...              "hbm_gbps": 100, "dma_engines": 16, "dma_engine_bytes_per_ns": 10,
    ...              "sbuf_partition_bytes": 262144, "psum_partition_bytes": 16384},
    ...     "kernel": "toy", "latency_ps": 1_000_000, "overhead_ps": 0, "opcodes": ["nc_matmul"],
    ...     "labels": [""], "sites": [("toy.py", 3, "toy")], "findings": [],
    ...     "instructions": {
    ...         "opcode": zero, "engine": zero, "queue": zero, "site": zero, "label": zero,
    ...         "start_ps": zero, "slot_end_ps": [500_000], "end_ps": [1_000_000],
    ...         "wait_ps": zero, "cause": zero, "waited_on": [0xFFFF_FFFF], "dma_bytes": zero,
    ...         "hbm_read": zero, "hbm_write": zero, "macs": [128 * 128 * 250],
    ...         "peak_macs_per_cycle": [128 * 128]},
    ...     "transfers": {name: [] for name in
    ...         ("instruction", "dma_engine", "start_ps", "end_ps", "bytes")},
    ...     "occupancy": {"time_ps": [], "sbuf_bytes": [], "psum_bytes": [],
    ...         "sbuf_peak_bytes": 0, "psum_peak_bytes": 0},
    ...     "critical": zero,
    ... })
    >>> profile = Profile(data)
    >>> profile.latency_us, profile.busy("tensor"), profile.mfu
    (1.0, Busy(us=0.5, share=0.5), 0.25)
    """

    _repr_mimebundle_ = mimebundle

    def __rich__(self) -> RenderableType:
        return self.summary()

    def summary(self) -> RenderableType:
        """Return a table for people, which fits 100 columns: ``rich.print(profile.summary())``."""
        return summary(self)

    def to_json(self, path: str | os.PathLike[str]) -> None:
        """Write `to_dict` as JSON; the file appears when it is complete.

        Raises
        ------
        OSError
            If the file cannot be written.
        """
        write_bytes(path, [self._run.to_json()])

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Self:
        """Return the profile that `to_dict` gave; its figures are formed anew from the data.

        Raises
        ------
        TypeError, ValueError
            If it is no such document, or its parts contradict each other.
        """
        found = (document.get("format"), document.get("version"))
        if found != (FORMAT, FORMAT_VERSION):
            message = (
                f"format {found[0]!r}, version {found[1]!r}; this version of trn3 reads "
                f"{FORMAT!r}, version {FORMAT_VERSION}"
            )
            raise ValueError(message)
        if "cores" in document:
            return from_cores(document["cores"])  # type: ignore[return-value]
        return cls(ProfileData.from_dict(document.get("data", {})))

    @classmethod
    def from_json(cls, path: str | os.PathLike[str]) -> Self:
        """Read the profile that `to_json` wrote.

        Raises
        ------
        OSError
            If the file cannot be read.
        ValueError
            If it holds no profile; the message names the file.
        """
        document = parse_json(read_bytes(path, "profile"), path, wrong="no profile")
        try:
            if not isinstance(document, dict):
                message = f"a JSON {type(document).__name__}, must be an object"
                raise TypeError(message)
            return cls.from_dict(document)
        except (TypeError, ValueError, RecursionError) as error:
            message = f"{os.fspath(path)}: no profile: {error}"
            raise ValueError(message) from error

    def to_perfetto(self, path: str | os.PathLike[str]) -> None:
        """Write a native Perfetto trace, for the Perfetto UI; the file appears when complete.

        Each core is a process of the trace.

        Raises
        ------
        OSError
            If the file cannot be written.
        """
        write_bytes(path, [self._run.to_perfetto()])

    def to_parquet(self, directory: str | os.PathLike[str]) -> list[Path]:
        """Write `tables` as Neuron Explorer's files of Parquet, each named after its table.

        Every field of their documented schema is there; what a simulator cannot know is null. Each
        table has a file, be it empty. Instructions and packets of several cores are counted on, so
        that ids are unique; ``pcore_idx`` says which core a row is of.

        Parameters
        ----------
        directory : path
            Where the files go; those of another run are replaced.

        Returns
        -------
        list of Path
            The files: all of them, or an error and none.

        Raises
        ------
        ImportError
            If pyarrow is not installed.
        OSError
            If a file cannot be written, or there is no such directory.
        """
        directory = _existing(directory)
        todo = parquet.writers(self.tables(), directory)
        write_files(todo)
        return list(todo)

    def to_html(self, path: str | os.PathLike[str] | None = None) -> str:
        """Return the report: one page without network that shows what happened and what it cost.

        Parameters
        ----------
        path : path, optional
            Where to write it too, as UTF-8; the file appears when it is complete.

        Raises
        ------
        OSError
            If the file cannot be written.
        """
        html: str = offers.take("report of profiles")([self])
        if path is not None:
            write_bytes(path, [html.encode()])
        return html

    def _pictures(self, path: Path) -> dict[Path, plots.Draw]:
        return plots.writers(self, path)

    @overload
    def plot(self, path: None = None) -> Figure: ...
    @overload
    def plot(self, path: str | os.PathLike[str]) -> list[Path]: ...
    def plot(self, path: str | os.PathLike[str] | None = None) -> list[Path] | Figure:
        """Draw the timeline and the roofline, and return the files written.

        Parameters
        ----------
        path
            Without one nothing is written, and a figure of matplotlib is returned.
            A directory, for ``timeline.png`` and ``roofline.png`` in it; or a file ending in .png,
            .svg or .pdf, for both in one picture. Of several cores each has pictures of its own:
            ``timeline_core0.png`` and so on; a file's name gets ``_core0`` before its ending.

        Raises
        ------
        ImportError
            If matplotlib is not installed.
        ValueError
            If the file has another ending.
        OSError
            If a file cannot be written; none has appeared then.
        """
        if path is None:
            return plots.figure_of(self.cores)
        todo = self._pictures(Path(path))
        write_files(todo)
        return list(todo)

    def save(self, directory: str | os.PathLike[str]) -> list[Path]:
        """Write report.html, profile.json, trace.perfetto and two pictures into a directory.

        The pictures are timeline.png and roofline.png; of several cores, they are as in `plot`.
        Where matplotlib is not installed they are left out, and a line on the standard error says
        so. ``trn3 report`` writes the report anew from profile.json.

        Returns
        -------
        list of Path
            The files: all of them, or an error and none.

        Raises
        ------
        OSError
            If a file cannot be written, or there is no such directory.
        """
        directory = _existing(directory)
        pictures: dict[Path, plots.Draw] = {}
        try:
            pictures = self._pictures(directory)
        except ImportError as missing:
            sys.stderr.write(f"timeline.png and roofline.png are left out: {missing}\n")
        todo = {
            directory / "report.html": lambda file: file.write_bytes(self.to_html().encode()),
            directory / "trace.perfetto": lambda file: file.write_bytes(self._run.to_perfetto()),
            directory / "profile.json": lambda file: file.write_bytes(self._run.to_json()),
            **pictures,
        }
        write_files(todo)
        return list(todo)


class LogicalProfile(Profile):
    """What one run on several NeuronCores cost, and why.

    All cores start at time 0; the latency is that of the core that ends last, whose critical path
    and `data` these are. Counts (instructions, bytes, FLOP) are sums over the cores, utilisations
    are of all cores together, and **(choice)** an engine's times are means over the cores, so that
    they stay comparable with the latency.

    Parameters
    ----------
    cores
        The profile of each core, in order of their numbers.
    """

    _cores: tuple[Profile, ...]

    def __new__(cls, cores: Sequence[Profile]) -> Self:
        """Form the joint figures of the cores."""
        made = cls.of_run(_profile.Profile.joint([core._run for core in cores]))
        made._cores = tuple(cores)
        return made

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._cores,)

    def __repr__(self) -> str:
        return (
            f"<Profile of {self._run.kernel} on {len(self._cores)} cores: "
            f"{self.latency_us:.3f} us, {self._run.instructions} instructions>"
        )

    @property
    def data(self) -> ProfileData:
        """What the core that ends last recorded."""
        return self._cores[self._run.last].data

    @property
    def cores(self) -> tuple[Profile, ...]:  # type: ignore[override]
        """The profile of each core."""
        return self._cores

    def summary(self) -> RenderableType:
        """Return a table for people: all cores together, then what tells them apart."""
        from rich.console import Group
        from rich.text import Text

        return Group(super().summary(), Text(), core_table(self._cores))

    def to_dict(self) -> dict[str, Any]:
        """Return figures and raw data of all cores, ready for JSON."""
        return {
            "format": FORMAT,
            "version": FORMAT_VERSION,
            "figures": self.figures(),
            "cores": [core.data.to_dict() for core in self._cores],
        }

    def _pictures(self, path: Path) -> dict[Path, plots.Draw]:
        return {
            file.with_stem(f"{file.stem}_core{number}"): write
            for number, core in enumerate(self._cores)
            for file, write in plots.writers(core, path).items()
        }


def _existing(directory: str | os.PathLike[str]) -> Path:
    if not Path(directory).is_dir():
        message = f"{directory}: is no directory"
        raise NotADirectoryError(message)
    return Path(directory)


def from_cores(documents: Sequence[Any]) -> LogicalProfile:
    """Return the profile of cores whose data stand in a document.

    Raises
    ------
    TypeError, ValueError
        If there are none, or one contradicts itself.
    """
    if not documents:
        message = "cores is empty, must have one entry or more"
        raise ValueError(message)
    return LogicalProfile([Profile(ProfileData.from_dict(each)) for each in documents])


def report_page(profiles: Sequence[Profile], *, style: str, script: str, policy: str) -> str:
    """Return the report of a kernel's ranks as a page that a style and a script draw.

    Parameters
    ----------
    profiles
        One a rank; figures are the first one's.
    style, script
        CSS, and JavaScript as one ES module.
    policy
        The page's content security policy.

    Raises
    ------
    ValueError
        Without a profile.
    """
    return _profile.report_page([each._run for each in profiles], style, script, policy)


def _text_of(file: str) -> str | None:
    return "".join(linecache.getlines(file)) or None


def profile_of(cores: Sequence[Any], kernel: str = "kernel") -> Profile:
    """Return what the run so far on the cores of one logical core cost, and why.

    Parameters
    ----------
    cores : sequence of NeuronCore
        In order of their numbers.
    kernel : str, optional
        Name of the kernel.

    Examples
    --------
    >>> from trn3.machine import NeuronCore
    >>> profile_of([NeuronCore("trn3")]).latency_us
    0.0
    """
    found = _profile.of_cores(list(cores), kernel, _text_of)
    profiles = [Profile.of_run(run) for run in found]
    return profiles[0] if len(profiles) == 1 else LogicalProfile(profiles)
