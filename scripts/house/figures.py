"""No figure of the hardware stands outside the spec files.

What to look for comes from the spec files themselves: every figure of theirs that is distinctive,
as it is written and in its base unit (2.4 GHz is 2.4e9 too). Numbers in code are found however they
are spelt (``2_400_000_000``, ``224 * 1024``); docstrings, comments and tests may speak of figures.
"""

from __future__ import annotations

import ast
import operator
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from tree_sitter import Node

from house.finding import Finding, Rules, once
from house.python_source import package_at
from house.rust_source import crates, files, text

_PREFIXES = {
    "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15,
    "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40, "n": 1e-9, "u": 1e-6, "p": 1e-12,
}  # fmt: skip
_UNIT = re.compile(r"^([KMGT]i|[kKMGTPnup])(?:B|bit|Hz|FLOPS|FLOP|s\b)")
_NUMBER = re.compile(r"(?<![\w.])\d[\d_]*(?:\.\d+)?(?:e[+-]?\d+)?(?![\w.])", re.IGNORECASE)
_OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "*": operator.mul, "+": operator.add, "-": operator.sub, "<<": operator.lshift,
}  # fmt: skip
_PYTHON_OPERATORS: dict[type[ast.operator], str] = {
    ast.Mult: "*", ast.Add: "+", ast.Sub: "-", ast.LShift: "<<",
}  # fmt: skip


def find(root: Path, rules: Rules) -> list[Finding]:
    """Return every number outside the spec files that is a distinctive figure of theirs."""
    settings = rules["figures"]
    homes = [root / folder for folder in settings["homes"] if (root / folder).is_dir()]
    known: dict[float, str] = {}
    for home in homes:
        for path in sorted(home.rglob("*.toml")):
            if path.name in settings["no_hardware"]:
                continue
            for value, name in figures(tomllib.loads(path.read_text(encoding="utf-8"))):
                known.setdefault(value, f"{path.relative_to(root)} {name}")
    others = [*homes, *(root / folder for folder in settings["others"])]
    excuses, used, found = settings["excuses"], set(), []
    for path, line, value in numbers(root, others):
        name, number = str(path.relative_to(root)), f"{value:.15g}"
        if value not in known:
            continue
        if excused := {number, f"{name} {number}"} & excuses.keys():
            used |= excused
            continue
        words = f"{number} is a figure of the hardware: {known[value]}"
        found.append(Finding(f"{name} {number}", f"{name}:{line}", words))
    idle = excuses.keys() - used
    found += [Finding(f"excuse {number}", "house.toml", "stands nowhere") for number in idle]
    return once(found)


def figures(document: Any, name: str = "", unit: str = "") -> Iterator[tuple[float, str]]:
    """Yield the distinctive figures of a spec file with names, as written and in base units."""
    if isinstance(document, Mapping):
        unit = str(document.get("unit", unit))
        for key, value in document.items():
            yield from figures(value, f"{name}.{key}".strip("."), unit)
    elif isinstance(document, list):
        for value in document:
            yield from figures(value, name, unit)
    elif isinstance(document, int | float) and not isinstance(document, bool):
        prefix = _UNIT.match(unit)
        scale = _PREFIXES[prefix[1]] if prefix else 1
        for value in {float(document), float(f"{document * scale:.15g}")}:
            if is_distinctive(value):
                yield value, name


def is_distinctive(value: float) -> bool:
    """Whether a number is unlikely to stand in code by chance.

    Three digits that count, or two of a large number; for powers of two, sizes from 128 KiB that
    are no unit themselves.

    >>> [value for value in (128, 2.4, 2.4e9, 262144, 2**20, 229376, 4900, 1500.0, 78.64)
    ...  if is_distinctive(value)]
    [2400000000.0, 262144, 229376, 78.64]
    """
    if value == 0 or not abs(value) < 1e18:
        return False
    if value == int(value) and int(value) & (int(value) - 1) == 0:
        exponent = int(value).bit_length() - 1
        return exponent >= 17 and exponent % 10 != 0 and exponent not in {31, 32, 63, 64}
    digits = f"{abs(value):.14e}".partition("e")[0].replace(".", "").strip("0")
    least = 2 if abs(value) >= 1e6 else 3 if value != int(value) or abs(value) >= 1e4 else 4
    return len(digits) >= least


def numbers(root: Path, homes: list[Path]) -> Iterator[tuple[Path, int, float]]:
    """Yield the numbers of the product's sources and data: file, line and value."""
    for module in package_at(root / "python" / "trn3").modules.values():
        for node in module.nodes:
            value = python_value(node)
            if value is not None:
                yield module.path, getattr(node, "lineno", 0), value
    for crate in crates(root):
        for file in files(crate):
            for syntax, _ in file.nodes:
                value = rust_value(syntax)
                if value is not None:
                    yield file.path, syntax.start_point[0] + 1, value
    for top in ("python", "rust"):
        for path in sorted((root / top).rglob("*.toml")):
            if "target" in path.parts or path.name == "Cargo.toml":
                continue
            if not any(home in path.parents for home in homes):
                for line, words in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
                    for number in _NUMBER.findall(words.partition("#")[0]):
                        yield path, line, float(number.replace("_", ""))


def python_value(node: ast.AST) -> float | None:
    """Return the number that a constant expression of Python is; None if it is none."""
    match node:
        case ast.Constant(value=int() | float() as value) if not isinstance(value, bool):
            return float(value) if abs(value) < 1e300 else None
        case ast.BinOp():
            left, right = python_value(node.left), python_value(node.right)
            return combined(left, _PYTHON_OPERATORS.get(type(node.op), ""), right)
    return None


def rust_value(node: Node) -> float | None:
    """Return the number that a constant expression of Rust is; None if it is none."""
    if node.type in {"integer_literal", "float_literal"}:
        words = re.sub(r"_?[iuf](8|16|32|64|128|size)$", "", text(node)).replace("_", "")
        return float(words) if node.type == "float_literal" else float(int(words, 0))
    if node.type == "binary_expression":
        left, right = (node.child_by_field_name(side) for side in ("left", "right"))
        sign = node.child_by_field_name("operator")
        if left is not None and right is not None and sign is not None:
            return combined(rust_value(left), text(sign), rust_value(right))
    if node.type == "parenthesized_expression" and node.named_children:
        return rust_value(node.named_children[0])
    return None


def combined(left: float | None, sign: str, right: float | None) -> float | None:
    """Return the value of an operation on two numbers; None if it has none that is of use."""
    if left is None or right is None or sign not in _OPERATORS:
        return None
    if sign == "<<":
        return left * 2**right if 0 <= right < 64 else None
    return float(_OPERATORS[sign](left, right))
