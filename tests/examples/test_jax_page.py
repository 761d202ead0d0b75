"""The page on JAX: its programs print what it says, in their order."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

PAGE = Path(__file__).resolve().parents[2] / "docs" / "how-to" / "jax.md"


def test_the_programs_print_what_the_page_says(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    blocks = re.findall(r"```python\n(.*?)```\n+```text\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert len(blocks) == PAGE.read_text().count("```python") > 0
    names: dict[str, object] = {}
    for number, (program, printed) in enumerate(blocks):
        # A file, since refusals name its line.
        path = tmp_path / f"page_{number}.py"
        path.write_text(program)
        exec(compile(program, str(path), "exec"), names)
        assert capsys.readouterr().out == printed
