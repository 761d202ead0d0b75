"""What was probably meant: the nearest name there is, as errors about unknown ones add it."""

from __future__ import annotations

from collections.abc import Iterable

from trn3.text import nearest

__all__ = ["missing_attribute", "or_nearest"]

#: How like a name has to be to be offered.
_LIKENESS = 0.6


def or_nearest(word: object, known: Iterable[object], form: str = "; the nearest is {}") -> str:
    """Return what an error about an unknown word ends with: the nearest one, if there is any.

    >>> or_nearest("floot32", ["float32", "int8"]), or_nearest("zzz", ["float32"])
    ("; the nearest is 'float32'", '')
    """
    found = nearest(word, known, _LIKENESS)
    return "" if found is None else form.format(repr(found))


def missing_attribute(module: str, name: str, known: Iterable[str]) -> AttributeError:
    """Return the error about a name that a module does not have.

    >>> missing_attribute("nki.language", "matmull", ["matmul", "load"])
    AttributeError("module 'nki.language' has no attribute 'matmull'; the nearest is 'matmul'")
    """
    names = [each for each in known if not each.startswith("_")]
    # Python asks modules for names of its own, __path__ and the like.
    hint = "" if name.startswith("__") else or_nearest(name, names)
    return AttributeError(f"module {module!r} has no attribute {name!r}{hint}", name=name)
