"""A pod's life as plain processes: prepared, run, stopped, its results fetched by their owner."""

from __future__ import annotations

import hashlib
import importlib
import json
import signal
import subprocess
import sys
import tarfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from free_ports import free_port
from pods_as_processes import Cluster, a_tar, results_of, served, uploaded
from service_world import ServiceWorld, done
from storages import LinkedMemory, serving_links
from versitygw import S3Server

from gpucommons.scheduler import models
from gpucommons.scheduler.core.model.types import AttemptId
from gpucommons.scheduler.executors.fake import Script
from gpucommons.scheduler.file_storage.bucket import BucketStorage
from gpucommons.scheduler.file_storage.bucket_files import BucketFiles
from gpucommons.scheduler.file_storage.prepare import main as prepare_main
from gpucommons.scheduler.file_storage.prepare import prepare
from gpucommons.scheduler.in_pod.worker import Refused
from gpucommons.scheduler.service.jobs import jobs
from gpucommons.scheduler.training.checkpoints import describe

TRAIN = """
import os, pathlib, signal, sys, time
attempt = pathlib.Path(os.environ["GPUCOMMONS_ATTEMPT_DIR"])
print("data", pathlib.Path("data.txt").read_text(), flush=True)
results = attempt / "results" / "plots"
results.mkdir(parents=True)
(results / "loss.txt").write_text("0.1")
(attempt / "results" / "model.bin").write_bytes(bytes(5000))
(attempt / "results" / "leak").symlink_to("/etc/passwd")
"""
STOPPABLE = """
import os, pathlib, signal, sys, time
def stop(*_):
    os.write(1, b"told\\n")  # `print` fails when the signal comes while another one is at work
    sys.exit(143)
signal.signal(signal.SIGTERM, stop)
print("ready", flush=True)
notice = pathlib.Path(os.environ["GPUCOMMONS_NOTICE_FILE"])
while not notice.exists():
    time.sleep(0.01)
print("noticed", notice.read_text(), flush=True)
time.sleep(60)
"""


A_RESULT = models.UploadRequest(folder="results", files=[models.FileSize(path="a", size_bytes=1)])


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with serving_links(failures=2) as storage:
        files = BucketFiles(storage=storage, part_bytes=2000)
        world = ServiceWorld(tmp_path / "scheduler", files=files)
        with served(world) as port:
            yield Cluster(world=world, storage=storage, url=f"http://127.0.0.1:{port}")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "pod"
    folder.mkdir()
    return folder


def test_a_pod_that_an_earlier_release_made_finds_its_program_by_the_name_of_then() -> None:
    earlier = importlib.import_module("gpucommons.scheduler.storage.prepare")
    assert earlier.main is prepare_main


def test_a_job_runs_from_its_snapshot_and_its_results_come_back(
    cluster: Cluster, root: Path
) -> None:
    sha256 = uploaded(cluster, a_tar(tarfile.TarInfo("src/data.txt")))
    cluster.world.script = Script(run_ms=60_000)
    cluster.submit(snapshot=sha256, working_dir="src")
    prepare(cluster.api(), root)
    pod = cluster.run(root, TRAIN)
    out, err = pod.communicate(timeout=60)
    assert (pod.returncode, out) == (0, "data 42\n"), err
    cluster.world.pass_time(61_000)
    assert results_of(cluster, "digits-1") == {
        "plots/loss.txt": b"0.1",
        "model.bin": bytes(5000),
    }
    assert "signature" not in out + err


def test_sigterm_reaches_the_command_and_its_exit_code_comes_out(
    cluster: Cluster, root: Path
) -> None:
    cluster.submit()
    prepare(cluster.api(), root)
    (root / "work" / "src").mkdir()
    pod = cluster.run(root, STOPPABLE)
    assert pod.stdout is not None
    assert pod.stdout.readline() == "ready\n"
    done(jobs.pause(cluster.world.service, cluster.world.principal("ann"), "digits-1"))
    noticed = pod.stdout.readline()
    assert json.loads(noticed.removeprefix("noticed "))["why"] == "pause"
    pod.send_signal(signal.SIGTERM)
    out, _ = pod.communicate(timeout=60)
    assert (out, pod.returncode) == ("told\n", 143)


def test_a_command_that_is_not_there_is_said(cluster: Cluster, root: Path) -> None:
    cluster.submit()
    prepare(cluster.api(), root)
    worker = [sys.executable, "-I", str(root / "bin" / "worker"), "--", "no-such-command"]
    pod = subprocess.run(
        worker, env=cluster.environ(root), capture_output=True, text=True, timeout=60, check=False
    )
    assert pod.returncode == 127
    assert "no-such-command" in pod.stderr


def test_a_checkpoint_goes_to_the_bucket_and_the_next_attempt_starts_from_it(
    cluster: Cluster, root: Path, tmp_path: Path
) -> None:
    save_and_resume(cluster, root, tmp_path)


def test_the_same_on_a_real_s3_server_with_links_that_it_checks(
    s3_storage: BucketStorage, s3: S3Server, tmp_path: Path, root: Path
) -> None:
    files = BucketFiles(storage=s3_storage, part_bytes=2000)
    world = ServiceWorld(tmp_path / "scheduler", files=files)
    with served(world) as port:
        cluster = Cluster(world=world, storage=s3_storage, url=f"http://127.0.0.1:{port}")
        err = save_and_resume(cluster, root, tmp_path)
        (link,) = files.uploads(AttemptId(cluster.attempt_id), A_RESULT).files[0].links
        for elsewhere in ("attempts/other/results/a", f"attempts/{cluster.attempt_id}/results/b"):
            wanted = f"attempts/{cluster.attempt_id}/results/a"
            forged = link.replace(wanted, elsewhere)
            assert forged != link
            assert httpx.put(forged, content=b"x", trust_env=False).status_code == 403
        assert httpx.get(link, trust_env=False).status_code == 403
        assert httpx.put(link, content=b"x", trust_env=False).status_code == 200
    assert s3.secret_key not in err + link


def save_and_resume(cluster: Cluster, root: Path, tmp_path: Path) -> str:
    """One attempt keeps a checkpoint, the next one starts from it; what the pod said."""
    cluster.submit()
    prepare(cluster.api(), root)
    (root / "work" / "src").mkdir()
    code = """
from gpucommons.scheduler import training
run = training.current()
with run.checkpoint(step=7) as folder:
    (folder / "deep").mkdir()
    (folder / "deep" / "model").write_bytes(bytes(range(250)) * 20)
    (folder / "epoch").write_text("7")
"""
    pod = cluster.run(root, code)
    _, err = pod.communicate(timeout=60)
    assert pod.returncode == 0, err
    ann = cluster.world.principal("ann")
    job = jobs.job(cluster.world.service, ann, "digits-1")
    assert job.checkpoint is not None
    assert job.checkpoint.step == 7
    published = cluster.storage.read(f"jobs/{job.id}/latest")
    assert published is not None
    assert f"{cluster.attempt_id}/checkpoints/step-7." in json.loads(published[0])["path"]
    first = describe(root / "attempt" / "checkpoints" / "step-7")
    again = describe(resumed(cluster, tmp_path))
    assert (again.sha256, again.size_bytes) == (first.sha256, first.size_bytes)
    return err


def resumed(cluster: Cluster, tmp_path: Path) -> Path:
    """What the next attempt starts from."""
    ann = cluster.world.principal("ann")
    done(jobs.pause(cluster.world.service, ann, "digits-1"))
    cluster.world.pass_time(60_000)
    done(jobs.resume(cluster.world.service, ann, "digits-1"))
    cluster.world.pass_time(1000)
    view = jobs.job(cluster.world.service, ann, "digits-1")
    assert view.attempts[-1].resumed_from_step == 7
    cluster.attempt_id = view.attempts[-1].id
    elsewhere = tmp_path / "second pod"
    elsewhere.mkdir()
    prepare(cluster.api(), elsewhere)
    return elsewhere / "resume" / "step-7"


@pytest.mark.parametrize("breaks_off", [False, True])
def test_of_a_step_that_is_saved_twice_the_one_that_was_acknowledged_last_is_resumed(
    cluster: Cluster, root: Path, tmp_path: Path, breaks_off: bool
) -> None:
    cluster.submit()
    prepare(cluster.api(), root)
    (root / "work" / "src").mkdir()
    code = f"""
import os
from gpucommons.scheduler import training
run = training.current()
for name in ("first", "second"):
    with run.checkpoint(step=7) as folder:
        (folder / "state").write_text(name)
        (folder / name).touch()
    if name == "first" and {breaks_off}:
        run._scheduler.send = lambda _call: os._exit(9)
"""
    pod = cluster.run(root, code)
    _, err = pod.communicate(timeout=60)
    assert pod.returncode == (9 if breaks_off else 0), err
    names = {path.name for path in resumed(cluster, tmp_path).iterdir()}
    assert names == {"state", "first" if breaks_off else "second"}


def test_a_checkpoint_that_was_altered_since_its_receipt_starts_nothing(
    cluster: Cluster,
    root: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    save_and_resume(cluster, root, root)
    assert isinstance(cluster.storage, LinkedMemory)
    for one in list(cluster.storage.below("attempts")):
        if one.key.endswith("epoch"):
            cluster.storage.fill({one.key: b"8"})
    for name, value in cluster.environ(root).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys, "argv", ["prepare", "--root", str(root), "--patience-s", "5"])
    assert prepare_main() == 1
    assert "not what its receipt says" in capsys.readouterr().err


def test_a_pod_waits_while_the_scheduler_restarts(tmp_path: Path, root: Path) -> None:
    with serving_links() as storage:
        world = ServiceWorld(tmp_path / "scheduler", files=BucketFiles(storage=storage))
        port = free_port()
        cluster = Cluster(world=world, storage=storage, url=f"http://127.0.0.1:{port}")
        cluster.submit()
        waiting = threading.Thread(target=prepare, args=(cluster.api(), root))
        waiting.start()
        while not (root / "bin" / "worker" / "__main__.py").exists():
            time.sleep(0.01)  # the scheduler comes after the first try
        with served(world, port):
            waiting.join(60)
        assert (root / "work").is_dir()


def test_an_attempt_that_is_over_is_refused_at_once(cluster: Cluster, root: Path) -> None:
    cluster.submit()
    ann = cluster.world.principal("ann")
    done(jobs.cancel(cluster.world.service, ann, "digits-1"))
    cluster.world.pass_time(60_000)
    with pytest.raises(Refused, match="no longer the current one"):
        prepare(cluster.api(), root)


@pytest.mark.parametrize("kind", ["link", "outside", "device", "bomb", "other bytes"])
def test_a_hostile_snapshot_starts_nothing_and_leaves_nothing_outside(
    cluster: Cluster,
    root: Path,
    kind: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    member = tarfile.TarInfo("../../evil" if kind == "outside" else "evil")
    if kind == "link":
        member.type, member.linkname = tarfile.SYMTYPE, "/etc"
    if kind == "device":
        member.type = tarfile.CHRTYPE
    content = a_tar(member)
    if kind == "bomb":
        member.size = 1 << 40
        content = member.tobuf()
    cluster.submit(snapshot=uploaded(cluster, content))
    if kind == "other bytes":
        place = cluster.world.service.snapshots
        place.path(hashlib.sha256(content).hexdigest()).write_bytes(b"other")  # type: ignore[attr-defined] # a folder's
    for name, value in cluster.environ(root).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys, "argv", ["prepare", "--root", str(root), "--patience-s", "1"])
    assert prepare_main() == 1
    assert capsys.readouterr().err
    assert not (root.parent / "evil").exists()
    assert not (root / "evil").exists()
