"""Run every check, compare with the debt, report: ``python -m house [--settle | --lines]``.

To settle is to write the debt and the drawn parts of the pages for maintainers anew; ``--lines``
prints how much of each room is Python, and why.
"""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path

from house import (
    arrows,
    circles,
    class_names,
    code_lines,
    crate_arrows,
    debt,
    drill,
    figures,
    picture,
    private_names,
    sizes,
    tests_tree,
)
from house.finding import Check, Rules

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).resolve().parent

#: The name that a check has in `debt.toml`, and what does it.
CHECKS: dict[str, Check] = {
    "python_arrows": arrows.find,
    "python_circles": circles.find_python,
    "python_private_names": private_names.find,
    "python_class_names": class_names.find_python,
    "rust_arrows": crate_arrows.find,
    "rust_circles": circles.find_rust,
    "rust_class_names": class_names.find_rust,
    "long_files": sizes.find_long,
    "alike_files": sizes.find_alike,
    "figures": figures.find,
    "python_lines": code_lines.find,
    "tests": tests_tree.find,
}


def write_pages(rules: Rules) -> None:
    """Write what of the pages for maintainers is drawn from the code."""
    (ROOT / picture.PAGE).write_text(picture.draw(ROOT, rules), encoding="utf-8")
    page = ROOT / drill.FOLDER / "drill.md"
    page.write_text(drill.page(ROOT), encoding="utf-8")
    (ROOT / code_lines.PAGE).write_text(code_lines.page(ROOT, rules), encoding="utf-8")


def main(words: list[str]) -> int:
    """Return 0 if what is found is what is listed, 1 if not, 2 for an unknown word."""
    if words not in ([], ["--settle"], ["--lines"]):
        print(f"python -m house: {' '.join(words)!r} is not --settle or --lines", file=sys.stderr)
        return 2
    rules = tomllib.loads((HERE / "house.toml").read_text(encoding="utf-8"))
    if "--lines" in words:
        print(code_lines.shown(ROOT, rules))
        return 0
    listed = debt.read(HERE / "debt.toml")
    found = {name: check(ROOT, rules) for name, check in CHECKS.items()}
    if "--settle" in words:
        try:
            listed = debt.settled(listed, found)
        except ValueError as error:
            print(f"debt.toml is left as it is: {error}", file=sys.stderr)
            return 1
        debt.write(HERE / "debt.toml", listed)
        write_pages(rules)
    messages = debt.compare(listed, found)
    for message in messages:
        print(message)
    for name, findings in found.items():
        print(f"{name:<24}{len(findings):>5} listed" if findings else f"{name:<24}   none")
    print(f"median of the product's files: {sizes.median(ROOT):g} lines")
    return int(bool(messages))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
