"""What stands in a page of HTML, for tests of reports."""

from __future__ import annotations

import base64
import json
import zlib
from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import Any

import numpy as np
from numpy.typing import NDArray

VOID = {"meta", "br", "hr", "img", "link", "input"}


@dataclass
class Page(HTMLParser):
    """A page, taken apart."""

    text: str
    panes: list[str] = field(default_factory=list)
    scripts: list[tuple[dict[str, str | None], str]] = field(default_factory=list)
    styles: list[str] = field(default_factory=list)
    metas: list[dict[str, str | None]] = field(default_factory=list)
    attributes: list[tuple[str, str, str | None]] = field(default_factory=list)
    words: list[str] = field(default_factory=list)
    titles: list[str] = field(default_factory=list)
    _open: list[tuple[str, dict[str, str | None]]] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.feed(self.text)
        self.close()
        assert not self._open, f"never closed: {self._open}"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.attributes += [(tag, name, value) for name, value in attrs]
        if tag == "section" and given.get("data-pane"):
            self.panes.append(given["data-pane"] or "")
        if tag == "meta":
            self.metas.append(given)
        if tag not in VOID:
            self._open.append((tag, given))

    def handle_endtag(self, tag: str) -> None:
        assert self._open[-1][0] == tag, f"</{tag}> ends {self._open[-1]}"
        self._open.pop()

    def handle_data(self, data: str) -> None:
        tag, given = self._open[-1] if self._open else ("", {})
        if tag == "script":
            self.scripts.append((given, data))
        elif tag == "style":
            self.styles.append(data)
        elif tag == "title":
            self.titles.append(data)
        else:
            self.words.append(data)

    def json(self, name: str) -> Any:
        """Return what a script element of a name holds."""
        [text] = [text for given, text in self.scripts if given.get("id") == name]
        return json.loads(text)

    def values(self, name: str) -> list[str | None]:
        """Return the values of an attribute, in order."""
        return [value for _, own, value in self.attributes if own == name]

    def table(self, run: int, name: str) -> dict[str, NDArray[np.int64]]:
        """Return the columns of a table of a run."""
        [text] = [text for given, text in self.scripts if given.get("id") == "trn3-columns"]
        raw = np.frombuffer(zlib.decompress(base64.b64decode(text)), np.uint8)
        layout = self.json("trn3-report")["runs"][run]["tables"][name]
        rows, found = layout["rows"], dict[str, NDArray[np.int64]]()
        for column in layout["columns"]:
            end = column["at"] + rows * column["width"]
            planes = raw[column["at"] : end].reshape(column["width"], rows).astype(np.int64)
            values = sum((plane << 8 * k for k, plane in enumerate(planes)), np.zeros(rows, int))
            if column["coding"] == "delta":
                values = (values >> 1) ^ -(values & 1)
                groups = found[column["by"]] if "by" in column else np.zeros(rows, int)
                for group in np.unique(groups):
                    values[groups == group] = np.cumsum(values[groups == group])
            found[column["name"]] = values
        return found
