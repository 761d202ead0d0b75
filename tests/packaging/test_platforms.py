"""The platforms of wheels: what auditwheel's word is held against, the workflow, and the page."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

import wheels
from wheels import WheelError

ROOT = Path(__file__).resolve().parents[2]
WORKFLOW = yaml.safe_load((ROOT / ".github/workflows/wheels.yml").read_text())
PAGE = (ROOT / "docs/maintainers/platforms.md").read_text()


def said(tag: str) -> str:
    """Return what auditwheel says of a wheel, as far as it is looked at."""
    return json.dumps({"overall_tag": tag, "versioned_symbols": {"libm.so.6": ["GLIBC_2.35"]}})


@pytest.mark.parametrize("tag", ["manylinux_2_28_x86_64", "manylinux_2_17_x86_64"])
def test_a_wheel_for_old_systems_passes(tag: str) -> None:
    name = "trn3-0.1.0-cp311-abi3-manylinux_2_28_x86_64.whl"
    assert wheels.check(said(tag), name) == tag
    assert wheels.check(said(tag), name.replace("x86_64", "x86_64.manylinux_2_28_x86_64")) == tag


@pytest.mark.parametrize(
    ("tag", "platform", "words"),
    [
        ("manylinux_2_35_x86_64", "manylinux_2_28_x86_64", "needs glibc 2.35, may need 2.28"),
        ("manylinux_2_35_x86_64", "manylinux_2_35_x86_64", "may need 2.28; it has .*GLIBC_2.35"),
        ("manylinux_2_28_x86_64", "manylinux_2_17_x86_64", "needs glibc 2.28, may need 2.17"),
        ("linux_x86_64", "manylinux_2_28_x86_64", "platform is linux_x86_64, must be manylinux"),
        ("manylinux_2_28_x86_64", "linux_x86_64", "platform is linux_x86_64, must be manylinux"),
    ],
)
def test_a_wheel_for_newer_systems_is_refused(tag: str, platform: str, words: str) -> None:
    with pytest.raises(WheelError, match=words):
        wheels.check(said(tag), f"trn3-0.1.0-cp311-abi3-{platform}.whl")


def test_make_wheel_asks_for_the_oldest() -> None:
    assert wheels.OLD_GLIBC == ("--zig", "--compatibility", "manylinux_2_28")
    builds = {
        each["platform"]: each
        for each in WORKFLOW["jobs"]["build"]["strategy"]["matrix"]["include"]
    }
    options = {name: tuple(each["options"].split()) for name, each in builds.items()}
    for name, given in options.items():
        assert given == (wheels.OLD_GLIBC if name.startswith("linux") else ()), name


def steps() -> list[dict[str, Any]]:
    return [step for job in WORKFLOW["jobs"].values() for step in job["steps"]]


def test_the_workflow_is_sound() -> None:
    """Actions are pinned, nothing is published, and no text of a step is made of foreign values."""
    assert WORKFLOW["permissions"] == {"contents": "read"}
    text = (ROOT / ".github/workflows/wheels.yml").read_text()
    assert "secrets" not in text
    for step in steps():
        assert ("uses" in step) != ("run" in step)
        if "uses" in step:
            assert re.fullmatch(r"actions/[a-z-]+@v\d+\.\d+\.\d+", step["uses"])
        else:
            assert "${{" not in step["run"]
            # Elsewhere bash is the default of two of three systems.
            assert step.get("shell") == "bash" or step.get("if") == "runner.os == 'Linux'"
    build, test = WORKFLOW["jobs"]["build"], WORKFLOW["jobs"]["test"]
    assert test["needs"] == "build"
    platforms = {each["platform"] for each in build["strategy"]["matrix"]["include"]}
    matrix = test["strategy"]["matrix"]
    assert {each["name"] for each in matrix["platform"]} == platforms == wheels.TARGETS.keys()
    assert tuple(matrix["python"]) == wheels.PYTHONS
    runners = {each["platform"]: each["runner"] for each in build["strategy"]["matrix"]["include"]}
    assert {each["name"]: each["runner"] for each in matrix["platform"]} == runners
    with (ROOT / "Cargo.toml").open("rb") as source:
        tested = tomllib.load(source)["workspace"]["metadata"]["tested-toolchain"]
    assert WORKFLOW["env"]["RUST"] == tested


def test_files_that_steps_name_are_there() -> None:
    named = {
        word for step in steps() for word in re.findall(r"scripts/\w+\.py", step.get("run", ""))
    }
    assert named == {"scripts/wheels.py"}
    assert all((ROOT / each).is_file() for each in named)
    for name in (*wheels.TESTS, *wheels.SHARED):
        assert (ROOT / "tests" / name).exists(), name


def test_the_page_has_every_platform() -> None:
    rows = re.findall(r"^\| `([\w-]+)` \| `([\w-]+)` \| .* \| .* \| .* \|$", PAGE, re.MULTILINE)
    assert dict(rows) == wheels.TARGETS


def test_the_page_has_every_version() -> None:
    rows = re.findall(r"^\| CPython (3\.\d+) \| (.*) \|$", PAGE, re.MULTILINE)
    assert tuple(version for version, _ in rows) == wheels.PYTHONS


def test_words_are_refused_with_the_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert wheels.main([]) == 2
    assert "audit WHEEL" in capsys.readouterr().err
    assert wheels.main(["audit", "absent.whl"]) == 1
    assert "absent.whl: auditwheel says" in capsys.readouterr().err
