"""The parts of the record: how each is made, and how each is found again."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from surface import c_header, commands, compare, documents, python_names, returned

#: Runs a function of `python_names` on what comes in; the answer goes out.
_ELSEWHERE = """
import json, sys
from surface import python_names
json.dump(getattr(python_names, sys.argv[1])(*json.load(sys.stdin)), sys.stdout)
"""


def record_all() -> Iterator[tuple[str, Any]]:
    """Give every file of the record, by name, as the product is now."""
    files: dict[str, Any] = defaultdict(dict)
    for module, names in python_names.record().items():
        package = module.removeprefix("trn3.")
        if not package.startswith("nki."):
            package = package.partition(".")[0]
        files[f"python/{package}.json"][module] = names
    yield from files.items()
    yield "modules.json", python_names.record_inner()
    yield "installed.json", _elsewhere("record_installed")
    yield "returned.json", returned.record()
    yield "commands.json", commands.record()
    yield "c.json", c_header.record()
    yield "c-layout.json", c_header.layout()
    for key, paths in documents.record().items():
        yield f"documents/{key}.json", paths


def losses(name: str) -> list[str]:
    """Return what of one file of the record is lost."""
    recorded = compare.read(name)
    return list(compare.losses(recorded, _now(name, recorded)))


def _now(name: str, recorded: Any) -> Any:
    if name.startswith("python/"):
        return python_names.look_again(recorded)
    if name == "modules.json":
        return python_names.look_again_inner(recorded)
    if name == "installed.json":
        return _elsewhere("look_again_installed", recorded)
    if name == "returned.json":
        return returned.record()
    if name == "commands.json":
        return commands.record()
    if name == "c.json":
        return c_header.record()
    if name == "c-layout.json":
        return c_header.look_again(recorded)
    if name.startswith("documents/"):
        key = name.removeprefix("documents/").removesuffix(".json")
        return documents.record()[key]
    raise AssertionError(name)


def _elsewhere(function: str, *arguments: Any) -> Any:
    done = subprocess.run(
        [sys.executable, "-c", _ELSEWHERE, function],
        input=json.dumps(arguments),
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    return json.loads(done.stdout)
