"""Files appear complete or not at all, and one clear error says why not."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from support.profiles import attention, by_hand
from trn3.files import write_files
from trn3.profile import Profile


def test_save_writes_all_files(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="the extra `plot` is not installed")
    profile = attention(3)
    names = {"report.html", "trace.perfetto", "profile.json", "timeline.png", "roofline.png"}
    assert {path.name for path in profile.save(tmp_path)} == names
    assert {path.name for path in tmp_path.iterdir()} == names
    assert Profile.from_json(tmp_path / "profile.json").latency_us == profile.latency_us
    profile.save(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == names


def test_save_needs_a_directory(tmp_path: Path) -> None:
    with pytest.raises(NotADirectoryError, match="missing: is no directory"):
        by_hand().save(tmp_path / "missing")


@pytest.mark.parametrize("name", ["to_json", "to_perfetto"])
def test_a_missing_directory_is_one_clear_error(tmp_path: Path, name: str) -> None:
    path = tmp_path / "missing" / "file"
    with pytest.raises(FileNotFoundError) as caught:
        getattr(by_hand(), name)(path)
    assert caught.value.filename == str(path)


def test_an_existing_directory_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "taken").mkdir()
    with pytest.raises(OSError, match="taken"):
        by_hand().to_json(tmp_path / "taken")
    assert [path.name for path in tmp_path.iterdir()] == ["taken"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_an_unwritable_directory_is_one_clear_error(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    try:
        with pytest.raises(PermissionError) as caught:
            by_hand().to_perfetto(tmp_path / "t")
        assert caught.value.filename == str(tmp_path / "t")
    finally:
        tmp_path.chmod(0o700)


def test_save_changes_nothing_if_one_name_is_taken(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="the extra `plot` is not installed")
    (tmp_path / "roofline.png").mkdir()
    with pytest.raises(IsADirectoryError, match=r"roofline\.png"):
        by_hand().save(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["roofline.png"]


def test_a_failure_leaves_all_files_as_they_were(tmp_path: Path) -> None:
    (tmp_path / "first").write_text("old")

    def fail(path: Path) -> None:
        path.write_text("half")
        raise OSError(28, "No space left on device", str(path))

    with pytest.raises(OSError, match="No space") as caught:
        write_files(
            {tmp_path / "first": lambda path: path.write_text("new"), tmp_path / "second": fail}
        )
    assert caught.value.filename == str(tmp_path / "second")
    assert [path.name for path in tmp_path.iterdir()] == ["first"]
    assert (tmp_path / "first").read_text() == "old"


@pytest.mark.parametrize("stop", [KeyboardInterrupt, MemoryError])
def test_an_interrupt_leaves_nothing(tmp_path: Path, stop: type[BaseException]) -> None:
    def interrupted(path: Path) -> None:
        path.write_text("half")
        raise stop

    with pytest.raises(stop):
        write_files({tmp_path / "file": interrupted})
    assert list(tmp_path.iterdir()) == []


def test_written_files_have_ordinary_permissions(tmp_path: Path) -> None:
    by_hand().to_json(tmp_path / "p.json")
    (tmp_path / "ordinary").touch()
    assert (tmp_path / "p.json").stat().st_mode == (tmp_path / "ordinary").stat().st_mode
