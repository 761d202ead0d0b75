"""The rules of the lint: what each refuses, since when, why, and what to write instead.

How a kernel is searched for them stands elsewhere: `trn3.nki.lint.language`, `interface` and
`registers` for what its source shows, `watch` for what only values show.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from trn3.nki.lint.findings import PortabilityFinding, Severity
from trn3.nki.values.version import at_least


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
        with this front end); older ones, chosen by ``TRN3_NKI_VERSION``, do not look for it.
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
        return at_least(self.since)

    def at(self, file: str, line: int, column: int, function: str, text: str) -> PortabilityFinding:
        """Return the finding of a place; `text` says what stands there."""
        message = f"{text}: {self.reason}"
        return PortabilityFinding(
            file, line, column, self.id, self.severity, function, message, self.instead
        )


#: Its older name.
Rule = PortabilityRule


_DEFINED: list[PortabilityRule] = []


def _rule(number: int, *texts: str, **options: str) -> PortabilityRule:
    rule = PortabilityRule(f"TRN3-P{number:03}", *texts, **options)  # type: ignore[arg-type]
    _DEFINED.append(rule)
    return rule


IDENTITY = _rule(
    1, "`is`, `is not`", "the compiled subset of Python has no identity", "`==` or `!=`"
)
KEYWORD_ONLY = _rule(
    2,
    "parameters after `*`",
    "the compiled subset has no keyword-only parameters",
    "ordinary parameters; callers may still name them",
)
LIST_ARGUMENT = _rule(
    3,
    "a list as argument of a kernel",
    "kernels take arrays, numbers, strings and tuples, no lists",
    "a tuple",
    found="source, run",
)
DICT_KEY = _rule(
    4, "a dict key that is no string", "keys of dicts are strings", "`str(key)`, or a list"
)
PLAIN_CLASS = _rule(
    5,
    "an object of a class of one's own that is no `nl.NKIObject`",
    "classes used in kernels derive from NKIObject",
    "`class Name(nl.NKIObject)`",
)
NESTED_SLICE = _rule(
    6,
    "a slice of a slice, `t[:, a:b][:, c:d]`",
    "tensors are sliced once in an expression",
    "one slice, or the methods of views: `t.slice(dim, start, end)`",
)
LAMBDA = _rule(
    7,
    "`lambda`",
    "not documented, and no published kernel uses it",
    "a nested `def`",
    severity="warning",
)
TRY = _rule(
    8,
    "`try`",
    "not documented, and no published kernel uses it",
    "a test before the statement",
    severity="warning",
)
GENERATOR = _rule(
    9,
    "`yield`, `async`, `await`",
    "not documented, and no published kernel uses it",
    "a list, or a class with `__iter__`",
    severity="warning",
)
REGISTER_NUMBER = _rule(
    10,
    "`int(register)`, `float(register)`, `bool(register)`",
    "its value is not known while compiling",
    "`nisa.register_store` to a tile, or a Python number where it is static",
)
REGISTER_RANGE = _rule(
    11,
    "a Python range or static loop over a register",
    "its value is not known while compiling",
    "`nl.dynamic_range(register)`",
)
REGISTER_TEST = _rule(
    12,
    "`if register`, comparing or reckoning with a register",
    "its value is not known while compiling",
    "`while register:` or `nl.while_loop`; arithmetic on a 1x1 tile",
)
MEMSET_VALUE = _rule(
    13,
    "`nisa.memset` of an integer tile with a float",
    "value and tile are of one kind",
    "a whole number: `0`, not `0.0`",
    found="source, run",
)
ENUM_NUMBER = _rule(
    14,
    "a bare number for an enum, `oob_mode=1`",
    "enums take their members",
    "`nisa.oob_mode.skip` and its like",
)
PRIVATE_RESULT = _rule(
    15,
    "returning a tensor of `nl.hbm` or `nl.private_hbm`",
    "results are in memory that all cores share",
    "`buffer=nl.shared_hbm`",
    found="source, run",
)
OLD_KEYWORD = _rule(
    16,
    "a keyword that the instruction no longer has, `tensor_copy(dtype=)`",
    "the signature is another one",
    "the call without it",
)
PLATFORM_TARGET = _rule(
    17,
    "`nki.jit(platform_target=...)`",
    "the target is no property of a kernel",
    "NEURON_PLATFORM_TARGET_OVERRIDE in the environment",
)
NO_INSTRUCTION = _rule(
    18,
    "`nl.divide`, `nl.mod`, `nl.fmod`",
    "no instruction does it",
    "`nl.multiply` by `nl.reciprocal`; remainders of indexes in Python",
)
SCALAR_POWER = _rule(
    19,
    "`nl.power` of a tile and a number",
    "the exponent must be a tile",
    "`nl.full` for the exponent, or `nl.square`, `nl.sqrt`",
    found="source, run",
)
PSUM_STORE = _rule(
    20,
    "`nl.store` of a tile in PSUM",
    "no DMA reads PSUM",
    "`nl.copy` to SBUF first",
    found="source, run",
)
MATMUL_FORM = _rule(
    21,
    "`nl.matmul` without `transpose_x=True`",
    "TensorE takes its first operand transposed",
    "`nl.matmul(x_transposed, y, transpose_x=True)`",
)
DYNAMIC_ORDERED = _rule(
    22,
    "a dynamic loop inside `nl.no_reorder`",
    "only static loops are put in order",
    "`nl.static_range`, or the loop outside of the block",
)
LEGACY_NAME = _rule(
    23,
    "names, masks and keywords of `neuronxcc.nki` in a kernel of `nki`",
    "the dialects do not mix",
    "slices and `nl.ds`; `tensor.ap` for patterns",
)
LEGACY_KERNEL = _rule(
    24,
    "a kernel of the legacy dialect",
    "compilers of 0.4 and later refuse `neuronxcc.nki`",
    "the kernel in the modern dialect, with explicit `dst`",
    since="0.4",
)
OWN_NAME = _rule(
    25,
    "a name that trn3 has and NKI has not",
    "it is no part of NKI",
    "instructions of NKI",
)
STRING_BUFFER = _rule(
    26,
    "a buffer as a string",
    "buffers are members of `nl.MemoryRegion`",
    "`nl.sbuf`, `nl.psum`, `nl.shared_hbm`",
)

#: Every rule, in the order of their numbers.
RULES: Final[tuple[PortabilityRule, ...]] = tuple(_DEFINED)


def markdown() -> str:
    """Return the table of rules that stands in the documentation."""
    lines = [
        "| rule | finds | why | write | shown by | severity | since |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    lines += [
        f"| {rule.id} | {rule.what} | {rule.reason} | {rule.instead} | {rule.found} | "
        f"{rule.severity} | {rule.since} |"
        for rule in RULES
    ]
    return "\n".join(lines) + "\n"
