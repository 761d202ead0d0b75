"""The rules of the lint: what each refuses, since when, why, and what to write instead.

They stand in ``rules.toml``.

How a kernel is searched for them stands elsewhere: `trn3.nki.lint.language`, `interface` and
`registers` for what its source shows, `watch` for what only values show.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from importlib import resources
from typing import Final

from trn3.nki.lint.findings import PortabilityFinding, Severity
from trn3.nki.values import releases


@dataclass(frozen=True, slots=True)
class PortabilityRule:
    """One rule.

    Attributes
    ----------
    id : str
        ``TRN3-P`` and three digits; never given to another rule.
    what : str
        What it finds.
    reason : str
        Why the compiler refuses it, in one line.
    instead : str
        What to write.
    found : str
        ``"source"``, ``"run"`` or ``"source, run"``: what shows it.
    severity : str
        ``"error"``, or ``"warning"`` where no text says that it is refused, but no published kernel
        uses it.
    since : str
        The first NKI version that refuses it (**choice** where texts do not say: 0.3, the first
        with this front end); older ones, chosen by ``TRN3_NKI_VERSION``, do not look for it, nor
        those that accept it again: `trn3.nki.values.releases` says which.
    """

    id: str
    what: str
    reason: str
    instead: str
    found: str = "source"
    severity: Severity = "error"
    since: str = "0.3"

    @property
    def applies(self) -> bool:
        """Whether the NKI version in force refuses it."""
        return releases.of_lint(self.id).value() == "refused"

    def at(self, file: str, line: int, column: int, function: str, text: str) -> PortabilityFinding:
        """Return the finding of a place; `text` says what stands there."""
        message = f"{text}: {self.reason}"
        return PortabilityFinding(
            file, line, column, self.id, self.severity, function, message, self.instead
        )


#: Its older name.
Rule = PortabilityRule


def _read() -> dict[str, PortabilityRule]:
    text = resources.files("trn3.nki.lint").joinpath("rules.toml").read_text(encoding="utf-8")
    return {
        name: PortabilityRule(**rule, since=releases.of_lint(rule["id"]).since("refused"))
        for name, rule in tomllib.loads(text).items()
    }


_rules: Final = _read()

IDENTITY: Final = _rules["identity"]
KEYWORD_ONLY: Final = _rules["keyword_only"]
LIST_ARGUMENT: Final = _rules["list_argument"]
DICT_KEY: Final = _rules["dict_key"]
PLAIN_CLASS: Final = _rules["plain_class"]
NESTED_SLICE: Final = _rules["nested_slice"]
LAMBDA: Final = _rules["lambda"]
TRY: Final = _rules["try"]
GENERATOR: Final = _rules["generator"]
REGISTER_NUMBER: Final = _rules["register_number"]
REGISTER_RANGE: Final = _rules["register_range"]
REGISTER_TEST: Final = _rules["register_test"]
MEMSET_VALUE: Final = _rules["memset_value"]
ENUM_NUMBER: Final = _rules["enum_number"]
PRIVATE_RESULT: Final = _rules["private_result"]
OLD_KEYWORD: Final = _rules["old_keyword"]
PLATFORM_TARGET: Final = _rules["platform_target"]
NO_INSTRUCTION: Final = _rules["no_instruction"]
SCALAR_POWER: Final = _rules["scalar_power"]
PSUM_STORE: Final = _rules["psum_store"]
MATMUL_FORM: Final = _rules["matmul_form"]
DYNAMIC_ORDERED: Final = _rules["dynamic_ordered"]
LEGACY_NAME: Final = _rules["legacy_name"]
LEGACY_KERNEL: Final = _rules["legacy_kernel"]
OWN_NAME: Final = _rules["own_name"]
STRING_BUFFER: Final = _rules["string_buffer"]
DYNAMIC_LOOP: Final = _rules["dynamic_loop"]

#: Every rule, in the order of their numbers.
RULES: Final[tuple[PortabilityRule, ...]] = tuple(_rules.values())


def _span(rule: PortabilityRule) -> str:
    """Return the releases that refuse it."""
    later = (change for change in releases.of_lint(rule.id).changes if change.since > rule.since)
    return rule.since + "".join(f", not {each.since}" for each in later if each.value != "refused")


def markdown() -> str:
    """Return the table of rules that stands in the documentation."""
    lines = [
        "| rule | finds | why | write | shown by | severity | since |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    lines += [
        f"| {rule.id} | {rule.what} | {rule.reason} | {rule.instead} | {rule.found} | "
        f"{rule.severity} | {_span(rule)} |"
        for rule in RULES
    ]
    return "\n".join(lines) + "\n"
