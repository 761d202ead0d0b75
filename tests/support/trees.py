"""Small trees of sources with something wrong in them."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

import pytest

#: Rules as `house.toml` has them, for three rooms and two doors.
RULES = {
    "python": {
        "rooms": {
            "machine": [],
            "system": ["machine"],
            "planner": ["system"],
            "nki": ["planner"],
            "cli": ["nki"],
        },
        "doors": {"nki": ["trn3.nki", "trn3.nki.isa"]},
        "bindings": {"machine": ["machine", "nki"]},
        "today": {},
    },
    "rust": {"rooms": {"ground": [], "wall": ["ground"], "roof": ["wall"]}},
    "class_names": {"bindings": ["roof"], "python": {}, "rust": {}},
    "private_names": {},
    "files": {"lines": 500, "alike": {}},
    "python_lines": {
        "limit": 5,
        "why": {"trn3": "front", "machine": "values", "nki.isa": "kernels"},
    },
    "tests": {
        "lines": 600,
        "helpers": ["support"],
        "compiled": ["bindings"],
        "others": {"support": "helpers", "bindings": "doors"},
    },
    "figures": {"homes": ["specs"], "no_hardware": [], "others": [], "excuses": {}},
}


def plant(root: Path, files: Mapping[str, str]) -> Path:
    """Write files below a folder, with the ``__init__`` of every package among them."""
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        folder = path.parent
        while path.suffix == ".py" and folder.name != "python" and folder != root:
            (folder / "__init__.py").touch()
            folder = folder.parent
    return root


def plant_crates(root: Path, files: Mapping[str, str], **dependencies: list[str]) -> Path:
    """Write a workspace of crates, each with what it depends on, and files below ``rust``."""
    if shutil.which("cargo") is None:
        pytest.skip("reading a workspace needs cargo on the path; `make test` puts it there")
    members = ", ".join(f'"rust/{name}"' for name in dependencies)
    plant(root, {"Cargo.toml": f"[workspace]\nresolver = '3'\nmembers = [{members}]\n"})
    for name, others in dependencies.items():
        lines = [f'[package]\nname = "{name}"\nedition = "2024"\n[dependencies]']
        lines += [f'{other} = {{ path = "../{other}" }}' for other in others]
        plant(root / "rust" / name, {"Cargo.toml": "\n".join(lines), "src/lib.rs": ""})
    return plant(root / "rust", files).parent
