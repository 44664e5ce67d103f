"""Jobs' files in a bucket: whose links, what counts as complete, what is kept."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace

import pytest
from pydantic import ValidationError
from storages import LinkedMemory

from gpucommons.scheduler import models
from gpucommons.scheduler.core.model.types import (
    Attempt,
    AttemptId,
    AttemptState,
    Checkpoint,
    HoldClass,
    Kind,
    Millis,
    PoolName,
    Role,
    Spec,
    State,
    TeamName,
    UserName,
    Workload,
    WorkloadId,
)
from gpucommons.scheduler.errors import BadRequest, Conflict, TooLarge
from gpucommons.scheduler.file_storage import bucket_files
from gpucommons.scheduler.file_storage.base import Changed, Stored
from gpucommons.scheduler.file_storage.bucket_files import BucketFiles
from gpucommons.scheduler.file_storage.job_files import publish_latest
from gpucommons.scheduler.in_pod.worker import batches


@pytest.fixture
def storage() -> LinkedMemory:
    return LinkedMemory()


@pytest.fixture
def files(storage: LinkedMemory) -> BucketFiles:
    return BucketFiles(storage=storage, part_bytes=10)


def an_attempt(number: int, *, resumed_from: Checkpoint | None = None) -> Attempt:
    return Attempt(
        attempt_id=AttemptId(f"attempt-{number}"),
        workload_id=WorkloadId("job-1"),
        number=number,
        state=AttemptState.RUNNING,
        hold_class=HoldClass.GUARANTEED,
        placements=(),
        reserved_ms=Millis(0),
        resumed_from=resumed_from,
    )


def a_checkpoint(attempt: int, step: int, size_bytes: int = 3) -> Checkpoint:
    return Checkpoint(
        attempt_id=AttemptId(f"attempt-{attempt}"),
        step=step,
        path=f"checkpoints/step-{step}",
        size_bytes=size_bytes,
        sha256="0" * 64,
        at_ms=Millis(0),
    )


def a_job(checkpoint: Checkpoint | None, *attempts: Attempt, kept: int = 2) -> Workload:
    spec = Spec(
        kind=Kind.TRAINING,
        name="digits-1",
        team=TeamName("vision"),
        owner=UserName("ann"),
        submitted_by=UserName("ann"),
        pools=(PoolName("gpu"),),
        roles=(Role(command=("true",)),),
        checkpoints_kept=kept,
    )
    return Workload(
        workload_id=WorkloadId("job-1"),
        spec=spec,
        state=State.RUNNING,
        submitted_ms=Millis(0),
        since_ms=Millis(0),
        attempts=attempts or (an_attempt(1),),
        checkpoint=checkpoint,
    )


def asked(files: BucketFiles, folder: str, **sizes: int) -> models.UploadList:
    listed = [models.FileSize(path=path, size_bytes=size) for path, size in sizes.items()]
    request = models.UploadRequest(folder=folder, files=listed)
    return files.uploads(AttemptId("attempt-1"), request)


def test_links_lead_below_the_attempts_own_folder(files: BucketFiles) -> None:
    (found,) = asked(files, "results", model=10).files
    assert [link.partition("?")[0] for link in found.links] == [
        "http://storage.test/PUT/attempts/attempt-1/results/model"
    ]


@pytest.mark.parametrize(
    "folder",
    [
        "checkpoints",
        "checkpoints/.step-1.partial",
        "checkpoints/step-1/more",
        "results/../../attempt-2/results",
        "../attempt-2/results",
        "jobs/job-1",
        "latest",
        "results\n",
    ],
)
def test_no_other_folder_is_ever_linked(files: BucketFiles, folder: str) -> None:
    with pytest.raises((BadRequest, ValueError)):
        asked(files, folder, a=1)


@pytest.mark.parametrize(
    "path", ["../a", "/etc/passwd", "a/../../../attempt-2/x", "a//b", "./a", ".gpucommons-part-1"]
)
def test_no_file_leads_out_of_its_folder(files: BucketFiles, path: str) -> None:
    with pytest.raises((BadRequest, ValueError)):
        asked(files, "results", **{path: 1})


def test_large_files_go_in_parts_and_come_back_whole(
    files: BucketFiles, storage: LinkedMemory
) -> None:
    content = b"0123456789abcdefghijXYZ"
    (found,) = asked(files, "results", **{"deep/model": len(content)}).files
    assert len(found.links) == 3
    for number, link in enumerate(found.links):
        key = link.partition("?")[0].removeprefix("http://storage.test/PUT/")
        storage.fill({key: content[number * 10 : (number + 1) * 10]})
    storage.fill({"attempts/attempt-1/results/deep/log": b"small"})
    results = {f.path: b"".join(f.chunks()) for f in files.results(AttemptId("attempt-1"), {})}
    assert results == {"deep/model": content, "deep/log": b"small"}


def test_one_request_gets_no_more_links_than_the_scheduler_makes_at_once(
    files: BucketFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    most = {"a": 10 * (bucket_files.MAX_PARTS - 1), "b": 1}
    assert len(asked(files, "results", **most).files) == 2
    monkeypatch.setattr(bucket_files, "checked_key", lambda _key: pytest.fail("a key was made"))
    with pytest.raises(TooLarge, match="2,001 parts"):
        asked(files, "results", **most, c=1)


def test_a_worker_asks_for_no_more_links_than_one_request_gets() -> None:
    sizes = {f"shard-{number:02d}": 80 << 30 for number in range(64)}
    sizes |= {f"small-{number:04d}": 1 for number in range(2_000)}
    asked_for = list(batches(sizes))
    assert [name for batch in asked_for for name in batch] == sorted(sizes)
    for batch in asked_for:
        assert len(batch) <= 500
        parts = sum(-(-sizes[name] // bucket_files.PART_BYTES) for name in batch)
        assert parts <= bucket_files.MAX_PARTS
    assert list(batches({"a": 1 << 40, "b": 1 << 40})) == [["a"], ["b"]]


def test_no_file_is_larger_than_a_tebibyte() -> None:
    models.FileSize(path="a", size_bytes=1 << 40)
    with pytest.raises(ValidationError):
        models.FileSize(path="a", size_bytes=(1 << 40) + 1)


def test_a_folder_of_endless_files_is_refused_before_it_is_read_whole(
    files: BucketFiles, storage: LinkedMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = "attempts/attempt-1/results"

    def endless(_folder: str) -> Iterator[Stored]:
        for number in range(bucket_files.MAX_MEMBERS + 1):
            yield Stored(key=f"{root}/{number}", size_bytes=1, modified_s=0.0)
        pytest.fail("more was read than anybody may have")

    monkeypatch.setattr(storage, "below", endless)
    with pytest.raises(TooLarge, match="fewer"):
        list(files.results(AttemptId("attempt-1"), {}))


def test_a_receipt_counts_only_when_all_its_bytes_are_stored(
    files: BucketFiles, storage: LinkedMemory
) -> None:
    storage.fill({"attempts/attempt-1/checkpoints/step-5/a": b"12"})
    with pytest.raises(Conflict, match="2 are stored"):
        files.check(a_checkpoint(1, 5))
    storage.fill({"attempts/attempt-1/checkpoints/step-5/b": b"3"})
    files.check(a_checkpoint(1, 5))
    with pytest.raises(BadRequest):
        files.check(replace(a_checkpoint(1, 5), path="results"))


def test_a_checkpoint_of_more_files_than_one_answer_has_links_is_refused_with_its_receipt(
    files: BucketFiles, storage: LinkedMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bucket_files, "MAX_CHECKPOINT_FILES", 3)
    step = "attempts/attempt-1/checkpoints/step-5"
    storage.fill({f"{step}/{name}": b"1" for name in "abc"})
    files.check(a_checkpoint(1, 5))
    assert len(files.checkpoint_files(a_checkpoint(1, 5)) or ()) == 3
    # Nor does one become so later.
    storage.fill({f"{step}/d": b""})
    with pytest.raises(TooLarge, match="more than 3 files: pack them into fewer"):
        files.check(a_checkpoint(1, 5))
    with pytest.raises(TooLarge, match="more than 3 files"):
        files.checkpoint_files(a_checkpoint(1, 5))


def latest(storage: LinkedMemory) -> tuple[int, int]:
    found = storage.read("jobs/job-1/latest")
    assert found is not None
    document = json.loads(found[0])
    return document["attempt"], document["step"]


def test_latest_only_ever_moves_forward(storage: LinkedMemory) -> None:
    both = (an_attempt(1), an_attempt(2))
    assert publish_latest(storage, a_job(a_checkpoint(1, 5), *both))
    assert publish_latest(storage, a_job(a_checkpoint(2, 3), *both))
    assert not publish_latest(storage, a_job(a_checkpoint(1, 9), *both))
    assert not publish_latest(storage, a_job(a_checkpoint(2, 3), *both))
    assert latest(storage) == (2, 3)


class Meddled(LinkedMemory):
    """Another leader writes between our look and our write."""

    def __init__(self, theirs: Workload) -> None:
        super().__init__()
        self.theirs: Workload | None = theirs
        self.refused = 0

    def write(self, key: str, content: bytes, *, version: str | None) -> str:
        if self.theirs is not None:
            theirs, self.theirs = self.theirs, None
            assert publish_latest(self, theirs)
        try:
            return super().write(key, content, version=version)
        except Changed:
            self.refused += 1
            raise


def test_of_two_leaders_the_one_behind_is_refused_by_the_storage() -> None:
    both = (an_attempt(1), an_attempt(2))
    storage = Meddled(a_job(a_checkpoint(2, 1), *both))
    assert not publish_latest(storage, a_job(a_checkpoint(1, 7), *both))
    assert storage.refused == 1
    assert latest(storage) == (2, 1)


def test_the_newest_checkpoints_are_kept_and_one_on_its_way_is_left_alone(
    files: BucketFiles, storage: LinkedMemory
) -> None:
    root = "attempts/attempt-1/checkpoints"
    storage.fill({f"{root}/step-{step}/a": b"123" for step in (2, 9, 10, 11)})
    files.accepted(a_job(a_checkpoint(1, 10), kept=2))
    kept = {one.key.split("/")[3] for one in storage.below(root)}
    assert kept == {"step-9", "step-10", "step-11"}


def test_of_a_step_that_was_saved_again_the_last_is_kept_and_one_on_its_way_is_left_alone(
    files: BucketFiles, storage: LinkedMemory
) -> None:
    root = "attempts/attempt-1/checkpoints"
    names = ("step-2.1", "step-9", "step-9.20", "step-9.100", "step-10", "step-10.3", "step-10.4")
    storage.fill({f"{root}/{name}/a": b"123" for name in names})
    accepted = replace(a_checkpoint(1, 10), path="checkpoints/step-10.3")
    files.accepted(a_job(accepted, an_attempt(1), kept=2))
    kept = {one.key.split("/")[3] for one in storage.below(root)}
    assert kept == {"step-9.100", "step-10.3", "step-10.4"}
    for path in ("checkpoints/step-10.4", "checkpoints/step-10.3"):
        files.accepted(a_job(replace(accepted, path=path), an_attempt(1), kept=2))
    published = storage.read("jobs/job-1/latest")
    assert published is not None
    assert json.loads(published[0])["path"].endswith("step-10.4")


def test_checkpoints_of_earlier_attempts_go_when_nobody_resumes_from_them(
    files: BucketFiles, storage: LinkedMemory
) -> None:
    first = a_checkpoint(1, 4)
    attempts = [replace(an_attempt(1), state=AttemptState.ENDED)]
    storage.fill({f"attempts/attempt-{n}/checkpoints/step-4/a": b"123" for n in (1, 2)})
    storage.fill({"attempts/attempt-1/results/r": b"123"})
    files.accepted(a_job(first, *attempts, an_attempt(2, resumed_from=first)))
    assert storage.head("attempts/attempt-1/checkpoints/step-4/a") is not None
    files.accepted(a_job(a_checkpoint(2, 4), *attempts, an_attempt(2)))
    assert storage.head("attempts/attempt-1/checkpoints/step-4/a") is None
    assert storage.head("attempts/attempt-1/results/r") is not None


def test_old_attempts_that_nobody_knows_are_dropped(
    files: BucketFiles, storage: LinkedMemory
) -> None:
    storage.fill({f"attempts/attempt-{n}/results/r": b"1" for n in (1, 2)})
    assert files.prune(needed=lambda name: name == "attempt-1", before_s=0) == 0
    assert files.prune(needed=lambda name: name == "attempt-1", before_s=2**40) == 1
    assert [one.key for one in storage.below("attempts")] == ["attempts/attempt-1/results/r"]
