"""Whether a pod that is told to end saves its processes, and what its image may take."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from builders import a_node
from service_world import ServiceWorld, a_request, done

from gpucommons.scheduler import models
from gpucommons.scheduler.core.model.going_on import (
    MAX_IMAGE_BYTES,
    Hibernation,
    HibernationAbility,
    ProcessImage,
)
from gpucommons.scheduler.core.model.state import AttemptEnded
from gpucommons.scheduler.core.model.types import (
    AttemptId,
    AttemptState,
    UserName,
    Workload,
    WorkloadId,
)
from gpucommons.scheduler.errors import StaleAttempt
from gpucommons.scheduler.executors.fake import Script
from gpucommons.scheduler.file_storage.job_files import JobFiles
from gpucommons.scheduler.principal import Identity, Principal, PrincipalKind, resolve
from gpucommons.scheduler.service.jobs import attempt_files, hibernation, jobs
from gpucommons.scheduler.service.service import Deciding

IMAGE = ProcessImage(user="ann", size_bytes=3 << 30, save_ms=5, sha256="0" * 64)


@pytest.fixture
def world(tmp_path: Path) -> ServiceWorld:
    able = HibernationAbility(able=True, save_mib_per_s=200, wake_mib_per_s=200)
    cpu = replace(a_node("c1", 0, pool="cpu"), hibernation=able)
    found = ServiceWorld(tmp_path, nodes=(a_node("n1", 4, pool="gpu"), cpu))
    found.script = Script(stop_ms=None)
    return found


def begun(world: ServiceWorld, name: str) -> Workload:
    request = a_request(name=name, pools=["cpu"], role={"milli_gpu": 0})
    view = jobs.submit(world.service, world.principal("ann"), request, key=None)
    world.pass_time(100)
    done(
        hibernation.report_tree(world.service, pod_of(world, view.id), models.TreeReport(cost_ms=5))
    )
    return world.cluster.workloads[WorkloadId(view.id)]


def pod_of(world: ServiceWorld, job: str) -> Principal:
    current = world.cluster.workloads[WorkloadId(job)].current
    assert current is not None
    return attempt(world, current.attempt_id)


def attempt(world: ServiceWorld, attempt_id: AttemptId) -> Principal:
    identity = Identity(name=UserName("ann"), kind=PrincipalKind.ATTEMPT, attempt_id=attempt_id)
    return resolve(identity, world.cluster.teams)


def asked(world: ServiceWorld, job: Workload) -> models.SavingView:
    return hibernation.attempt_saving(world.service, pod_of(world, job.workload_id))


def paused(world: ServiceWorld, job: Workload) -> None:
    done(jobs.pause(world.service, world.principal("ann"), job.spec.name))
    for _ in range(20):
        world.pass_time(1000)
        current = world.cluster.workloads[job.workload_id].current
        if current is not None and current.stop is not None and current.stop.signalled:
            return
    pytest.fail("it was not signalled")


def test_a_pod_that_a_drain_ends_saves_what_one_that_is_paused_saves(world: ServiceWorld) -> None:
    job = begun(world, "digits")
    assert asked(world, job) == models.SavingView(saves=True, max_bytes=MAX_IMAGE_BYTES)
    paused(world, job)
    assert asked(world, job).saves


def test_what_is_cancelled_is_not_saved(world: ServiceWorld) -> None:
    job = begun(world, "digits")
    done(jobs.cancel(world.service, world.principal("ann"), job.spec.name))
    world.pass_time(100)
    assert not asked(world, job).saves


def test_what_is_left_of_a_users_limit_is_shared_by_all_that_are_saved_at_once(
    world: ServiceWorld,
) -> None:
    kept, first, second = (begun(world, name) for name in ("kept", "first", "second"))
    paused(world, kept)
    ended = world.cluster.workloads[kept.workload_id].current
    assert ended is not None
    world.loop.observe(
        AttemptEnded(attempt_id=ended.attempt_id, exit_code=None, told=True, image=IMAGE)
    )
    left = MAX_IMAGE_BYTES - IMAGE.size_bytes
    assert asked(world, first).max_bytes == left
    paused(world, first)
    paused(world, second)
    assert [asked(world, one).max_bytes for one in (first, second)] == [left // 2, left // 2]


def test_an_attempt_that_is_over_says_and_asks_nothing(world: ServiceWorld) -> None:
    job = begun(world, "digits")
    old = pod_of(world, job.workload_id)
    paused(world, job)
    current = world.cluster.workloads[job.workload_id].current
    assert current is not None
    world.loop.observe(AttemptEnded(attempt_id=current.attempt_id, exit_code=143, told=True))
    with pytest.raises(StaleAttempt):
        hibernation.attempt_saving(world.service, old)
    with pytest.raises(StaleAttempt):
        hibernation.report_tree(world.service, old, models.TreeReport())


def test_a_pod_tells_its_memory_and_its_volumes_speed_while_it_runs(world: ServiceWorld) -> None:
    job = begun(world, "digits")
    report = models.TreeReport(cost_ms=5, memory_mib=900, save_mib_per_s=30)
    done(hibernation.report_tree(world.service, pod_of(world, job.workload_id), report))
    world.pass_time(100)
    view = jobs.job(world.service, world.principal("ann"), job.spec.name)
    assert view.way_to_go_on is not None
    assert view.way_to_go_on.way == "start_over"
    assert "saving its 900 MiB of memory would take 31 s at 30 MiB/s" in view.way_to_go_on.text


class Uploads:
    """Storage that says for whom it made links."""

    def uploads(self, attempt_id: AttemptId, _: models.UploadRequest) -> models.UploadList:
        return models.UploadList(files=[], headers={"attempt": attempt_id})


def test_a_process_that_was_woken_uploads_to_the_attempt_in_which_it_lives(
    world: ServiceWorld,
) -> None:
    job = begun(world, "digits")
    slept = job.current
    assert slept is not None
    known = Hibernation(woken_from=1)
    woken = replace(slept, attempt_id=AttemptId("woken"), number=2, hibernation=known)
    job = replace(job, attempts=(replace(slept, state=AttemptState.ENDED), woken))
    cluster = replace(world.cluster, workloads={job.workload_id: job})
    deciding = cast("Deciding", SimpleNamespace(cluster=cluster, catch_up=lambda: None))
    storage = cast("JobFiles", Uploads())
    service = replace(world.service, loop=deciding, files={"fake": storage})
    asked_for = models.UploadRequest(
        folder="results", files=[models.FileSize(path="a", size_bytes=1)]
    )
    for token in (slept.attempt_id, woken.attempt_id):
        found = attempt_files.attempt_uploads(service, attempt(world, token), asked_for)
        assert found.headers == {"attempt": "woken"}
