"""What ``trn3 diff`` compares: kernels in files, of a revision of git too, and runs that were."""

from __future__ import annotations

import ast
import inspect
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Self

from trn3.cli import kernel_file
from trn3.cli.refusal import RefusedError, refusing
from trn3.profile import Profile


@dataclass(frozen=True)
class Version:
    """A kernel, or a run of one.

    Attributes
    ----------
    title : str
        What to call it.
    kernel : callable or Profile
    file : KernelFile or None
        Where the kernel stands; None of a run.
    is_source_known : bool
        Whether the files hold the text that runs, or ran.
    """

    title: str
    kernel: Callable[..., Any] | Profile
    file: kernel_file.KernelFile | None = None
    is_source_known: bool = True


class Versions:
    """Those of one command; files of git's revisions are there until it ends."""

    def __init__(self) -> None:
        self._given: dict[str, str] = {}
        self._imported: dict[Path, set[str]] = {}
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._forget()
        self._stack.close()

    def load(self, target: str) -> Version:
        """Return what ``FILE.py:NAME``, a run's folder or ``git:REV:FILE.py:NAME`` names.

        Raises
        ------
        RefusedError
            If there is no such thing; what git says is its text.
        """
        if target.startswith("git:"):
            return self._of_git(target)
        if Path(target).is_dir():
            return _of_run(Path(target))
        file = self._load(target)
        return Version(file.name, file.kernel, file)

    def named(self, text: str) -> str:
        """Return a text in which files of git's revisions have the names that were given."""
        for folder, name in self._given.items():
            text = text.replace(folder, name)
        return text

    def _load(self, target: str) -> kernel_file.KernelFile:
        """Import a file, and what lies beside it although another version's has been imported."""
        folder = Path(target.rpartition(":")[0] or target).parent.resolve()
        self._forget(but=folder)
        before = set(sys.modules)
        with kernel_file.explained(target):
            file = kernel_file.load(target)
        own = {path.stem for path in folder.iterdir()}
        new = set(sys.modules) - before
        self._imported[folder] = {name for name in new if name.partition(".")[0] in own}
        return file

    def _forget(self, but: Path | None = None) -> None:
        for folder, names in self._imported.items():
            for name in names if folder != but else ():
                sys.modules.pop(name, None)

    def _of_git(self, target: str) -> Version:
        _, revision, rest = (*target.split(":", 2), "")[:3]
        name, colon, kernel = rest.rpartition(":")
        path = Path(name if colon else kernel)
        if not revision or path.suffix != ".py":
            message = f"{target}: write git:REV:FILE.py:KERNEL"
            raise RefusedError(message)
        folder = str(Path(self._stack.enter_context(TemporaryDirectory(prefix="trn3-"))).resolve())
        self._given[f"{folder}/"] = f"git:{revision}:{(path.parent / '_').as_posix()[:-1]}"
        for part, text in _with_siblings(target, revision, path):
            written = Path(folder) / part
            written.parent.mkdir(parents=True, exist_ok=True)
            written.write_bytes(text)
        try:
            file = self._load(f"{folder}/{path.name}{colon}{kernel if colon else ''}")
        except RefusedError as error:
            details = [self.named(line) for line in error.details]
            raise RefusedError(self.named(str(error)), details) from error
        return Version(f"{file.name}@{revision}", file.kernel, file)


def titles(versions: Sequence[Version]) -> list[str]:
    """Return what to call each; kernels of one name in several files have those in theirs."""
    made: list[str] = []
    for each in versions:
        name = each.title
        if name in made and each.file is not None:
            own = {other.file.path.name for other in versions[: len(made)] if other.file}
            is_there = each.file.path.name in own
            name = name if is_there else f"{name} in {each.file.path.name}"
        made.append(name)
    return made


def check_arguments(version: Version, arguments: Mapping[str, Any]) -> None:
    """Refuse a kernel that does not take these arguments, by name.

    Raises
    ------
    RefusedError
        If one is missing, or not there.
    """
    if isinstance(version.kernel, Profile):
        return
    try:
        inspect.signature(version.kernel).bind(**arguments)
    except TypeError as error:
        takes = ", ".join(inspect.signature(version.kernel).parameters) or "none"
        given = ", ".join(arguments) or "none"
        message = f"{version.title} takes other arguments than the first: {error}"
        raise RefusedError(f"{message} (it takes {takes}; given are {given})") from error


def _of_run(folder: Path) -> Version:
    path = folder / "profile.json"
    if not path.is_file():
        message = f"{folder}: no run: there is no profile.json in it"
        raise RefusedError(message)
    with refusing(ValueError):
        profile = Profile.from_json(path)
    files = {Path(line.file) for line in profile.lines() if line.line}
    saved = path.stat().st_mtime
    is_known = all(file.is_file() and file.stat().st_mtime <= saved for file in files)
    return Version(folder.resolve().name, profile, is_source_known=is_known)


def _git(target: str, *words: str) -> bytes:
    try:
        return subprocess.run(["git", *words], capture_output=True, check=True).stdout
    except FileNotFoundError as error:
        message = f"{target}: git is not installed"
        raise RefusedError(message) from error
    except subprocess.CalledProcessError as error:
        said = error.stderr.decode(errors="replace").strip().removeprefix("fatal: ")
        message = f"{target}: git: {said}"
        raise RefusedError(message) from error


def _with_siblings(target: str, revision: str, path: Path) -> Iterator[tuple[str, bytes]]:
    """Yield a file of a revision, and what it imports from its folder, by places below that."""
    top = _git(target, "rev-parse", "--show-toplevel").decode().rstrip("\n")
    words = ("rev-parse", "--verify", "--end-of-options", f"{revision}^{{commit}}")
    commit = _git(target, *words).decode().strip()
    with refusing(ValueError, naming=target):
        home = path.parent.resolve().relative_to(top).as_posix()
    home = "" if home == "." else f"{home}/"
    todo, seen = [path.name], {path.name}
    while todo:
        name = todo.pop()
        text = _git(target, "-C", top, "show", f"{commit}:{home}{name}")
        yield name, text
        for module in _imported(text) if name.endswith(".py") else ():
            places = (f"{home}{module}.py", f"{home}{module}/")
            listing = ("-C", top, "ls-tree", "-r", "-z", "--name-only", commit, *places)
            for found in _git(target, *listing).decode().split("\0"):
                part = found.removeprefix(home)
                if part and part not in seen:
                    seen.add(part)
                    todo.append(part)


def _imported(text: bytes) -> set[str]:
    """Return the first words of the modules that a text imports; none of what is no Python.

    >>> sorted(_imported(b"import a.b, c; from d.e import f; from . import g"))
    ['a', 'c', 'd']
    """
    try:
        nodes = list(ast.walk(ast.parse(text)))
    except (SyntaxError, ValueError):
        return set()
    names = [alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names]
    froms = [node for node in nodes if isinstance(node, ast.ImportFrom)]
    names += [node.module for node in froms if node.module and not node.level]
    return {name.partition(".")[0] for name in names}
