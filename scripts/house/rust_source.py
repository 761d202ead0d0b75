"""Rust crates as their text has them: modules, what they use, public types, number literals.

Parsed with tree-sitter. Items under ``#[cfg(test)]`` are left out, and so are files and folders
that are called ``tests`` or end so.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

import tree_sitter_rust
from tree_sitter import Language, Node, Parser

_PARSER = Parser(Language(tree_sitter_rust.language()))
_TYPES = {"struct_item", "enum_item", "trait_item", "union_item"}


@dataclass(frozen=True, slots=True)
class Crate:
    """One crate of the workspace."""

    name: str
    folder: Path
    dependencies: tuple[str, ...]  # those of the build, not of tests


@dataclass(frozen=True, slots=True)
class Use:
    """One path of a ``use`` line, as written: ``("super", "Shape")``."""

    path: tuple[str, ...]
    depth: int  # how many inline modules it stands in
    line: int


@dataclass(frozen=True)
class RustFile:
    """One module: its path from the root of the crate, () for the root itself."""

    module: tuple[str, ...]
    path: Path

    @cached_property
    def nodes(self) -> list[tuple[Node, int]]:
        """Every node outside tests, with how many inline modules it stands in."""
        tree = _PARSER.parse(self.path.read_bytes())
        return list(walk(tree.root_node, 0))

    @cached_property
    def uses(self) -> list[Use]:
        """Every path of every ``use`` line."""
        found = []
        for node, depth in self.nodes:
            argument = node.child_by_field_name("argument")
            if node.type == "use_declaration" and argument is not None:
                line = node.start_point[0] + 1
                found += [Use(path, depth, line) for path in paths(argument)]
        return found

    @cached_property
    def public_types(self) -> list[tuple[str, int]]:
        """Names and lines of structs, enums, traits and unions that are ``pub`` without limit."""
        found = []
        for node, _ in self.nodes:
            name = node.child_by_field_name("name")
            public = any(text(child) == "pub" for child in node.children)
            if node.type in _TYPES and name is not None and public:
                found.append((text(name), node.start_point[0] + 1))
        return found


def text(node: Node) -> str:
    """Return the source text of a node."""
    return (node.text or b"").decode()


def walk(node: Node, depth: int) -> Iterator[tuple[Node, int]]:
    """Yield the nodes below and including `node`, without items that only tests compile."""
    yield node, depth
    skip = False
    for child in node.children:
        if child.type == "attribute_item":
            skip = skip or is_test_only(child)
        elif child.type not in {"line_comment", "block_comment"}:
            if not skip:
                inner = child.type == "mod_item" and child.child_by_field_name("body") is not None
                yield from walk(child, depth + inner)
            skip = False


def is_test_only(attribute: Node) -> bool:
    """Whether an attribute is ``#[cfg(test)]``, alone or among others that must all hold."""
    words = "".join(text(attribute).split())
    return words.startswith(("#[cfg(test", "#[cfg(all(test"))


def paths(node: Node) -> Iterator[tuple[str, ...]]:
    """Yield the paths that the tree of a ``use`` line stands for."""
    match node.type:
        case "use_as_clause":
            yield from paths(node.children[0])
        case "scoped_use_list":
            head = node.child_by_field_name("path")
            prefix = segments(head) if head is not None else ()
            for child in node.children:
                if child.type == "use_list":
                    yield from (prefix + path for path in paths(child))
        case "use_list":
            for child in node.named_children:
                yield from paths(child)
        case "use_wildcard":
            yield from (segments(child) for child in node.named_children)
        case _:
            yield segments(node)


def segments(node: Node) -> tuple[str, ...]:
    """Return the parts of a path."""
    return tuple(part.strip() for part in text(node).split("::") if part.strip())


def is_of_tests(name: str) -> bool:
    """Whether a file or folder holds tests, by its name.

    >>> [name for name in ("tests", "shapes_tests", "contests") if is_of_tests(name)]
    ['tests', 'shapes_tests']
    """
    return name == "tests" or name.endswith("_tests")


@cache
def crates(root: Path) -> list[Crate]:
    """Return the crates of the workspace at `root`, with what each depends on among them."""
    manifest = root / "Cargo.toml"
    command = ["cargo", "metadata", "--no-deps", "--offline", "--format-version", "1"]
    run = subprocess.run(
        [*command, "--manifest-path", manifest], capture_output=True, text=True, check=False
    )
    if run.returncode:
        raise RuntimeError(f"cargo metadata of {manifest}: {run.stderr.strip()}")
    packages = json.loads(run.stdout)["packages"]
    ours = {package["name"] for package in packages}
    return [
        Crate(
            package["name"],
            Path(package["manifest_path"]).parent,
            tuple(
                sorted(
                    entry["name"]
                    for entry in package["dependencies"]
                    if entry["name"] in ours and entry["kind"] != "dev"
                )
            ),
        )
        for package in sorted(packages, key=lambda package: str(package["name"]))
    ]


@cache
def files(crate: Crate) -> list[RustFile]:
    """Return the modules of a crate, those of tests left out."""
    source = crate.folder / "src"
    found = []
    for path in sorted(source.rglob("*.rs")):
        parts = path.relative_to(source).with_suffix("").parts
        if any(is_of_tests(part) for part in parts):
            continue
        if parts[-1] in {"lib", "main"} and len(parts) == 1:
            parts = ()
        elif parts[-1] == "mod":
            parts = parts[:-1]
        found.append(RustFile(parts, path))
    return found
