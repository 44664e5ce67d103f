"""A snapshot's name is proof of its content."""

from __future__ import annotations

import hashlib
import os
import stat
from contextlib import ExitStack
from pathlib import Path

import pytest

from gpucommons.scheduler.errors import BadRequest, NotFound, TooLarge, Unavailable
from gpucommons.scheduler.files.snapshots import LEFT_FREE_BYTES, Snapshots

CONTENT = b"files" * 1000
NAME = hashlib.sha256(CONTENT).hexdigest()


def chunks() -> list[bytes]:
    return [CONTENT[:7], CONTENT[7:]]


def test_what_was_uploaded_is_there_under_its_hash(tmp_path: Path) -> None:
    snapshots = Snapshots(tmp_path / "snapshots")
    assert not snapshots.has(NAME)
    assert snapshots.put(NAME, chunks()) == len(CONTENT)
    assert snapshots.put(NAME, chunks()) == len(CONTENT)
    assert snapshots.has(NAME)
    assert snapshots.path(NAME).read_bytes() == CONTENT
    assert stat.S_IMODE(snapshots.path(NAME).stat().st_mode) == 0o600


def test_other_bytes_than_announced_are_refused_and_leave_nothing(tmp_path: Path) -> None:
    snapshots = Snapshots(tmp_path)
    with pytest.raises(BadRequest, match="does not match"):
        snapshots.put(NAME, [CONTENT, b"more"])
    assert list(tmp_path.iterdir()) == []


def test_too_much_is_refused_as_soon_as_it_is_too_much(tmp_path: Path) -> None:
    snapshots = Snapshots(tmp_path, max_bytes=10)
    taken: list[int] = []

    def endless() -> object:
        while True:
            taken.append(1)
            yield b"x" * 4

    with pytest.raises(TooLarge):
        snapshots.put(NAME, endless())  # type: ignore[arg-type] # a generator of bytes
    assert len(taken) == 3
    assert list(tmp_path.iterdir()) == []


def test_an_upload_that_breaks_off_leaves_nothing(tmp_path: Path) -> None:
    with Snapshots(tmp_path).receive(NAME) as receiving:
        receiving.write(b"half")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["", "../../etc/passwd", NAME.upper(), NAME + "0", NAME + "\n"])
def test_only_hashes_are_names(tmp_path: Path, name: str) -> None:
    snapshots = Snapshots(tmp_path)
    assert not snapshots.has(name)
    with pytest.raises(NotFound):
        snapshots.path(name)
    with pytest.raises(BadRequest):
        snapshots.receive(name)


def test_what_is_about_to_be_used_again_counts_as_new(tmp_path: Path) -> None:
    snapshots = Snapshots(tmp_path)
    assert not snapshots.renew(NAME)
    snapshots.put(NAME, chunks())
    os.utime(snapshots.path(NAME), (100, 100))
    assert snapshots.renew(NAME)
    assert snapshots.prune(needed=lambda _: False, before_s=1000) == 0


def test_old_ones_that_nobody_needs_are_dropped(tmp_path: Path) -> None:
    snapshots = Snapshots(tmp_path)
    names = []
    for content in (b"old", b"needed", b"young"):
        names.append(hashlib.sha256(content).hexdigest())
        snapshots.put(names[-1], [content])
    for name in names[:2]:
        os.utime(snapshots.path(name), (100, 100))
    assert snapshots.prune(needed=names[1].__eq__, before_s=1000) == 1
    assert [snapshots.has(name) for name in names] == [False, True, True]


def test_one_that_is_renewed_while_its_need_is_looked_up_stays(tmp_path: Path) -> None:
    snapshots = Snapshots(tmp_path)
    snapshots.put(NAME, chunks())
    os.utime(snapshots.path(NAME), (100, 100))

    def needed(name: str) -> bool:
        assert snapshots.renew(name)
        return False

    assert snapshots.prune(needed=needed, before_s=1000) == 0
    assert snapshots.has(NAME)


def test_uploads_leave_room_for_the_schedulers_own_state(tmp_path: Path) -> None:
    free = [LEFT_FREE_BYTES + len(CONTENT)]
    snapshots = Snapshots(tmp_path, max_bytes=len(CONTENT), free_bytes=lambda _folder: free[0])
    assert snapshots.put(NAME, chunks()) == len(CONTENT)

    free[0] -= 1
    with pytest.raises(Unavailable, match="almost full"):
        snapshots.put("0" * 64, chunks())
    assert snapshots.has(NAME)


def test_uploads_at_once_leave_room_together(tmp_path: Path) -> None:
    size = len(CONTENT)
    free = LEFT_FREE_BYTES + 2 * size

    def free_bytes(folder: Path) -> int:
        return free - sum(path.stat().st_size for path in folder.iterdir())

    snapshots = Snapshots(tmp_path, max_bytes=size, free_bytes=free_bytes)
    names = ["0" * 64, "1" * 64, "2" * 64]
    with ExitStack() as stack:
        begun = [stack.enter_context(snapshots.receive(name)) for name in names]

        def write_all() -> None:
            for _ in range(size // 100):
                for one in begun:
                    one.write(CONTENT[:100])
                    one._file.flush()

        with pytest.raises(Unavailable, match="almost full"):
            write_all()
        # A write may go beyond by its own size; with chunks of 64 KiB that is nothing.
        assert free_bytes(tmp_path) >= LEFT_FREE_BYTES - 100
    assert list(tmp_path.iterdir()) == []


def test_what_vanishes_during_a_look_stops_no_look(tmp_path: Path) -> None:
    snapshots = Snapshots(tmp_path)
    snapshots.put(NAME, chunks())
    os.utime(snapshots.path(NAME), (100, 100))
    (tmp_path / ".gone").symlink_to(tmp_path / "nowhere")
    assert snapshots.prune(needed=lambda _: False, before_s=1000) == 1
