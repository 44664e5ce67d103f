"""Files of the user's are whole and private, however many servers share their home."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpucommons.labextension.private_files import write_private


def test_what_another_server_writes_meanwhile_takes_nothing_from_this_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, rename = tmp_path / "file", Path.replace

    def rename_late(new: Path, target: Path) -> Path:
        monkeypatch.undo()
        write_private(path, "the other's, which is longer")
        return rename(new, target)

    monkeypatch.setattr(Path, "replace", rename_late)
    write_private(path, "this one's")

    assert path.read_text() == "this one's"
    assert list(tmp_path.iterdir()) == [path]


def test_what_was_left_beside_it_opens_it_to_nobody(tmp_path: Path) -> None:
    path = tmp_path / "file"
    for each in (path, tmp_path / "file.new"):
        each.touch()
        each.chmod(0o644)
    write_private(path, "private")
    assert path.stat().st_mode & 0o777 == 0o600


def test_what_cannot_be_written_leaves_the_old_one_and_nothing_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write_private(path, "grün")
    with pytest.raises(UnicodeEncodeError):
        write_private(path, "half\ud800")
    assert path.read_text(encoding="utf-8") == "grün"
    assert list(tmp_path.iterdir()) == [path]
