"""Files stay short, and their names apart."""

from __future__ import annotations

from pathlib import Path

import pytest

from house import sizes
from support.trees import RULES, plant


def test_a_long_file_is_found(tmp_path: Path) -> None:
    """501 lines are too many; 500 are not, and tests may have more."""
    files = {
        "python/trn3/long.py": "\n" * 501,
        "python/trn3/fits.py": "\n" * 500,
        "rust/ground/src/long.rs": "\n" * 600,
        "rust/ground/src/long/tests.rs": "\n" * 600,
        "rust/ground/src/tests/cases.rs": "\n" * 600,
        "rust/ground/src/long_tests.rs": "\n" * 600,
        "rust/ground/tests/long.rs": "\n" * 600,
    }
    root = plant(tmp_path, files)
    found = {finding.key: finding.text for finding in sizes.find_long(root, RULES)}
    assert found == {
        "python/trn3/long.py": "501 lines; at most 500",
        "rust/ground/src/long.rs": "600 lines; at most 500",
    }
    # Of 0 (the package's own page), 500, 501 and 600.
    assert sizes.median(root) == 500.5


@pytest.mark.parametrize(
    ("one", "other", "pair"),
    [
        ("python/trn3/a/dtype.py", "python/trn3/b/dtypes.py", "python/trn3 dtype dtypes"),
        ("python/trn3/system/x.py", "python/trn3/systems.py", "python/trn3 system systems"),
        ("rust/g/src/fp4.rs", "rust/g/src/fp8.rs", "rust/g/src fp4 fp8"),
        ("rust/g/src/view/mod.rs", "rust/g/src/a/views.rs", "rust/g/src view views"),
    ],
)
def test_names_that_are_nearly_the_same_are_found(
    tmp_path: Path, one: str, other: str, pair: str
) -> None:
    """A letter or a number at the end is no difference that a reader sees."""
    root = plant(tmp_path, {one: "", other: ""})
    assert [finding.key for finding in sizes.find_alike(root, RULES)] == [pair]


def test_other_trees_and_other_words_are_free(tmp_path: Path) -> None:
    """Two crates may call their files as they like; an excused pair is excused while it exists."""
    files = {
        "rust/g/src/view.rs": "",
        "rust/h/src/views.rs": "",
        "rust/h/src/viewpoint.rs": "",
        "rust/h/src/avx2.rs": "",
        "rust/h/src/avx512.rs": "",
    }
    excuses = {"avx2 avx512": "the levels' own names", "fp4 fp8": "gone"}
    rules = {**RULES, "files": {"alike": excuses}}
    found = sizes.find_alike(plant(tmp_path, files), rules)
    assert [finding.key for finding in found] == ["excuse fp4 fp8"]
