"""`make` says which toolchain it found, and warns of one older than what is tested."""

from __future__ import annotations

import tomllib

import pytest

from environment import ROOT, describe_toolchain, tested_toolchain


@pytest.mark.parametrize(
    ("found", "line"),
    [
        ("rustc 1.95.0 (59807616e 2026-04-14)", "1.95.0, as tested"),
        ("rustc 1.100.0 (0123abcde 2026-11-28)", "1.100.0, tested with 1.95.0"),
        ("rustc 1.89.0 (29483883e 2025-08-04)", "WARNING: 1.89.0 is older than 1.95.0"),
        ("", "WARNING: rustc does not say its version"),
    ],
)
def test_the_line_about_the_toolchain(found: str, line: str) -> None:
    """Versions compare by number, not by letter."""
    assert describe_toolchain(found, "1.95.0").startswith(line)


def test_what_is_tested_is_no_older_than_what_is_promised() -> None:
    """The manifest states both."""
    manifest = tomllib.loads((ROOT / "Cargo.toml").read_text(encoding="utf-8"))
    promised = manifest["workspace"]["package"]["rust-version"]
    assert [int(part) for part in tested_toolchain().split(".")] >= [
        int(part) for part in promised.split(".")
    ]
