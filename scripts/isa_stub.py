"""Writes the stub of the instructions, python/trn3/_trn3/machine/isa.pyi, from the machine's table.

What stands between the marks of its own part stays as it is: what is no row of the table.
"""

from __future__ import annotations

import re
from pathlib import Path

from trn3.machine.instructions import REQUIRED, InstructionArgument, instructions

STUB = Path(__file__).parents[1] / "python" / "trn3" / "_trn3" / "machine" / "isa.pyi"
WIDTH = 100
BEGIN, END = "# own: begin\n", "# own: end\n"
HEAD = """\
# The instructions, documented by `trn3.nki.isa`. Written by scripts/isa_stub.py, but for what
# stands between the two marks.

from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any, final

from trn3._trn3.machine import NeuronCore, NkiInstruction, NkiTensor, VirtualRegister

"""


def parameter(argument: InstructionArgument) -> str:
    """Return an argument as a signature has it."""
    text = f"{argument.name}: {argument.annotation}"
    if argument.default is REQUIRED:
        return text
    value = argument.default
    # Numbers as ruff writes them.
    words = f'"{value}"' if isinstance(value, str) else repr(value).replace("e+", "e")
    return f"{text} = {words}"


def function(name: str, parameters: list[str], result: str) -> str:
    """Return the declaration of a function, laid out as ruff does."""
    start, end = f"def {name}(", f") -> {result}: ...\n"
    line = ", ".join(parameters)
    if len(start + line + end) - 1 <= WIDTH:
        return start + line + end
    if len(line) + 4 <= WIDTH:
        return f"{start}\n    {line}\n{end}"
    return start + "\n" + "".join(f"    {each},\n" for each in parameters) + end


def render(stub: str) -> str:
    """Return the text of the stub, with its own part as it stands in an older one."""
    own = stub[stub.index(BEGIN) + len(BEGIN) : stub.index(END)]
    names = re.findall(r"^(?:class|def) (\w+)", own, flags=re.MULTILINE)
    declared = sorted([*names, *instructions()])
    parts = [HEAD, "__all__ = [\n", *(f'    "{name}",\n' for name in declared), "]\n\n"]
    parts += [BEGIN, own, END]
    for row in instructions().values():
        parameters = [parameter(argument) for argument in row.arguments]
        parameters = ["core: NeuronCore", *parameters, "name: str | None = None"]
        parts.append(function(row.name, parameters, "NkiInstruction" if row.keys else "Arrival"))
    return "".join(parts)


def main() -> None:
    """Write the stub anew."""
    STUB.write_text(render(STUB.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
