"""Pages of the documentation, followed from top to bottom as a reader would."""

from __future__ import annotations

import contextlib
import doctest
import io
import json
import linecache
import os
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterable
from pathlib import Path
from unittest import SkipTest

import pytest
import yaml
from markdown_it import MarkdownIt
from markdown_it.token import Token
from sybil import Document, Example, Region, Sybil
from sybil.parsers.abstract.lexers import LexerCollection
from sybil.parsers.markdown.lexers import DirectiveInHTMLCommentLexer
from sybil.parsers.myst import CodeBlockParser, SkipParser

from trn3.__main__ import main

ROOT = Path(__file__).resolve().parents[2]
#: What pages name of the repository, in whose folder their commands are meant.
SHARED = ("docs", "examples", "python")
#: Programs that run in a process of their own.
PROGRAMS = {"pytest": ["-m", "pytest", "--rootdir", ".", "-p", "trn3_pytest"], "python": []}
#: Blocks of data, and what reads them.
READERS: dict[str, Callable[[str], object]] = {
    "json": json.loads,
    "toml": tomllib.loads,
    "yaml": lambda text: list(yaml.safe_load_all(text)),
}
RUN = {"console", "python", "sh", "text"}
#: Blocks that are there to be looked at only.
SHOWN = {"c", "cpp", "html", "ipython", "js", "rust"}
SCRIPT = 'if __name__ == "__main__":'


def pages() -> list[Path]:
    """Return every page: those of the documentation, and the one that stands beside it."""
    return [*sorted((ROOT / "docs").rglob("*.md")), ROOT / "README.md"]


def blocks(page: Path) -> list[Token]:
    """Return what a page shows as code."""
    tokens = MarkdownIt().parse(page.read_text(encoding="utf-8"))
    return [token for token in tokens if token.type in {"fence", "code_block"}]


def unknown_blocks(page: Path) -> list[str]:
    """Return the blocks that nothing runs, reads or shows, as ``line: language``.

    An indented block has no language, and so says nothing of what it is.
    """
    return [
        f"{token.map[0] + 1}: {token.info.strip() or 'no language'}"
        for token in blocks(page)
        if token.map and token.info.strip() not in RUN | SHOWN | set(READERS)
        if not token.info.startswith("{")
    ]


def runnable(page: Path) -> list[Token]:
    """Return the commands, programs, outputs and data of a page."""
    return [token for token in blocks(page) if token.info.strip() in RUN | set(READERS)]


def squeezed(text: str) -> str:
    """Return a text without what depends on its width."""
    return re.sub(r"[\s─━]+", " ", text).strip()


class PageRun:
    """Follows a page in a folder: its programs and commands, its files, and what they print.

    Blocks of one page share their names, and what they print is held against the next block of
    `text`; a `{code-block} text` is no output. Comments tell what the words around them tell
    people::

        <!-- file: first.py -->      the next block is this file, or its next part
        <!-- exit: 1 -->             the next command ends so
        <!-- skip: next "why" -->    the next block is for another machine
        <!-- invisible-code-block: python ... -->

    Attributes
    ----------
    followed
        The lines at which blocks begin that were run, read, compared or skipped.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.followed: list[int] = []
        self._printed: str | None = None  # nothing was run yet
        self._file, self._status = "", 0
        self._lines: list[str] = []
        for name in SHARED:
            (folder / name).symlink_to(ROOT / name)

    def follow(self, page: Path) -> None:
        """Run a page; the folder has to be the process's.

        Raises
        ------
        AssertionError
            If a command fails, or prints other than what the page says; the message has the line.
        """
        evaluators = {"python": self._python, "console": self._session, "sh": self._commands}
        evaluators |= {"text": self._compare} | dict.fromkeys(READERS, self._read)
        parsers = [CodeBlockParser(*each) for each in evaluators.items()]
        document = Sybil([*parsers, SkipParser(), self._comments]).parse(page)
        document.namespace["__name__"] = "page"
        for example in document.examples():
            self.followed.append(example.line)
            try:
                with contextlib.suppress(SkipTest):
                    example.evaluate()
            except Exception as error:
                error.add_note(f"{page}:{example.line}")
                raise

    def _comments(self, document: Document) -> Iterable[Region]:
        for region in LexerCollection([DirectiveInHTMLCommentLexer("file|exit")])(document):
            region.parsed = (region.lexemes["directive"], region.lexemes["arguments"].strip())
            region.evaluator = self._take
            yield region

    def _take(self, example: Example) -> None:
        what, value = example.parsed
        if what == "file":
            self._file = value
        else:
            self._status = int(value)

    def _python(self, example: Example) -> None:
        if self._is_file(example):
            return
        if SCRIPT in example.parsed:
            Path("page.py").write_text(example.parsed, encoding="utf-8")
            self._start(["page.py"])
            return
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            if example.parsed.startswith(">>>"):
                self._doctest(example)
            else:
                self._run(example)
        self._printed = printed.getvalue()

    def _run(self, example: Example) -> None:
        """Run a block as lines of a file, since a kernel's source is read from one."""
        first = example.line + example.parsed.line_offset
        self._lines += [""] * (first - len(self._lines)) + example.parsed.splitlines()
        file = self.folder / "page.py"
        file.write_text("\n".join(self._lines), encoding="utf-8")
        linecache.checkcache(str(file))
        exec(compile("\n" * first + example.parsed, file, "exec"), example.namespace)

    def _doctest(self, example: Example) -> None:
        test = doctest.DocTestParser().get_doctest(
            example.parsed, {}, "page", example.path, example.line
        )
        test.globs = example.namespace
        told: list[str] = []
        doctest.DocTestRunner(verbose=False).run(test, out=told.append, clear_globs=False)
        assert not told, "".join(told)

    def _commands(self, example: Example) -> None:
        if not self._is_file(example):
            for line in example.parsed.replace("\\\n", " ").splitlines():
                self._command(line)

    def _session(self, example: Example) -> None:
        """Run the lines that begin with $; the others are what the one before prints."""
        text = example.parsed.replace("\\\n", " ")
        for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
            command, _, printed = part.partition("\n")
            self._command(command)
            self._compare_text(printed)

    def _command(self, line: str) -> None:
        words = shlex.split(line, comments=True)
        variables = {}
        while words and re.match(r"\w+=", words[0]):
            name, _, value = words.pop(0).partition("=")
            variables[name] = value
        wanted, self._status = self._status, 0
        if not words:
            return
        if words[0] != "trn3":
            assert words[0] in PROGRAMS, f"{words[0]}: no way to run it here; say skip, and why"
            self._start([*PROGRAMS[words[0]], *words[1:]], wanted)
            return
        with pytest.MonkeyPatch.context() as patch:
            for name, value in variables.items():
                patch.setenv(name, value)
            printed, errors = io.StringIO(), io.StringIO()
            with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(errors):
                status = main(words[1:])
        self._printed = printed.getvalue() + errors.getvalue()
        assert status == wanted, f"{line}: {status}\n{self._printed}"

    def _start(self, words: list[str], wanted: int = 0) -> None:
        path = os.pathsep.join([str(ROOT / "python"), str(self.folder)])
        finished = subprocess.run(
            [sys.executable, *words],
            env={**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"},
            check=False,
            capture_output=True,
            text=True,
            timeout=120,
        )
        self._printed = finished.stdout + finished.stderr
        assert finished.returncode == wanted, f"{words}: {finished.returncode}\n{self._printed}"

    def _is_file(self, example: Example) -> bool:
        """Write a block that is a file of the page, or a part of one."""
        name, self._file = self._file, ""
        if name:
            with Path(name).open("a", encoding="utf-8") as file:
                file.write(example.parsed + "\n\n")
        return bool(name)

    def _read(self, example: Example) -> None:
        READERS[example.region.lexemes["arguments"]](example.parsed)
        self._is_file(example)

    def _compare(self, example: Example) -> None:
        is_output = example.region.lexemes.get("directive") != "code-block"
        if not self._is_file(example) and is_output and self._printed is not None:
            self._compare_text(example.parsed)

    def _compare_text(self, shown: str) -> None:
        """Hold every line that a page shows against what was printed, in its order."""
        printed, place = squeezed((self._printed or "").replace(f"{self.folder}/", "")), 0
        for line in filter(None, map(squeezed, shown.splitlines())):
            pattern = re.escape(line).replace("…", r"\S*")  # cut, where there is no room
            found = re.compile(pattern).search(printed, place)
            assert found, f"{line!r} is not, or not here, in:\n{self._printed}"
            place = found.end()
