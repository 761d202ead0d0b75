"""The table of the instructions against all that is made from it."""

from __future__ import annotations

import ast
import enum
import importlib.util
import inspect
import json
import re
from pathlib import Path
from typing import Any

import pytest

from support.conformance.coverage import FUNCTIONS, markdown
from support.instructions import recorded, rows, shortened
from trn3._trn3.machine import isa as binding, replay
from trn3.machine.instructions import (
    REQUIRED,
    InstructionDescription,
    dropped_keywords,
    instructions,
)
from trn3.nki import collectives, isa
from trn3.profile.families import FAMILIES, family_of

ROOT = Path(__file__).parents[2]
STUB = ROOT / "python" / "trn3" / "_trn3" / "machine" / "isa.pyi"

ROWS = list(instructions().values())
HELD = list(rows())

#: Arguments of the core that `nki.isa` has under other names, or works out.
RENAMED = {"tile", "double_row", "ocp_rule"}

by_name = pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
held = pytest.mark.parametrize("row", HELD, ids=lambda row: row.name)


def test_the_table_is_whole() -> None:
    """Functions of the binding that take a core are rows, but calls of functions of one's own."""
    takes_core = {
        name
        for name, function in vars(binding).items()
        if inspect.isbuiltin(function)
        and next(iter(inspect.signature(function).parameters)) == "core"
    }
    assert takes_core - {"gpsimd_call", "collective"} == set(instructions())
    assert len(ROWS) == 50


@by_name
def test_binding_takes_what_the_table_says(row: InstructionDescription) -> None:
    first, *parameters, last = inspect.signature(getattr(binding, row.name)).parameters.values()
    assert first.name == "core"
    assert (last.name, last.default) == ("name", None)
    assert [each.name for each in parameters] == [each.name for each in row.arguments]
    for parameter, argument in zip(parameters, row.arguments, strict=True):
        default = inspect.Parameter.empty if argument.default is REQUIRED else argument.default
        assert parameter.default == default, argument.name
        assert type(parameter.default) is type(default), argument.name


def declared() -> dict[str, ast.FunctionDef]:
    module = ast.parse(STUB.read_text(encoding="utf-8"))
    return {node.name: node for node in module.body if isinstance(node, ast.FunctionDef)}


@by_name
def test_stub_says_what_the_table_says(row: InstructionDescription) -> None:
    function = declared()[row.name].args
    core, *arguments, name = function.args
    assert (core.arg, name.arg) == ("core", "name")
    texts = [ast.unparse(each.annotation) for each in arguments if each.annotation]
    assert texts == [each.annotation for each in row.arguments]
    assert [each.arg for each in arguments] == [each.name for each in row.arguments]
    defaults = [ast.literal_eval(each) for each in function.defaults]
    given = [each.default for each in row.arguments if each.default is not REQUIRED]
    assert defaults == [*given, None]


def test_stub_is_written_from_the_table() -> None:
    spec = importlib.util.spec_from_file_location("isa_stub", ROOT / "scripts" / "isa_stub.py")
    assert spec is not None
    assert spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    text = STUB.read_text(encoding="utf-8")
    assert text == script.render(text), "run: python scripts/isa_stub.py"


def plain(default: Any) -> Any:
    """Return a default of `nki.isa` as the core gets it."""
    if isinstance(default, enum.Enum):
        return None if default.name == "unknown" else default.name
    return default


@by_name
def test_functions_of_kernels_take_what_the_table_says(row: InstructionDescription) -> None:
    parameters = inspect.signature(getattr(isa, row.name)).parameters
    arguments = [each for each in row.arguments if each.name not in RENAMED]
    names = [each.name for each in arguments]
    assert [name for name in parameters if name in names] == names
    for argument in arguments:
        given = parameters[argument.name].default
        if argument.default is REQUIRED or given is ...:
            continue
        assert plain(given) == argument.default, argument.name


@by_name
def test_families_are_colours(row: InstructionDescription) -> None:
    assert row.family in FAMILIES
    assert family_of(row.name) == family_of(f"{row.name.upper()}(x)") == row.family


def test_coverage_page_has_every_instruction() -> None:
    """The page has a line for each, with its engines; trn3's own instruction is not NKI's."""
    lines = markdown().splitlines()
    for row in ROWS:
        found = [line for line in lines if line.startswith(f"| `{row.name}` | ")]
        assert len(found) == (0 if row.is_own else 1)
        assert row.is_own or found[0].split(" | ")[1] == ", ".join(row.engines)
        assert row.is_own or row.name in FUNCTIONS
    assert [row.name for row in ROWS if row.is_own] == ["nc_matmul_sparse"]


def test_enums_of_the_table_are_those_of_kernels() -> None:
    named = {each.enum: each for row in ROWS for each in row.arguments if each.enum is not None}
    assert set(named) == {"dge_mode", "dma_engine", "engine", "oob_mode", "reduce_cmd"}
    for name, argument in named.items():
        kind = getattr(isa, name)
        assert issubclass(kind, enum.Enum)
        assert argument.default in {*kind.__members__, None, REQUIRED}


def test_dropped_keywords_are_gone_from_instructions_that_are_there() -> None:
    for (name, keyword), instead in dropped_keywords().items():
        assert hasattr(isa if name in instructions() else collectives, name)
        if name in instructions():
            assert keyword not in {each.name for each in instructions()[name].arguments}
        assert instead.startswith(("it is ", "the type comes "))


@held
def test_programs_hold_every_instruction(row: InstructionDescription) -> None:
    """A step has the table's entries; the program runs, with the table's defaults left out too."""
    program = recorded(row.name)
    (step,) = (step for step in program["steps"] if step["op"] == row.name)
    assert set(step) <= {"op", *row.keys}
    # Time alone, but for what has to know a value: nothing was written to the tiles.
    device = json.dumps({"arch": "trn3", "values": row.name == "register_load"})
    texts = [json.dumps(each) for each in (program, shortened(program, row))]
    times = [replay([text], device, [[]])[0][1] for text in texts]
    assert times[0] == times[1] > 0


def test_the_example_of_the_page_is_a_row() -> None:
    """The page's function calls what the row of its example describes, by the row's names."""
    page = (ROOT / "docs" / "maintainers" / "add-an-instruction.md").read_text(encoding="utf-8")
    (function,) = ast.parse(page.split("```python\n")[1].split("```")[0]).body
    assert isinstance(function, ast.FunctionDef)
    table = ROOT / "rust" / "machine" / "src" / "isa" / "table" / "rows.rs"
    row = table.read_text(encoding="utf-8").split('#[cfg(feature = "example-instruction")]')[1]
    name, arguments = re.findall(r"(\w+)\(([^)]*)\)", row)[0]
    described = re.findall(r"(\w+): \w+(?: = ([\w.]+))?", arguments)
    assert name == function.name
    assert [each.arg for each in function.args.args] == [each for each, _ in described] + ["name"]
    defaults = [ast.literal_eval(default) for _, default in described if default]
    assert [ast.literal_eval(each) for each in function.args.defaults] == [*defaults, None]
    (call,) = (node for node in ast.walk(function) if isinstance(node, ast.Return))
    assert isinstance(call.value, ast.Call)
    given = [*(ast.unparse(each) for each in call.value.args[1:])]
    given += [each.arg or "" for each in call.value.keywords]
    assert given == [each for each, _ in described] + ["name"]
