"""Published figures of systems, each with its unit, its sources and their conflicts.

The figures are spec files: those of the package, `names`, or a file of a user's in the same form. A
spec file is TOML with a table for each system. Keys that begin with ``_`` describe the system
(``_title``, ``_kind``, the parts it is made of: ``_core``, ``_chip``, ``_fabric``); every other key
is a quantity: ``default`` (what is used), ``unit``, ``conflict`` (whether sources disagree),
optionally ``why`` and ``note``, and ``sources``, a list of ``{ value, source }``, with ``unit``
where a source uses another.

Examples
--------
>>> from trn3 import facts
>>> chip = facts.load("trainium3")
>>> chip["hbm_bandwidth"].value, chip["hbm_bandwidth"].unit, chip["hbm_bandwidth"].si
(4.9, 'TB/s', 4900000000000.0)
>>> for source in chip["tdp"].sources[:2]:
...     print(source.value, source.source)
1000 press (an investor deep dive)
500 press (awesomeagents.ai)
"""

from __future__ import annotations

import os
import tomllib
from abc import abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, cast

from trn3._trn3 import facts as _core
from trn3.facts.mappings import FrozenMapping
from trn3.facts.quantity import Quantity, Source, figure_of, source_of
from trn3.files import read_bytes
from trn3.text import nearest as nearest_name

__all__ = [
    "Facts", "Figures", "aliases", "canonical", "check_derived", "facts_of", "find", "load",
    "load_all", "names", "nccom_tables", "nearest", "parse",
]  # fmt: skip


class Figures(Mapping[str, Quantity]):
    """Figures of one system by their names; an unknown name is refused with the nearest.

    Attributes
    ----------
    quantities
        The figures.
    """

    quantities: Mapping[str, Quantity]

    @abstractmethod
    def _owner(self) -> str:
        """Return the name of the system, for messages."""

    def __getitem__(self, key: str) -> Quantity:
        try:
            return self.quantities[key]
        except KeyError:
            message = f"{self._owner()} has no {key}; {nearest(key, self.quantities)}"
            raise KeyError(message) from None

    def __iter__(self) -> Iterator[str]:
        return iter(self.quantities)

    def __len__(self) -> int:
        return len(self.quantities)


@dataclass(frozen=True)
class Facts(Figures):
    """What is published about one system: a mapping from the names of figures to `Quantity`.

    Attributes
    ----------
    name, title
        As the spec file spells it, and for readers.
    kind
        ``core``, ``chip``, ``server``, ``ultraserver``, ``rack``, ``cluster``, ...
    parent
        The system that holds this one, for cores.
    parts
        The other keys that begin with ``_``, without that sign: ``chip``, ``fabric``, ...
    file
        Where it was read.
    siblings
        The other systems of the same file: parts are looked up there first.
    """

    name: str
    title: str
    kind: str
    parent: str | None
    parts: Mapping[str, Any]
    file: str
    quantities: Mapping[str, Quantity] = field(repr=False)
    siblings: Mapping[str, Facts] = field(default_factory=dict, repr=False, compare=False)

    def _owner(self) -> str:
        return self.name

    def __hash__(self) -> int:
        return hash((self.name, self.file))

    def need(self, key: str, purpose: str) -> Quantity:
        """Return a figure that something cannot do without.

        Parameters
        ----------
        key
            Its name.
        purpose
            What needs it, for the message.

        Raises
        ------
        ValueError
            If the system lacks it; the text names both.
        """
        if key in self.quantities:
            return self.quantities[key]
        message = (
            f"{self.file}: {self.name} lacks {key}, which {purpose} needs; "
            f"add [{self.name}.{key}] with default, unit and sources"
        )
        raise ValueError(message)

    def part(self, role: str) -> Facts | None:
        """Return the facts of what this system is made of; None if it does not say.

        Parameters
        ----------
        role
            ``core``, ``chip``, ``server``, ``peer`` or ``basis``.

        Raises
        ------
        ValueError
            If it names a system that does not exist.
        """
        name = self.parts.get(role)
        if name is None:
            return None
        if not isinstance(name, str):
            message = f"{self.file}: {self.name}._{role} is {name!r}; must be the name of a system"
            raise ValueError(message)
        if name in self.siblings:
            return self.siblings[name]
        try:
            return load(name)
        except ValueError as error:
            message = f"{self.file}: {self.name}._{role}: {error}"
            raise ValueError(message) from error


@cache
def names() -> tuple[str, ...]:
    """Return the names of the systems of the package, sorted.

    Examples
    --------
    >>> [name for name in names() if name.startswith("trn3")]
    ['trn3_gen1', 'trn3_gen2']
    """
    return tuple(_core.names())


@cache
def aliases(kind: str = "systems") -> Mapping[str, str]:
    """Return other names of things of a kind, and what they stand for.

    Parameters
    ----------
    kind
        ``systems``; ``plans``, systems to run on; ``machines``, single cores; ``kubernetes``.

    Examples
    --------
    >>> aliases()["gen2"], aliases()["trn3"]
    ('trn3_gen2', 'trainium3')
    """
    return FrozenMapping(_core.aliases(kind))


def nccom_tables() -> Mapping[str, Any]:
    """Return the outputs of nccom-test that the vendor's documentation prints.

    Examples
    --------
    >>> nccom_tables()["table"][0]["name"]
    'all_gather of 32 ranks'
    """
    return FrozenMapping(tomllib.loads(_core.nccom_tables()))


def canonical(name: str) -> str:
    """Return the name of a system of the package, given it or an alias of it.

    Raises
    ------
    ValueError
        If there is none; the text has the nearest.

    Examples
    --------
    >>> canonical("Trn3-Gen2"), canonical("trn2.48xlarge"), canonical("b300")
    ('trn3_gen2', 'trn2_instance', 'b300')
    """
    return _core.canonical(name)


def find(system: str, kind: str = "systems") -> tuple[str, tuple[str, str] | None]:
    """Return which system a text names, and name and text of its spec file if that is one's own.

    Parameters
    ----------
    system
        As in `load`.
    kind
        Which other names hold, as in `aliases`.

    Raises
    ------
    ValueError, OSError
        As in `load`.

    Examples
    --------
    >>> find("trn2", "plans")
    ('trn2_instance', None)
    """
    return _core.find(system, kind)


def load(system: str | os.PathLike[str], member: str | None = None) -> Facts:
    """Return the facts of a system of the package or of a spec file.

    Parameters
    ----------
    system
        A name of `names`, an alias of one, or the path of a TOML file; ``"mine.toml:my_rack"`` is
        one of a file's, ``"gen2:tdp=500"`` one with changes.
    member
        Which system of a file; without it, the one that is part of no other there.

    Raises
    ------
    ValueError
        If there is no system of that name, the file is wrong, or it does not say which is meant.
    OSError
        If the file cannot be read.

    Examples
    --------
    >>> load("gen2").title
    'Trn3 Gen2 UltraServer (NL72x2 Switched)'
    """
    text = os.fspath(system)
    is_file = text.endswith(".toml") or (os.sep in text and ":" not in text)
    if not isinstance(system, str) or is_file:
        return _member(load_all(text), text, member)
    name, described = find(system)
    if described is not None:
        return parse(described[1], described[0])[name]
    if member is not None and member != name:
        message = f"member is {member!r}, but {system} is one system of the package: {name}"
        raise ValueError(message)
    return _built_in(name)


def load_all(path: str | os.PathLike[str]) -> Mapping[str, Facts]:
    """Return all systems of a spec file by name, in its order.

    Raises
    ------
    ValueError
        If the file is wrong; the text names the table and the key.
    OSError
        If it cannot be read.
    """
    try:
        text = read_bytes(path, "spec file").decode("utf-8")
    except UnicodeDecodeError as error:
        message = f"{os.fspath(path)} is not TOML: {error}"
        raise ValueError(message) from error
    return parse(text, os.fspath(path))


def parse(text: str, file: str = "text") -> Mapping[str, Facts]:
    """Return all systems that a TOML text describes; `file` names it in messages.

    Raises
    ------
    ValueError
        If it is wrong.

    Examples
    --------
    >>> mine = parse('''
    ... [link]
    ... [link.rate]
    ... default = 2
    ... unit = "GB/s"
    ... sources = [{ value = 2, source = "my bench" }]
    ... ''')
    >>> mine["link"]["rate"].si
    2000000000.0
    """
    siblings: dict[str, Facts] = {}
    for fields in _core.parse(file, text):
        siblings[fields["name"]] = facts_of(fields, siblings)
    return FrozenMapping(siblings)


@cache
def _built_in(name: str) -> Facts:
    return facts_of(_core.built_in(name), {})


def _member(systems: Mapping[str, Facts], file: str, member: str | None) -> Facts:
    if member is not None:
        if member in systems:
            return systems[member]
        message = f"{file} has no system {member!r}; {nearest(member, systems)}"
        raise ValueError(message)
    return systems[_core.whole_of(list(systems.values()), file)]


def facts_of(fields: Mapping[str, Any], siblings: Mapping[str, Facts]) -> Facts:
    """Return facts, given what the core says of them and the other systems of their file."""
    quantities = {key: figure_of(entry) for key, entry in fields["quantities"].items()}
    given = {
        **fields,
        "parts": FrozenMapping(fields["parts"]),
        "quantities": FrozenMapping(quantities),
    }
    return Facts(**given, siblings=siblings)


def nearest(name: str, known: Mapping[str, object] | tuple[str, ...], listed: object = None) -> str:
    """Return the end of a message about an unknown name: what would have worked.

    Parameters
    ----------
    name
        What came.
    known
        All names, among which the nearest is looked for.
    listed
        Names to list where those are too many.

    Examples
    --------
    >>> nearest("gen3", ("gen1", "gen2"))
    "the nearest is 'gen2'; allowed: gen1, gen2"
    """
    every = tuple(known)
    shown_names = cast("tuple[str, ...]", listed) if listed is not None else every
    # A full name first: "trainium9" is nearer to "trainium" than to "trainium3", which was meant.
    close = nearest_name(name, shown_names, 0.75) or nearest_name(name, every)
    allowed = f"allowed: {', '.join(shown_names)}" if shown_names else "there is none"
    return f"the nearest is {close!r}; {allowed}" if close else allowed


def check_derived(facts: Facts) -> list[tuple[str, Source, float]]:
    """Return what each derived source of a system evaluates to, with its figure's name.

    Examples
    --------
    >>> [(key, source.value, value) for key, source, value in check_derived(load("trn3_gen1"))][0]
    ('pflops_mxfp8', 161.088, 161.088)
    """
    found = _core.derived(facts, list(facts.siblings.values()))
    return [(key, source_of(source), value) for key, source, value in found]
