"""The script and the style of reports are what the modules join to."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def joining() -> ModuleType:
    spec = importlib.util.spec_from_file_location("join_report", ROOT / "scripts/join_report.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_what_is_joined_is_what_is_there(joining: ModuleType) -> None:
    assert joining.ROOM == ROOT / "python/trn3/report"
    for name, text in (("report.js", joining.script()), ("report.css", joining.style())):
        assert (joining.ROOM / name).read_text("utf-8") == text, "run scripts/join_report.py"
    assert joining.main(["--check"]) == 0


def test_modules_are_joined_in_the_order_of_imports(joining: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "main.js").write_text('import { b } from "./b.js";\nimport "./c.js";\nb();\n')
    (tmp_path / "b.js").write_text('import {\n  c,\n} from "./c.js";\nexport function b() { c; }\n')
    (tmp_path / "c.js").write_text("export const c = 1;\n")
    joined = joining.script(tmp_path)
    assert joined.index("const c = 1") < joined.index("function b()") < joined.index("\nb();")
    assert "import" not in joined
    assert "export" not in joined


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("export default 1;\n", "is no import or export"),
        ('import * as b from "./b.js";\n', "is no import or export"),
        ('import { main } from "./main.js";\nexport const b = 1;\n', "imports itself"),
        ("const x = 1;\n", "x is a name of"),
        ('export const b = "</script>";\n', "would end"),
    ],
)
def test_what_cannot_be_joined_is_refused(
    joining: ModuleType, tmp_path: Path, text: str, wrong: str
) -> None:
    (tmp_path / "b.js").write_text(text)
    (tmp_path / "main.js").write_text('import "./b.js";\nconst x = 2;\n')
    with pytest.raises(joining.JoinError, match=wrong):
        joining.script(tmp_path)
