"""The page on tables of Parquet says which fields are filled."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from trn3.__main__ import main
from trn3.profile.parquet import explorer_schema

parquet: Any = pytest.importorskip("pyarrow.parquet", reason="the extra `parquet` is not installed")
duckdb = pytest.importorskip("duckdb", reason="the extra `dev` is not installed")

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "how-to" / "neuron-explorer.md").read_text()
ENGINES = ("tensor", "vector", "scalar", "gpsimd", "sync")


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder in which the page's command ran."""
    (command,) = re.findall(r"```sh\n(trn3 .*?)\n```", PAGE)
    here = tmp_path_factory.mktemp("page")
    words = shlex.split(command)[1:]
    words[1] = str(ROOT / words[1])
    with pytest.MonkeyPatch.context() as patched:
        patched.chdir(here)
        assert main(words) == 0
    return here


def test_filled_fields_are_listed(home: Path) -> None:
    (block,) = re.findall(r"<!-- filled: begin -->(.*?)<!-- filled: end -->", PAGE, re.DOTALL)
    listed: dict[str, set[str]] = {}
    for names, _, filled in re.findall(r"^\| (`.*?) \| (.*?) \| (.*?) \|$", block, re.MULTILINE):
        for name in re.findall(r"`(\w+)`", names):
            fields = set(re.findall(r"`(\w+)`", filled))
            ends = {field for field in fields if field.startswith("_")}
            fields |= {f"{engine}_engine{end}" for engine in ENGINES for end in ends}
            documented = explorer_schema().tables[name]
            listed[name] = set(documented) if filled == "all" else fields - ends
    found = {}
    for file in (home / "tables").iterdir():
        table = parquet.read_table(file)
        found[file.stem] = {
            name
            for name in explorer_schema().tables[file.stem]
            if table[name].null_count < len(table)
        }
    assert listed == found
