"""Record the public surface: what users can name, call, type, read and link.

``python tests/surface/record.py --add`` adds what is new to the files of ``tests/surface/recorded``
and refuses, with one line for each loss, if something recorded is gone or changed. Nothing here
takes an entry away: that is done by hand, with a reason.

The record began as version 0.1.0 was. Its files:

- ``python/PACKAGE.json``: names of documented modules, with signatures and members of classes.
- ``modules.json``: all other modules, and the names in them that a documented module offers too.
- ``installed.json``: the modules that `trn3.nki.install` registers, and the names in them.
- ``returned.json``: members of objects that no documented name gives, only calls do.
- ``commands.json``: commands with arguments, options, choices and defaults.
- ``documents/COMMAND.json``: keys and types of what commands print or write for machines.
- ``c.json``: functions, structures, types and constants of the C header, as declared.
- ``c-layout.json``: sizes and offsets of its structures, on a 64-bit machine.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from surface import compare, parts


def _write(name: str, content: Mapping[str, Any]) -> None:
    path = compare.FOLDER / name
    path.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps(content, indent=1, sort_keys=True, ensure_ascii=False)
    path.write_text(text + "\n", encoding="utf-8")


def main(words: list[str]) -> int:
    """Add to the record; 1 if something recorded is lost."""
    if words != ["--add"]:
        sys.exit("usage: python tests/surface/record.py --add")
    lost = [f"{name}: {line}" for name in compare.names() for line in parts.losses(name)]
    if not lost:
        for name, now in parts.record_all():
            before = compare.read(name) if (compare.FOLDER / name).exists() else {}
            _write(name, compare.merged(before, now))
    sys.stderr.writelines(f"lost: {line}\n" for line in lost)
    return 1 if lost else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
