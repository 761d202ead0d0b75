"""The C interface as data: what ``trn3.h`` declares, and where a compiler puts it."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

_ROOT = Path(__file__).resolve().parents[2]
_STRUCTURE = re.compile(r"typedef struct (\w+) \{(.*?)\} \1;")


def header() -> Path:
    """Return where the header is, whatever the folder of its crate is called."""
    (found,) = _ROOT.glob("rust/*/include/trn3.h")
    return found


def compiler() -> str | None:
    """Return the C compiler, if there is one."""
    return os.environ.get("CC") or shutil.which("cc") or shutil.which("gcc")


def record() -> dict[str, dict[str, Any]]:
    """Return constants, functions, structures and other types as they are declared."""
    text = re.sub(r"//.*", "", header().read_text(encoding="utf-8")).replace("\\\n", " ")
    constants = {}
    for name, value in re.findall(r"^#define +(TRN3_\w+) +(.+)$", text, re.MULTILINE):
        # The version's own numbers are what changes.
        is_number = re.fullmatch(r"TRN3_VERSION_(MAJOR|MINOR|PATCH)", name)
        constants[name] = "a number" if is_number else _line(value)
    # The braces of `extern "C"` stand for themselves on a line; those of structures do not.
    declared = _line(re.sub(r'^#.*$|^extern "C" \{$|^\} *$', "", text, flags=re.MULTILINE))
    structures = {
        name: {_name(each): _line(each) for each in fields.split(";") if each.strip()}
        for name, fields in _STRUCTURE.findall(declared)
    }
    functions, types = {}, {}
    for each in map(_line, _STRUCTURE.sub("", declared).split(";")):
        if each.startswith("typedef"):
            types[_name(each)] = each
        elif each:
            functions[each[: each.index("(")].split()[-1].lstrip("*")] = each
    return {
        "constants": constants,
        "functions": functions,
        "structures": structures,
        "types": types,
    }


def _line(text: str) -> str:
    return " ".join(text.split())


def _name(declaration: str) -> str:
    """Return what a field or a type declares: a word after all else, or a pointer to a function."""
    if found := re.search(r"\(\*(\w+)\)", declaration):
        return found[1]
    return str(re.findall(r"\w+", re.sub(r"\[\w+\]$", "", declaration))[-1])


def layout() -> dict[str, dict[str, int]]:
    """Return where the compiler puts each field, and the sizes of structures."""
    program = ["#include <stdio.h>", "#include <trn3.h>", "int main(void) {", 'puts("{");']
    structures = record()["structures"]
    for name, fields in structures.items():
        program += [f'printf("\\"%s\\": {{\\"sizeof\\": %zu", "{name}", sizeof({name}));']
        for field in fields:
            program += [f'printf(", \\"%s\\": %zu", "{field}", offsetof({name}, {field}));']
        program += [f'puts("}}{"," if name != [*structures][-1] else ""}");']
    program += ['puts("}");', "return 0; }"]
    with tempfile.TemporaryDirectory() as folder:
        source, binary = Path(folder) / "layout.c", Path(folder) / "layout"
        source.write_text("\n".join(program), encoding="ascii")
        words = [str(compiler()), "-std=c11", f"-I{header().parent}", str(source), "-o"]
        subprocess.run([*words, str(binary)], check=True, capture_output=True)
        done = subprocess.run([binary], check=True, capture_output=True, text=True)
    found: dict[str, dict[str, int]] = json.loads(done.stdout)
    return found


def look_again(recorded: dict[str, dict[str, int]]) -> dict[str, dict[str, int]]:
    """Return the layout now.

    A structure that begins with its size may grow at its end: a program built before says what it
    knows of. It counts as of the size that it had.
    """
    now = layout()
    for name, places in recorded.items():
        grown = now.get(name, {})
        if grown.get("size") == 0 and grown["sizeof"] > places["sizeof"]:
            known = {field: grown.pop(field) for field in list(grown) if field not in places}
            if all(place >= places["sizeof"] for place in known.values()):
                grown["sizeof"] = places["sizeof"]
            grown |= known
    return now
