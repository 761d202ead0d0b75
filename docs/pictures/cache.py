"""What pictures are drawn from, and files of those that are drawn."""

from __future__ import annotations

import functools
import hashlib
import importlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeAlias

import matplotlib as mpl
from matplotlib.figure import Figure

import trn3
from pictures.themes import themed

#: What a function of a picture gives: a figure, a PNG, or HTML.
Drawn: TypeAlias = Figure | bytes | str

DOCS = Path(__file__).resolve().parents[1]
#: Files that pictures are made from; those of a page's own kernels and tables name it besides.
SOURCES = (
    (Path(trn3.__file__).parent, ("*.py", "*.so", "*.toml")),
    (DOCS.parent / "examples", ("*.py",)),
    (DOCS / "pictures", ("*.py",)),
)


def source_files() -> Iterator[Path]:
    """Yield every file that a picture may be drawn from, in one order on every machine."""
    for folder, patterns in SOURCES:
        yield from sorted(path for pattern in patterns for path in folder.rglob(pattern))


@functools.cache
def content() -> str:
    """Return a name for all that pictures are drawn from."""
    found = hashlib.blake2b(mpl.__version__.encode(), digest_size=8)
    for path in source_files():
        found.update(path.name.encode())
        found.update(hashlib.blake2b(path.read_bytes()).digest())
    return found.hexdigest()


def function_of(name: str) -> Callable[[], Drawn]:
    """Return the function of a picture.

    Raises
    ------
    ValueError
        If there is none of that name, ``module.function``.
    """
    module, _, function = name.partition(".")
    try:
        found = getattr(importlib.import_module(f"pictures.{module}"), function)
    except (ImportError, AttributeError) as error:
        message = f"picture {name!r}: there is none; write MODULE.FUNCTION of docs/pictures"
        raise ValueError(message) from error
    return found  # type: ignore[no-any-return]


def from_page(page: str) -> Callable[[Callable[[str], Drawn]], Callable[[], Drawn]]:
    """Let a function of a picture have the text of a page, which it is drawn from.

    Parameters
    ----------
    page
        The page, from the folder of the documentation.
    """

    def with_text(function: Callable[[str], Drawn]) -> Callable[[], Drawn]:
        @functools.wraps(function)
        def draw() -> Drawn:
            return function((DOCS / page).read_text(encoding="utf-8"))

        draw.page = page  # type: ignore[attr-defined]
        return draw

    return with_text


def drawn(name: str, theme: str, folder: Path) -> Path:
    """Return the file of a picture, drawn if it is not there.

    Parameters
    ----------
    name
        ``module.function``.
    theme
        One of `THEMES`.
    folder
        Where files are kept.

    Raises
    ------
    ValueError
        If there is no such picture.
    """
    function = function_of(name)
    page = getattr(function, "page", None)
    text = (DOCS / page).read_bytes() if page else b""
    key = hashlib.blake2b(content().encode() + text, digest_size=8).hexdigest()
    for path in folder.glob(f"{name}-{theme}-*"):
        if path.stem.endswith(key):
            return path
        path.unlink()
    folder.mkdir(parents=True, exist_ok=True)
    with themed(theme):
        picture = function()
        path = folder / f"{name}-{theme}-{key}.svg"
        if isinstance(picture, bytes):
            path = path.with_suffix(".png")
            path.write_bytes(picture)
        elif isinstance(picture, str):
            path = path.with_suffix(".html")
            path.write_text(picture, encoding="utf-8")
        else:
            picture.savefig(path, metadata={"Date": None})
    return path
