"""What of a recorded surface is lost: gone, or no longer what it was. What is new is no loss."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent / "recorded"

_TYPES = {"null", "boolean", "number", "string", "array", "object"}
_SIGNATURE = re.compile(r"[a-z]*\(.*\)", re.DOTALL)


def read(name: str) -> Any:
    """Return what a file of the record holds."""
    return json.loads((FOLDER / name).read_text(encoding="utf-8"))


def names() -> list[str]:
    """Return the names of all files of the record."""
    return sorted(str(path.relative_to(FOLDER)) for path in FOLDER.rglob("*.json"))


def losses(recorded: Any, now: Any, where: str = "") -> Iterator[str]:
    """Give a line for each thing of the record that no longer stands.

    Objects may gain entries and lists elements; signatures may gain arguments that callers need
    not give; of types of JSON some may fall away, and what was nothing but null may be something;
    everything else is as recorded.

    >>> list(losses({"f": "(a)", "g": "(b)"}, {"f": "(a, c=1)", "h": "()"}))
    ['/g is gone']
    >>> list(losses({"f": "(a, b=1)"}, {"f": "(a, c, b=1)"}))
    ['/f was (a, b=1), is (a, c, b=1)']
    >>> list(losses({"f": "method(self, b)"}, {"f": "method(self, /, b)"}))
    []
    """
    if isinstance(recorded, Mapping) and isinstance(now, Mapping):
        for key, before in recorded.items():
            if key in now:
                yield from losses(before, now[key], f"{where}/{key}")
            else:
                yield f"{where}/{key} is gone"
    elif isinstance(recorded, list) and isinstance(now, list):
        for element in recorded:
            if element not in now:
                yield f"{where}: {element} is gone"
    elif _as_called(recorded) == _as_called(now):
        return
    elif not (_has_grown(recorded, now) or _is_narrower(recorded, now)):
        yield f"{where} was {recorded}, is {now}"


def merged(recorded: Any, now: Any) -> Any:
    """Return the record with what is new; what was recorded stays as it was."""
    if isinstance(recorded, Mapping) and isinstance(now, Mapping):
        return {
            key: merged(recorded[key], now[key])
            if key in recorded and key in now
            else recorded.get(key, now.get(key))
            for key in {**recorded, **now}
        }
    if isinstance(recorded, list) and isinstance(now, list):
        return recorded + [element for element in now if element not in recorded]
    if recorded == "null" and _is_narrower(recorded, now):
        return f"null|{now}"
    return now if _has_grown(recorded, now) else recorded


def _as_called(value: Any) -> Any:
    """Return the same without that a method's own object has no keyword: nobody gives it one."""
    return value.replace("(self, /", "(self") if isinstance(value, str) else value


def _is_narrower(recorded: object, now: object) -> bool:
    if not (isinstance(recorded, str) and isinstance(now, str)):
        return False
    before, after = set(recorded.split("|")), set(now.split("|"))
    return before | after <= _TYPES and (after <= before or before == {"null"})


def _has_grown(recorded: object, now: object) -> bool:
    if not (isinstance(recorded, str) and isinstance(now, str)):
        return False
    if not (_SIGNATURE.fullmatch(recorded) and _SIGNATURE.fullmatch(now)):
        return False
    if recorded.partition("(")[0] != now.partition("(")[0]:
        return False
    before, after = _Parameters(_as_called(recorded)), _Parameters(_as_called(now))
    place = len(before.by_place)
    added = after.by_place[place:] + [each for each in after.by_name if each not in before.by_name]
    kept = zip(before.by_place, after.by_place, strict=False)
    return (
        place <= len(after.by_place)
        # What had to be given may be left out.
        and all(old == new or new.startswith(f"{old}=") for old, new in kept)
        and before.by_name <= after.by_name
        and before.rest <= after.rest
        # What was gathered before would land in the new argument.
        and not ("*" in before.rest and len(after.by_place) > place)
        and all("=" in each for each in added)
    )


class _Parameters:
    """The parameters of a signature, as texts; "/" stands among those that have a place."""

    def __init__(self, text: str) -> None:
        inside = text[text.index("(") + 1 : -1]
        self.by_place: list[str] = []
        self.by_name: set[str] = set()
        self.rest: set[str] = set()
        has_star = False
        for each in _split(inside):
            if each.startswith("*"):
                has_star = has_star or not each.startswith("**")
                if each != "*":
                    self.rest.add("*" * (len(each) - len(each.lstrip("*"))))
            elif has_star:
                self.by_name.add(each)
            else:
                self.by_place.append(each)


def _split(text: str) -> list[str]:
    parts, depth, quote, start = [], 0, "", 0
    for index, letter in enumerate(text):
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "'\"":
            quote = letter
        elif letter in "([{<":
            depth += 1
        elif letter in ")]}>":
            depth -= 1
        elif letter == "," and depth == 0:
            parts.append(text[start:index].strip())
            start = index + 1
    return [part for part in [*parts, text[start:].strip()] if part]
