"""Machine descriptions as values: looked at, changed for a what-if, and run on."""

from __future__ import annotations

import json
import math
import os
import re
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, TypeAlias

from trn3._trn3 import machine as _machine
from trn3.facts import expressions as _facts
from trn3.text import nearest

__all__ = ["ArchLike", "ArchSpec", "Entry", "arch", "arch_file"]

#: A name becomes that of a file.
_NAME: Final = re.compile(r"[^/\\\0\n]{1,120}")


@dataclass(frozen=True, slots=True)
class Entry:
    """One figure of a machine.

    Attributes
    ----------
    value : float
    unit : str
    source : str
        Where the value comes from; of a changed one, what it was.
    """

    value: float
    unit: str
    source: str


@dataclass(frozen=True)
class ArchSpec:
    """One NeuronCore's hardware: every figure that times, sizes and limits come from.

    `arch` makes one; `replace` changes figures. It stands wherever a machine's name does, as
    ``arch=`` of `trn3.nki.profile`.

    Attributes
    ----------
    name : str
        In profiles and tables.
    entries : mapping of str to Entry
        By the names of the description files, in their order.
    """

    name: str
    entries: Mapping[str, Entry] = field(hash=False)

    def __getitem__(self, figure: str) -> float:
        """Return the value of a figure.

        Raises
        ------
        KeyError
            If there is none of that name; names the nearest.
        """
        key = _key(figure)
        if key not in self.entries:
            raise KeyError(self._unknown(figure))
        return self.entries[key].value

    def __repr__(self) -> str:
        return f"ArchSpec({self.name!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (self.name, dict(self.entries))

    def replace(self, *, name: str | None = None, **figures: float | str) -> ArchSpec:
        """Return the machine with other figures.

        Parameters
        ----------
        name : str, optional
            What it is called; by default the old name with the changes.
        **figures
            A number in the figure's own unit, or a text such as ``"+20%"``, by which it changes.

        Raises
        ------
        ArchError
            If there is no such figure (names the nearest), or no machine can have this value.
        TypeError
            If a value is neither a number nor such a text.

        Examples
        --------
        >>> faster = arch("trn3").replace(vector_clock_mhz="+20%", psum_banks=16)
        >>> faster
        ArchSpec('trn3:vector_clock_mhz=1440,psum_banks=16')
        >>> faster["vector_clock_mhz"], faster.entries["psum_banks"].source
        (1440.0, 'what-if: 8 banks changed to 16')
        >>> arch("trn3").replace(vector_clock=1440)
        Traceback (most recent call last):
        trn3.ArchError: arch trn3 has no figure vector_clock; nearest: vector_clock_mhz (1200 MHz)
        """
        entries = dict(self.entries)
        changes = []
        for given, wanted in figures.items():
            key = _key(given)
            if key not in entries:
                raise _machine.ArchError(self._unknown(given))
            old = entries[key]
            value = _value(wanted, old, f"arch {self.name}: figure {key}")
            source = f"what-if: {old.value:.12g} {old.unit} changed to {value:.12g}"
            entries[key] = Entry(value, old.unit, source)
            changes.append(f"{key}={value:.12g}")
        if name is None:
            mark = "," if ":" in self.name else ":"
            name = f"{self.name}{mark}{','.join(changes)}" if changes else self.name
            name = name if len(name) <= 120 else f"{name[:117]}..."
        if not _NAME.fullmatch(str(name)):
            message = f"name is {name!r}; allowed: a text of up to 120 characters without / or \\"
            raise _machine.ArchError(message)
        changed = ArchSpec(name, MappingProxyType(entries))
        # The machine knows what each figure can be.
        with arch_file(changed) as path:
            _machine.NeuronCore(path, values=False, timing=False)
        return changed

    def to_toml(self) -> str:
        """Return the description as the text of a file that ``--arch`` takes."""
        lines = [f"# {self.name}, written by trn3. Every entry: value, unit, source."]
        for key, entry in self.entries.items():
            whole = float(entry.value).is_integer()
            value = str(int(entry.value)) if whole else repr(float(entry.value))
            # A TOML string is written like one of JSON.
            unit = json.dumps(entry.unit, ensure_ascii=False)
            source = json.dumps(entry.source, ensure_ascii=False)
            lines.append(f"{key} = {{ value = {value}, unit = {unit}, source = {source} }}")
        return "\n".join(lines) + "\n"

    def _unknown(self, figure: str) -> str:
        near = self.entries[key := str(nearest(_key(figure), self.entries))]
        shown = f"{key} ({near.value:.12g} {near.unit})"
        return f"arch {self.name} has no figure {figure}; nearest: {shown}"


#: What names a machine: a target's name, the path of a description (``.toml``), either with changes
#: (``"trn3:vector_clock_mhz=+20%"``), a dict of ``"base"`` and changes, or an `ArchSpec`.
ArchLike: TypeAlias = str | os.PathLike[str] | Mapping[str, Any] | ArchSpec


def arch(machine: ArchLike = "trn3") -> ArchSpec:
    """Return the description of a machine, to read or to change.

    Parameters
    ----------
    machine
        A target's name (``"trn1"``, ``"trn2"``, ``"trn3"``, ...), the path of a description ending
        in ``.toml``, or one of several in such a file, ``"mine.toml:wide"``; either followed by
        changes, ``"trn3:vector_clock_mhz=+20%,psum_banks=16"``; or a dict such as
        ``{"base": "trn3", "vector_clock_mhz": 1440}``.

    Raises
    ------
    ArchError
        If there is no such machine, file or figure.
    TypeError
        If it is nothing of the kind.

    Examples
    --------
    >>> arch("trn3")["dma_engines"]
    16.0
    >>> arch({"base": "trn2", "hbm_gbps": "+50%"})
    ArchSpec('trn2:hbm_gbps=4350')
    >>> arch("trn3:psum_banks=16")["psum_banks"]
    16.0
    """
    if isinstance(machine, ArchSpec):
        return machine
    if isinstance(machine, Mapping):
        changes = dict(machine)
        if "base" not in changes:
            message = f"arch is {machine!r}; allowed: a dict with 'base', the machine to change"
            raise TypeError(message)
        base, name = changes.pop("base"), changes.pop("name", None)
        return arch(base).replace(name=name, **changes)
    given: Any = machine
    if not isinstance(given, (str, os.PathLike)):
        message = (
            f"arch is of type {type(given).__name__}; allowed: a target's name, the path of a "
            ".toml file, a dict with 'base', an ArchSpec"
        )
        raise TypeError(message)
    text = os.fspath(machine)
    try:
        base, changed = _facts.what_if(text)
    except ValueError as error:
        message = f"arch is {text}; write NAME:FIGURE=VALUE,FIGURE=VALUE"
        raise _machine.ArchError(message) from error
    if changed:
        return arch(base).replace(**dict(changed))
    core = _machine.NeuronCore(text, values=False, timing=False)
    entries = {key: Entry(value, unit, source) for key, value, unit, source in core.arch_entries()}
    return ArchSpec(core.arch[0], MappingProxyType(entries))


@contextmanager
def arch_file(machine: str | ArchSpec) -> Iterator[str]:
    """Let a machine be named by a text, for the length of a ``with`` block.

    A name or path is that text itself; a description that is no file becomes one.
    """
    if isinstance(machine, str):
        yield machine
        return
    with tempfile.TemporaryDirectory(prefix="trn3-") as folder:
        path = Path(folder) / f"{machine.name}.toml"
        path.write_text(machine.to_toml(), encoding="utf-8")
        yield os.fspath(path)


def _restored(name: str, entries: dict[str, Entry]) -> ArchSpec:
    return ArchSpec(name, MappingProxyType(entries))


def _key(figure: str) -> str:
    return figure.replace(".", "_")


def _value(wanted: Any, old: Entry, what: str) -> float:
    """Return a figure's new value, from a number or a change in per cent."""
    allowed = f"a number in {old.unit}, or a change such as '+20%'"
    if isinstance(wanted, str):
        if (changed := _facts.changed(old.value, wanted)) is None:
            message = f"{what} is {wanted!r}; allowed: {allowed}"
            raise _machine.ArchError(message)
        value = changed
    elif isinstance(wanted, bool) or not hasattr(wanted, "__float__"):
        message = f"{what} is of type {type(wanted).__name__}; allowed: {allowed}"
        raise TypeError(message)
    else:
        value = float(wanted)
    if not math.isfinite(value):
        message = f"{what} is {wanted!r}; allowed: {allowed}"
        raise _machine.ArchError(message)
    # 1200 MHz and 20 % are 1440 MHz, and not the double beside it.
    return float(f"{value:.12g}")
