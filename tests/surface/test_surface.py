"""The public surface of version 0.1.0, and what was added since, stands as recorded.

What holds:

- documented modules (`python_names.DOCUMENTED`): every name, signatures without annotations, public
  members and operators of classes. A module that moved counts by its old name, through the table
  of moved names;
- every other module without an underscore: it can be imported by the name that it had, and the
  names of its own that a documented module offers too are in it;
- objects that only calls give (`returned`): their members;
- what `trn3.nki.install` registers: the modules and the names in them;
- commands: arguments in their order, options by every spelling, choices and defaults;
- documents for machines (`documents.COMMANDS`): every key, with the JSON types that it had;
- ``trn3.h``: constants, prototypes, fields and their places. A structure may grow at its end.

Additions are no losses: names, members, options, keys, arguments that need not be given.
`record.py` adds them.
"""

from __future__ import annotations

import sys

import pytest

from surface import c_header, compare, parts


@pytest.mark.parametrize("name", compare.names())
def test_nothing_recorded_is_lost(name: str) -> None:
    if name == "c-layout.json" and (c_header.compiler() is None or sys.maxsize < 2**63 - 1):
        pytest.skip("needs a C compiler for 64 bits")
    lost = parts.losses(name)
    assert not lost, "\n".join(lost)


def test_losses_are_found() -> None:
    recorded = {"f": "(a, /, b=1, *, c=2, **rest)", "g": {"is": "class"}, "h": ["x", "y"]}
    assert not list(compare.losses(recorded, recorded))
    grown = {"f": "(a, /, b=1, d=3, *, c=2, e=(1, 2), **rest)", "g": recorded["g"], "h": "zyx"}
    grown["h"] = [*grown["h"]]
    assert not list(compare.losses(recorded, grown))
    assert compare.merged(recorded, grown) == {**grown, "h": ["x", "y", "z"]}
    for worse in (
        "(a, b=1, *, c=2, **rest)", "(a, /, b=2, *, c=2, **rest)", "(a, /, b=1, *, c=2)",
        "(a, /, d=3, b=1, *, c=2, **rest)", "(a, /, b=1, d, *, c=2, **rest)",
        "(a, /, b=1, *, c, **rest)", "(a, /, b=1, *args, c=2, **rest)x", "method(a)",
    ):  # fmt: skip
        (line,) = compare.losses(recorded, {**recorded, "f": worse})
        assert line == f"/f was {recorded['f']}, is {worse}"
    lost = list(compare.losses(recorded, {"g": {}, "h": ["y"]}))
    assert lost == ["/f is gone", "/g/is is gone", "/h: x is gone"]


def test_types_of_json_may_be_fewer() -> None:
    assert not list(compare.losses({"/a": "null|number"}, {"/a": "number", "/b": "string"}))
    assert not list(compare.losses({"/a": "null"}, {"/a": "number"}))
    assert compare.merged({"/a": "null"}, {"/a": "number"}) == {"/a": "null|number"}
    assert list(compare.losses({"/a": "number"}, {"/a": "null|number"}))
    assert list(compare.losses({"/a": "null|number"}, {"/a": "string"}))
