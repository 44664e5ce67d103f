"""A pod's processes are saved when it ends, and the next attempt's pod wakes them: as plain processes.

Each pod has its own attempt's folder at the same place, as a mount of the shared volume would put it.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from builders import a_node
from launches import until
from pods_as_processes import served
from saved_jobs import criu_command
from service_world import ServiceWorld, a_request, attempt_token, done

from gpucommons.scheduler.core.going_on.hibernating import kept_image
from gpucommons.scheduler.core.model.going_on import Hibernation, HibernationAbility
from gpucommons.scheduler.core.model.state import AttemptEnded
from gpucommons.scheduler.core.model.types import Attempt, State, Workload, WorkloadId
from gpucommons.scheduler.executors.fake import Script
from gpucommons.scheduler.executors.kubernetes.attempts.endings import told_of_image
from gpucommons.scheduler.file_storage.images_of_ended_jobs import remove_images
from gpucommons.scheduler.file_storage.prepare import prepare
from gpucommons.scheduler.file_storage.volume_files import VolumeFiles
from gpucommons.scheduler.in_pod.tree import VARIABLE
from gpucommons.scheduler.in_pod.worker import Api
from gpucommons.scheduler.service.jobs import jobs

pytestmark = [pytest.mark.criu, pytest.mark.timeout(300)]
#: Nothing of its state is on disk: it is in memory alone.
STEPS = """
import time
total = 0
for step in range(1, 100000):
    total += step
    print("step", step, total, flush=True)
    time.sleep(0.02)
"""


#: Holds what no image can hold, and leaves when it is told to.
UNSAVEABLE = """
import ctypes, os, signal, sys, time
libc = ctypes.CDLL(None)
seg = libc.shmget(0, 4096, 0o1600)
libc.shmat.restype = ctypes.c_void_p
assert libc.shmat(seg, None, 0) not in (None, 2 ** 64 - 1)
libc.shmctl(seg, 0, None)
def leave(*_):
    os.write(1, b"told\\n")
    sys.exit(1)
signal.signal(signal.SIGTERM, leave)
for step in range(1, 100000):
    os.write(1, b"step\\n")
    time.sleep(0.02)
"""


@dataclass
class Site:
    """A scheduler at an address, a volume, and where its pods mount their part of it."""

    world: ServiceWorld
    volume: Path
    root: Path
    url: str = ""
    lines: list[str] = field(default_factory=list)
    pods: list[Pod] = field(default_factory=list)

    def submit(self) -> None:
        request = a_request(pools=["cpu"], role={"milli_gpu": 0})
        jobs.submit(self.world.service, self.world.principal("ann"), request, key=None)
        self.world.pass_time(100)

    def workload(self) -> Workload:
        view = jobs.job(self.world.service, self.world.principal("ann"), "digits-1")
        return self.world.cluster.workloads[WorkloadId(view.id)]

    def attempt(self) -> Attempt:
        found = self.workload().current
        assert found is not None
        return found

    def run(self, code: str, *, promised: str = "", **told: Any) -> Pod:
        """The pod of the current attempt."""
        attempt = self.attempt()
        self.world.service.files["fake"].ready(self.workload(), attempt)
        own = self.volume / "attempts" / attempt.attempt_id
        own.rename(self.root / "attempt")
        plan = {"number": attempt.number, "grace_s": 30.0, "hindrance": "", "cost_ms": 5,
                "promised": promised, "max_bytes": 1 << 30, **told}  # fmt: skip
        env = {
            "PATH": os.environ["PATH"],
            "GPUCOMMONS_CRIU": os.environ.get("GPUCOMMONS_CRIU", ""),
            "GPUCOMMONS_URL": self.url,
            "GPUCOMMONS_TOKEN": attempt_token(attempt.attempt_id),
            "GPUCOMMONS_ATTEMPT_DIR": str(self.root / "attempt"),
            "GPUCOMMONS_WORK_DIR": str(self.root / "attempt" / "work"),
            "GPUCOMMONS_NOTICE_FILE": str(self.root / "notice" / "notice.json"),
            "GPUCOMMONS_STORAGE": "volume",
            VARIABLE: json.dumps(plan),
        }
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv(VARIABLE, env[VARIABLE])
            prepare(Api(self.url, env["GPUCOMMONS_TOKEN"]), self.root, work="attempt/work")
        pod = Pod(self, own, env, code)
        self.pods.append(pod)
        return pod


class Pod:
    """Its main container."""

    def __init__(self, site: Site, own: Path, env: dict[str, str], code: str) -> None:
        self.site, self.own = site, own
        self.message = site.root / "termination-log"
        self.message.write_text("")
        # The kubelet's file is the pod's alone; here it lies where a test may.
        told = f"import gpucommons.scheduler.in_pod.worker as w; w.TERMINATION_LOG = pathlib.Path({str(self.message)!r})"
        worker = site.root / "bin" / "worker"
        start = (
            f"import pathlib, sys; sys.path.insert(0, {str(worker)!r}); {told};"
            "from gpucommons.scheduler.in_pod.command import main;"
            f"sys.argv = ['worker', '--working-dir', '.', '--', {sys.executable!r}, '-c', {code!r}];"
            "sys.exit(main())"
        )
        self.process = subprocess.Popen(
            [sys.executable, "-I", "-c", start], env=env, stdout=subprocess.PIPE, text=True
        )
        assert self.process.stdout is not None
        self.output = self.process.stdout

    def read(self, count: int) -> list[str]:
        """So many lines."""
        return [self.output.readline().strip() for _ in range(count)]

    def stop(self) -> tuple[Any, str]:
        """End it as its kubelet does: the rest of its lines, and what it left word of."""
        self.process.send_signal(signal.SIGTERM)
        self.site.lines += self.output.read().splitlines()
        assert self.process.wait(60) == 143
        (self.site.root / "attempt").rename(self.own)
        (self.site.root / "notice" / "begun").unlink(missing_ok=True)
        return told_of_image(self.message.read_text(), "ann")


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    criu_command()
    volume, root = tmp_path / "volume", tmp_path / "pod"
    for folder in (volume, root):
        folder.mkdir()
    (volume / "attempts").mkdir()
    able = HibernationAbility(able=True, save_mib_per_s=200, wake_mib_per_s=200)
    node = replace(a_node("c1", 0, pool="cpu"), hibernation=able)
    world = ServiceWorld(
        tmp_path / "scheduler",
        nodes=(a_node("n1", 4, pool="gpu"), node),
        files=VolumeFiles(root=volume),
    )
    # What is true of its processes, the pods of the test say.
    world.script = Script(start_ms=1000, stop_ms=None)
    with served(world) as port:
        found = Site(world, volume, root, f"http://127.0.0.1:{port}")
        found.submit()
        yield found
        for pod in found.pods:
            pod.process.kill()
            pod.process.wait()
            pod.output.close()


def pause(site: Site, pod: Pod) -> Attempt:
    """As a user: the attempt as it has ended."""
    world, ann = site.world, site.world.principal("ann")
    attempt = site.attempt()
    until(lambda: site.attempt().hibernation is not None)
    done(jobs.pause(world.service, ann, "digits-1"))
    stop = site.attempt().stop
    assert stop is not None
    world.pass_time(max(0, stop.term_ms - world.now_ms))
    stop = site.attempt().stop
    assert stop is not None
    assert stop.hibernates
    image, not_saved = pod.stop()
    world.loop.observe(
        AttemptEnded(
            attempt_id=attempt.attempt_id,
            exit_code=143,
            told=True,
            image=image,
            not_saved=not_saved,
        )
    )
    world.machine.strike(attempt.attempt_id, exit_code=143)
    world.pass_time(100)
    assert site.workload().state is State.PAUSED
    return site.workload().attempts[-1]


def resume(site: Site) -> str:
    """As a user: what the next attempt is promised."""
    done(jobs.resume(site.world.service, site.world.principal("ann"), "digits-1"))
    site.world.pass_time(100)
    kept = kept_image(site.workload())
    return "" if kept is None else kept[1].sha256


def test_what_was_saved_in_one_pod_goes_on_in_the_next_and_repeats_nothing(site: Site) -> None:
    pod = site.run(STEPS)
    site.world.pass_time(2000)
    site.lines += pod.read(20)
    ended = pause(site, pod)
    assert (ended.not_saved, ended.image is None) == ("", False)
    assert "0 steps lost" in (ended.ended_text or "")
    promised = resume(site)
    pod = site.run(STEPS, promised=promised)
    site.lines += pod.read(20)
    # It counts as started when that is on record.
    until((site.root / "notice" / "begun").exists)
    assert site.attempt().hibernation == Hibernation(cost_ms=5, woken_from=1)
    site.world.pass_time(2000)
    pause(site, pod)
    total, wanted = 0, []
    for step in range(1, len(site.lines) + 1):
        total += step
        wanted.append(f"step {step} {total}")
    assert len(wanted) > 40
    assert site.lines == wanted
    # What is saved ends with its job.
    done(jobs.cancel(site.world.service, site.world.principal("ann"), "digits-1"))
    site.world.pass_time(100)
    files = site.world.service.files["fake"]
    assert isinstance(files, VolumeFiles)
    assert remove_images(files, lambda: {ended.attempt_id}) == 1
    assert not list(site.volume.glob("attempts/*/hibernation"))


def test_what_cannot_be_saved_is_told_to_leave_and_why_is_said(site: Site) -> None:
    pod = site.run(UNSAVEABLE)
    site.world.pass_time(2000)
    site.lines += pod.read(5)
    ended = pause(site, pod)
    assert ended.image is None
    assert site.lines[-1] == "told"
    assert f"its memory could not be saved: {ended.not_saved}" in (ended.ended_text or "")


def test_an_image_that_is_not_what_was_promised_is_not_woken(site: Site) -> None:
    pod = site.run(STEPS)
    site.world.pass_time(2000)
    pod.read(5)
    pause(site, pod)
    resume(site)
    pod = site.run(STEPS, promised="0" * 64)
    assert pod.read(1) == ["step 1 1"]
    until((site.root / "notice" / "begun").exists)
    known = site.attempt().hibernation
    assert known is not None
    assert (known.woken_from, known.not_woken) == (None, "it was not found as it was saved")
    pod.stop()


def test_where_hibernation_is_off_the_command_runs_as_ever_and_why_is_known(site: Site) -> None:
    pod = site.run(STEPS, hindrance="the pool cpu has hibernation switched off")
    assert pod.read(2) == ["step 1 1", "step 2 3"]
    until(lambda: site.attempt().hibernation is not None)
    known = site.attempt().hibernation
    assert known is not None
    assert known.hindrance == "the pool cpu has hibernation switched off"
    assert pod.stop() == (None, "")
    assert not (pod.own / "hibernation").exists()
