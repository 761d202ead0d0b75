"""The rules of NKI that changed between releases: the one table of them, ``releases.toml``.

Code that behaves as a release did asks its rule here; no other module compares versions.

>>> QUANTIZE_MX_SCALE.value()
'one_larger'
>>> [change.since for change in QUANTIZE_MX_SCALE.changes]
['0.1', '0.5']
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, field
from importlib import resources
from typing import Any, Final

from trn3.nki.values.version import at_least, version

__all__ = ["RELEASE_RULES", "ReleaseChange", "ReleaseRule", "markdown", "of_lint"]


@dataclass(frozen=True, slots=True)
class ReleaseChange:
    """What a rule is from one release on.

    Attributes
    ----------
    since : str
        The first release.
    does : str
        What it does, in words.
    value : str
        What code asks for; empty of a rule that does not follow the version.
    """

    since: str
    does: str
    value: str = ""


@dataclass(frozen=True, slots=True)
class ReleaseRule:
    """One rule.

    Attributes
    ----------
    id : str
        Its name in the table.
    rule : str
        What it is about.
    changes : tuple of ReleaseChange
        Oldest first.
    source : str
        The vendor's page that says so.
    here : str
        What every version does; empty of a rule that follows the version in force.
    lint : tuple of str
        Portability rules that are in force while the value is ``"refused"``.
    """

    id: str
    rule: str
    changes: tuple[ReleaseChange, ...]
    source: str
    here: str = ""
    lint: tuple[str, ...] = ()
    # By version, what was asked before: instructions ask again and again.
    _known: dict[str, str] = field(default_factory=dict, init=False, repr=False, compare=False)

    def value(self) -> str:
        """Return the value in the version in force: that of the last change up to it, or the first.

        Raises
        ------
        ValueError
            If the rule does not follow the version, or ``TRN3_NKI_VERSION`` names none.
        """
        if self.here:
            message = f"{self.id} is the same in every version; allowed: rules that have values"
            raise ValueError(message)
        in_force = version()
        known = self._known.get(in_force)
        if known is not None:
            return known
        begun = (each.value for each in reversed(self.changes) if at_least(each.since, in_force))
        return self._known.setdefault(in_force, next(begun, self.changes[0].value))

    def since(self, value: str) -> str:
        """Return the first release that has a value.

        Raises
        ------
        StopIteration
            If none has it.
        """
        return next(change.since for change in self.changes if change.value == value)


def _rule(name: str, row: dict[str, Any]) -> ReleaseRule:
    changes = tuple(ReleaseChange(**change) for change in row.pop("changes"))
    return ReleaseRule(name, changes=changes, lint=tuple(row.pop("lint", ())), **row)


def _read() -> dict[str, ReleaseRule]:
    text = resources.files("trn3.nki.values").joinpath("releases.toml").read_text(encoding="utf-8")
    return {name: _rule(name, row) for name, row in tomllib.loads(text).items()}


#: Every rule by its name, in the order of the table.
RELEASE_RULES: Final = _read()

COMPILE_LEVEL: Final = RELEASE_RULES["compile_level"]
DEPENDENCY_KIND: Final = RELEASE_RULES["dependency_kind"]
DYNAMIC_LOOPS: Final = RELEASE_RULES["dynamic_loops"]
LOOP_INDEX: Final = RELEASE_RULES["loop_index"]
QUANTIZE_MX_SCALE: Final = RELEASE_RULES["quantize_mx_scale"]
TENSOR_REDUCE_AXIS: Final = RELEASE_RULES["tensor_reduce_axis"]


_LINT: Final = {found: rule for rule in RELEASE_RULES.values() for found in rule.lint}


def of_lint(found: str) -> ReleaseRule:
    """Return the rule by which a portability rule, ``"TRN3-P024"`` say, comes into force.

    Raises
    ------
    KeyError
        If there is none.
    """
    return _LINT[found]


def markdown() -> str:
    """Return the table that stands in the documentation."""
    lines = ["| rule | releases | trn3 | source |", "| --- | --- | --- | --- |"]
    for rule in RELEASE_RULES.values():
        changes = "; ".join(f"**{change.since}** {change.does}" for change in rule.changes)
        here = rule.here or "follows the version"
        lines.append(f"| {rule.rule} | {changes} | {here} | {rule.source} |")
    return "\n".join(lines) + "\n"
