"""A shared volume under a hostile job: the scheduler sees all of it and must be led nowhere."""

from __future__ import annotations

import io
import os
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpucommons.scheduler.core.model.types import AttemptId, Checkpoint, Millis
from gpucommons.scheduler.errors import BadRequest, Conflict, TooLarge
from gpucommons.scheduler.file_storage.job_files import ResultFile
from gpucommons.scheduler.file_storage.volume_files import VolumeFiles
from gpucommons.scheduler.files.confined_files import MAX_MEMBERS, Selection, unpack_into
from gpucommons.scheduler.service.jobs.results import archive, checked
from gpucommons.scheduler.working_folder.pieces import Pieces

MINE = AttemptId("attempt-1")


@pytest.fixture
def files(tmp_path: Path) -> VolumeFiles:
    (tmp_path / "secret").write_text("the scheduler's own")
    (tmp_path / "volume" / "attempts" / MINE / "results").mkdir(parents=True)
    other = tmp_path / "volume" / "attempts" / "attempt-2" / "results"
    other.mkdir(parents=True)
    (other / "theirs").write_text("somebody else's")
    return VolumeFiles(root=tmp_path / "volume")


def mine(files: VolumeFiles) -> Path:
    return files.root / "attempts" / MINE


def a_checkpoint(path: str) -> Checkpoint:
    return Checkpoint(
        attempt_id=MINE, step=1, path=path, size_bytes=1, sha256="0" * 64, at_ms=Millis(0)
    )


def read(files: VolumeFiles) -> dict[str, bytes]:
    return {file.path: b"".join(file.chunks()) for file in files.results(MINE, {})}


def test_results_are_regular_files_at_any_depth(files: VolumeFiles) -> None:
    (mine(files) / "results" / "plots").mkdir()
    (mine(files) / "results" / "plots" / "loss.png").write_bytes(b"png")
    (mine(files) / "results" / "model").write_bytes(b"weights")
    assert read(files) == {"plots/loss.png": b"png", "model": b"weights"}


def test_links_pipes_and_sockets_in_the_results_are_passed_over(files: VolumeFiles) -> None:
    results = mine(files) / "results"
    (results / "passwd").symlink_to("/etc/passwd")
    (results / "secret").symlink_to("../../../../secret")
    (results / "theirs").symlink_to(files.root / "attempts" / "attempt-2" / "results")
    os.mkfifo(results / "pipe")
    (results / "loop").symlink_to(".")
    (results / "good").write_text("good")
    assert read(files) == {"good": b"good"}


def test_a_results_folder_that_is_a_link_holds_nothing(files: VolumeFiles) -> None:
    (mine(files) / "results").rmdir()
    (mine(files) / "results").symlink_to("../attempt-2/results")
    assert read(files) == {}


def test_a_file_swapped_for_a_link_after_it_was_listed_is_not_followed(
    files: VolumeFiles, tmp_path: Path
) -> None:
    place = mine(files) / "results" / "model"
    place.write_bytes(b"weights")
    (listed,) = files.results(MINE, {})
    place.unlink()
    place.symlink_to(tmp_path / "secret")
    with pytest.raises(OSError, match="symbolic"):
        list(listed.chunks())


def test_a_folder_swapped_for_a_link_after_it_was_listed_is_not_followed(
    files: VolumeFiles, tmp_path: Path
) -> None:
    folder = mine(files) / "results" / "deep"
    folder.mkdir()
    (folder / "secret").write_bytes(b"mine")
    (listed,) = files.results(MINE, {})
    (folder / "secret").unlink()
    folder.rmdir()
    folder.symlink_to(tmp_path)
    with pytest.raises(OSError, match="directory"):
        list(listed.chunks())


def test_a_file_that_grows_meanwhile_leaves_the_archive_whole(files: VolumeFiles) -> None:
    results = mine(files) / "results"
    for name in ("a", "b"):
        (results / name).write_bytes(b"x" * 700)
    listed = tuple(files.results(MINE, {}))
    (results / "a").write_bytes(b"y" * 5000)
    stream = io.BytesIO(b"".join(archive(checked(listed, "digits-1"))))
    with tarfile.open(fileobj=stream) as found:
        contents = [found.extractfile(member) for member in found]
        sizes = [len(content.read()) for content in contents if content is not None]
    assert sizes == [700, 700]


@pytest.mark.parametrize("left", [b"z" * 600, b"z", b""])
def test_a_file_that_shrinks_meanwhile_is_not_taken_for_whole(
    files: VolumeFiles, tmp_path: Path, left: bytes
) -> None:
    results = mine(files) / "results"
    for name in ("a", "b", "c"):
        (results / name).write_bytes(b"x" * 700)
    listed = tuple(files.results(MINE, {}))
    (results / "b").write_bytes(left)
    stream = io.BufferedReader(Pieces(archive(checked(listed, "digits-1"))))
    to = tmp_path / "to"
    to.mkdir()
    with pytest.raises(tarfile.ReadError):
        unpack_into(stream, to, ".", Selection(job="digits-1", max_bytes=1 << 20))
    assert [path.name for path in to.iterdir()] == ["a"]


def test_a_file_that_said_it_is_an_exabyte_fills_no_memory() -> None:
    shrunk = ResultFile(path="a", size_bytes=1 << 60, chunks=lambda: iter([b"x"]))
    assert sum(len(piece) for piece in archive((shrunk,))) < 1 << 20


def test_a_trillion_zeros_are_refused_before_any_is_read(files: VolumeFiles) -> None:
    with (mine(files) / "results" / "sparse").open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(Exception, match="1,048,576 MiB"):
        checked(tuple(files.results(MINE, {})), "digits-1")


def test_results_in_more_folders_than_a_walk_goes_through_are_refused_in_words(
    files: VolumeFiles,
) -> None:
    folder = mine(files) / "results"
    for _ in range(101):
        folder /= "a"
    folder.mkdir(parents=True)
    (folder / "leaf").write_text("deep")
    with pytest.raises(TooLarge, match=r"Nothing is sent: .* more than 100 folders in one another"):
        checked(files.results(MINE, {}), "digits-1")
    (folder / "leaf").rename(folder.parent / "leaf")
    folder.rmdir()
    assert read(files) == {"a/" * 100 + "leaf": b"deep"}


def test_more_files_than_are_sent_are_not_even_listed() -> None:
    def endless() -> Iterator[ResultFile]:
        for number in range(MAX_MEMBERS + 1):
            yield ResultFile(path=f"{number}", size_bytes=0, chunks=lambda: iter(()))
        pytest.fail("more was listed than is ever sent")

    with pytest.raises(TooLarge, match="100,000"):
        checked(endless(), "digits-1")


@pytest.mark.parametrize("path", ["checkpoints/step-1", "../attempt-2", "/etc", "checkpoints/.."])
def test_a_receipt_for_what_is_not_there_is_refused(files: VolumeFiles, path: str) -> None:
    with pytest.raises((Conflict, BadRequest)):
        files.check(a_checkpoint(path))


def test_a_receipt_for_a_link_is_refused(files: VolumeFiles) -> None:
    (mine(files) / "checkpoints").symlink_to("../attempt-2/results")
    with pytest.raises(Conflict):
        files.check(a_checkpoint("checkpoints"))
    (mine(files) / "checkpoints").unlink()
    (mine(files) / "checkpoints" / "step-1").mkdir(parents=True)
    files.check(a_checkpoint("checkpoints/step-1"))


def test_old_attempts_are_dropped_without_following_their_links(
    files: VolumeFiles, tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "kept").write_text("kept")
    (mine(files) / "results" / "out").symlink_to(outside)
    (files.root / "attempts" / "linked").symlink_to(outside)
    assert files.prune(needed=lambda name: name == "attempt-2", before_s=2**40) == 1
    assert not mine(files).exists()
    assert (outside / "kept").exists()
    assert (files.root / "attempts" / "attempt-2").exists()


def test_a_folder_that_is_too_deep_for_the_interpreter_is_removed_with_the_others(
    files: VolumeFiles,
) -> None:
    deep = os.open(mine(files), os.O_RDONLY)
    for _ in range(1500):
        os.mkdir("a", dir_fd=deep)
        below = os.open("a", os.O_RDONLY, dir_fd=deep)
        os.close(deep)
        deep = below
    os.close(os.open("leaf", os.O_CREAT | os.O_WRONLY, dir_fd=deep))
    os.close(deep)
    assert files.prune(needed=lambda _: False, before_s=float("inf")) == 2
    assert list((files.root / "attempts").iterdir()) == []


def test_a_link_in_what_is_removed_leads_nowhere(files: VolumeFiles) -> None:
    (mine(files) / "results" / "theirs").symlink_to(files.root / "attempts" / "attempt-2")
    (mine(files) / "more").symlink_to(files.root / "attempts" / "attempt-2")
    files.prune(needed=lambda name: name == "attempt-2", before_s=float("inf"))
    assert [one.name for one in (files.root / "attempts").iterdir()] == ["attempt-2"]
    assert (files.root / "attempts" / "attempt-2" / "results" / "theirs").exists()
