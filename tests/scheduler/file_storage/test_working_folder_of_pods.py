"""The working folder of a job whose pods come and go: on a shared volume, and in a bucket."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from launches import a_launch
from pods_as_processes import Cluster, a_tar, results_of, served, uploaded
from service_world import ServiceWorld, done
from storages import LinkedMemory, serving_links

from gpucommons.scheduler import models
from gpucommons.scheduler.core.model.types import Attempt, AttemptId, Workload
from gpucommons.scheduler.errors import Conflict
from gpucommons.scheduler.executors.fake import Script
from gpucommons.scheduler.file_storage.bucket_files import BucketFiles
from gpucommons.scheduler.file_storage.prepare import LeftOut, prepare
from gpucommons.scheduler.file_storage.volume_files import VolumeFiles
from gpucommons.scheduler.files.confined_files import Refused as BadFiles
from gpucommons.scheduler.service.jobs import jobs

COUNTS = """
import pathlib
n = pathlib.Path("n")
n.write_text(str(int(n.read_text()) + 1 if n.exists() else 1))
print(n.read_text(), pathlib.Path("../src/data.txt").read_text())
raise SystemExit(143)
"""


def run(
    cluster: Cluster,
    root: Path,
    environ: dict[str, str],
    code: str,
    *,
    python: str = sys.executable,
) -> str:
    words = [python, "-I", str(root / "bin" / "worker"), "--working-dir", "src", "--"]
    pod = subprocess.run(
        [*words, sys.executable, "-c", code],
        env={**cluster.environ(root), **environ},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return pod.stdout + pod.stderr


def next_attempt(cluster: Cluster) -> None:
    """The job is stopped and goes on."""
    ann = cluster.world.principal("ann")
    done(jobs.pause(cluster.world.service, ann, "digits-1"))
    cluster.world.pass_time(60_000)
    done(jobs.resume(cluster.world.service, ann, "digits-1"))
    cluster.world.pass_time(1000)
    cluster.attempt_id = jobs.job(cluster.world.service, ann, "digits-1").attempts[-1].id


def submitted(cluster: Cluster) -> models.JobView:
    sha256 = uploaded(cluster, a_tar(tarfile.TarInfo("src/data.txt")))
    cluster.world.script = Script(run_ms=10_000_000, stop_ms=10)
    return cluster.submit(snapshot=sha256, working_dir="src")


# --- in a bucket -----------------------------------------------------------------------------


@pytest.fixture
def bucket(tmp_path: Path) -> Iterator[Cluster]:
    with serving_links(failures=1) as storage:
        world = ServiceWorld(
            tmp_path / "scheduler", files=BucketFiles(storage=storage, part_bytes=2000)
        )
        with served(world) as port:
            yield Cluster(world=world, storage=storage, url=f"http://127.0.0.1:{port}")


def test_what_a_stopped_pod_changed_travels_to_the_next_one(
    bucket: Cluster, tmp_path: Path
) -> None:
    submitted(bucket)
    for number in (1, 2, 3):
        root = tmp_path / f"pod-{number}"
        root.mkdir()
        prepare(bucket.api(), root)
        said = run(bucket, root, {}, COUNTS)
        assert said.startswith(f"{number} 42\n"), said
        if number < 3:
            next_attempt(bucket)
    ann = bucket.world.principal("ann")
    bucket.world.pass_time(10)
    attempts = jobs.job(bucket.world.service, ann, "digits-1").attempts
    assert [one.files_kept for one in attempts] == [1, 1, 1]
    done(jobs.cancel(bucket.world.service, ann, "digits-1"))
    bucket.world.pass_time(60_000)
    assert results_of(bucket, "digits-1") == {"src/n": b"3"}


def test_a_folder_that_was_handed_over_in_part_is_not_begun_with(
    bucket: Cluster, tmp_path: Path
) -> None:
    submitted(bucket)
    (tmp_path / "one").mkdir()
    prepare(bucket.api(), tmp_path / "one")
    run(bucket, tmp_path / "one", {}, COUNTS)
    next_attempt(bucket)
    # This one is killed while it uploads: a file is there, the last word is not.
    assert isinstance(bucket.storage, LinkedMemory)
    bucket.storage.fill({f"attempts/{bucket.attempt_id}/work/src/n": b"999"})
    next_attempt(bucket)
    (tmp_path / "three").mkdir()
    prepare(bucket.api(), tmp_path / "three")

    assert (tmp_path / "three" / "work" / "src" / "n").read_text() == "1"


def test_more_than_is_stored_is_not_taken_for_kept(bucket: Cluster) -> None:
    submitted(bucket)
    files = bucket.world.service.files["fake"]
    job = next(iter(bucket.world.cluster.workloads.values()))
    assert job.current is not None

    with pytest.raises(Conflict, match="has 5 bytes, but 0 are stored"):
        files.keep(job, job.current, models.KeptReport(files=1, size_bytes=5))
    assert files.work_files(job, replace(job.current, number=9)) == []


# --- on a volume -----------------------------------------------------------------------------


@pytest.fixture
def volume(tmp_path: Path) -> Iterator[Cluster]:
    files = VolumeFiles(root=tmp_path / "volume")
    world = ServiceWorld(tmp_path / "scheduler", files=files)
    with serving_links() as storage, served(world) as port:
        yield Cluster(world=world, storage=storage, url=f"http://127.0.0.1:{port}")


def mounted(cluster: Cluster, tmp_path: Path, name: str) -> tuple[Path, dict[str, str]]:
    """A pod that mounts its attempt's folder, as its kubelet would have it."""
    job = next(iter(cluster.world.cluster.workloads.values()))
    assert job.current is not None
    cluster.world.service.files["fake"].ready(job, job.current)
    root = tmp_path / name
    root.mkdir()
    (root / "attempt").symlink_to(tmp_path / "volume" / "attempts" / cluster.attempt_id)
    work = root / "attempt" / "work"
    return root, {"GPUCOMMONS_WORK_DIR": str(work), "GPUCOMMONS_STORAGE": "volume"}


def test_on_a_volume_the_folder_is_handed_over_by_a_rename(volume: Cluster, tmp_path: Path) -> None:
    submitted(volume)
    inodes = set()
    for number in (1, 2, 3):
        root, environ = mounted(volume, tmp_path, f"pod-{number}")
        prepare(volume.api(), root, work="attempt/work")
        said = run(volume, root, environ, COUNTS)
        assert said.startswith(f"{number} 42\n"), said
        inodes.add((root / "attempt" / "work").stat().st_ino)
        if number < 3:
            next_attempt(volume)
    assert len(inodes) == 1
    volume.world.pass_time(10)
    ann = volume.world.principal("ann")
    assert jobs.job(volume.world.service, ann, "digits-1").attempts[-1].files_kept == 1
    done(jobs.cancel(volume.world.service, ann, "digits-1"))
    volume.world.pass_time(60_000)
    assert results_of(volume, "digits-1") == {"src/n": b"3"}


def test_all_workers_of_a_gang_find_one_folder_that_is_whole(
    volume: Cluster, tmp_path: Path
) -> None:
    submitted(volume)
    for number in (1, 2):
        root, _ = mounted(volume, tmp_path, f"worker-{number}")
        prepare(volume.api(), root, work="attempt/work")
        work = root / "attempt" / "work"
        assert (work / "src" / "data.txt").read_text() == "42"
        (work / "src" / f"of-{number}").touch()
    assert len(list((work / "src").iterdir())) == 3
    assert [path.name for path in (root / "attempt").iterdir()] == ["work"]


def test_a_link_that_a_job_lays_in_the_folders_place_is_not_handed_on(tmp_path: Path) -> None:
    files = VolumeFiles(root=tmp_path)
    secret = tmp_path / "secret"
    secret.mkdir()
    (secret / "key").write_text("k")
    first, second = an_attempt(1), an_attempt(2)
    job = Workload.__new__(Workload)
    object.__setattr__(job, "attempts", (first, second))
    files.ready(job, first)
    (tmp_path / "attempts" / "a1" / "work").symlink_to(secret)
    files.ready(job, second)

    assert list((tmp_path / "attempts" / "a2").iterdir()) == []
    assert list(files.results(AttemptId("a1"), {})) == []


def an_attempt(number: int) -> Attempt:

    return replace(a_launch().attempt, attempt_id=AttemptId(f"a{number}"), number=number)


# --- what the snapshot left out --------------------------------------------------------------


def a_home_with_data(folder: Path) -> Path:
    (folder / "home" / "project").mkdir(parents=True)
    (folder / "home" / "project" / "big.bin").write_bytes(b"big")
    (folder / "secret").write_text("no")
    (folder / "home" / "project" / "out").symlink_to(folder / "secret")
    return folder / "home"


def test_left_out_files_are_links_to_the_home_that_are_not_kept(
    bucket: Cluster, tmp_path: Path
) -> None:
    home = a_home_with_data(tmp_path)
    submitted(bucket)
    (tmp_path / "pod").mkdir()
    left_out = LeftOut(home=home, below="project", paths=["big.bin"])
    prepare(bucket.api(), tmp_path / "pod", left_out=left_out)
    said = run(
        bucket,
        tmp_path / "pod",
        {},
        "print(open('../big.bin').read()); open('own', 'w').write('1')",
    )
    assert said.startswith("big\n"), said
    ann = bucket.world.principal("ann")
    assert [one.files_kept for one in jobs.job(bucket.world.service, ann, "digits-1").attempts] == [
        1
    ]


@pytest.mark.parametrize("path", ["out", "../../secret", "gone.bin"])
def test_what_leads_out_of_the_home_starts_nothing(
    bucket: Cluster, tmp_path: Path, path: str
) -> None:
    home = a_home_with_data(tmp_path)
    submitted(bucket)
    (tmp_path / "pod").mkdir()
    left_out = LeftOut(home=home, below="project", paths=[path])
    with pytest.raises(BadFiles):
        prepare(bucket.api(), tmp_path / "pod", left_out=left_out)
    assert not (tmp_path / "pod" / "work" / path).is_symlink()


# --- in any image ----------------------------------------------------------------------------

#: Newer than the oldest Python of images that are still in use, 3.8.
NEWER = re.compile(
    r"waitstatus_to_exitcode|removeprefix|removesuffix|file_digest|functools\.cache\b"
    r"|zip\(.*strict=|slots=True|kw_only=True|from datetime import UTC|\bTypeAlias\b|pidfd_open"
)


def test_what_lies_beside_a_job_is_written_for_the_python_of_any_image(
    bucket: Cluster, tmp_path: Path
) -> None:
    submitted(bucket)
    prepare(bucket.api(), tmp_path)
    modules = sorted((tmp_path / "bin" / "worker").rglob("*.py"))
    assert {path.name for path in modules} >= {"command.py", "event_watch.py", "kept_files.py"}
    for path in modules:
        text = path.read_text()
        ast.parse(text, feature_version=(3, 8))
        code = "\n".join(line.partition("  #")[0].split("# ``")[0] for line in text.splitlines())
        assert NEWER.search(code) is None, path.name
        # Hints like ``str | None`` are read as text alone.
        assert not text.count("->") or "from __future__ import annotations" in text, path.name


def test_a_package_of_our_name_in_the_image_is_not_what_stands_above_a_job(
    bucket: Cluster, tmp_path: Path
) -> None:
    submitted(bucket)
    (tmp_path / "pod").mkdir()
    prepare(bucket.api(), tmp_path / "pod")
    image = tmp_path / "image"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(image)], check=True)
    (site,) = image.glob("lib/python*/site-packages")
    (site / "gpucommons").mkdir()
    (site / "gpucommons" / "__init__.py").write_text("raise SystemExit('the image')")
    said = run(bucket, tmp_path / "pod", {}, "print('ran')", python=str(image / "bin" / "python3"))
    assert said.startswith("ran\n"), said
