"""What lay in shared memory comes back, and its archive leads nowhere that its user could not go."""

from __future__ import annotations

import io
import os
import tarfile
from pathlib import Path

import pytest

from gpucommons.gpu.hibernation.inside import shared_memory
from gpucommons.gpu.hibernation.process_image import NO_DEADLINE


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    place = tmp_path / "shm"
    place.mkdir()
    monkeypatch.setattr(shared_memory, "_PLACE", place)
    return place


def test_what_lay_there_comes_back(tmp_path: Path, place: Path) -> None:
    (place / "sem.one").write_bytes(b"1")
    shared_memory.pack(tmp_path / "shm.tar", NO_DEADLINE)
    (place / "sem.one").unlink()

    shared_memory.unpack(tmp_path / "shm.tar")

    assert (place / "sem.one").read_bytes() == b"1"


def test_an_archive_does_not_reach_what_this_process_has_open(tmp_path: Path, place: Path) -> None:
    unseen = tmp_path / "unseen"
    unseen.mkdir()
    (unseen / "core-2.img").write_bytes(b"looked at")
    held = os.open(unseen, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    up = "../" * len(place.parts)
    with tarfile.open(tmp_path / "shm.tar", "w") as archive:
        member = tarfile.TarInfo(f"{up}proc/self/fd/{held}/core-2.img")
        member.size = 6
        archive.addfile(member, io.BytesIO(b"forged"))

    with pytest.raises(OSError, match=r"shm\.tar"):
        shared_memory.unpack(tmp_path / "shm.tar")

    os.close(held)
    assert (unseen / "core-2.img").read_bytes() == b"looked at"


def test_what_is_no_archive_is_an_error(tmp_path: Path, place: Path) -> None:
    (tmp_path / "shm.tar").write_bytes(b"x" * 600)

    with pytest.raises(OSError, match="Invalid argument"):
        shared_memory.unpack(tmp_path / "shm.tar")
    assert not any(place.iterdir())
