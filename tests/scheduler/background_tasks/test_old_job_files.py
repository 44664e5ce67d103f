"""Files of jobs go when the store has forgotten the jobs, never before."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from service_world import ServiceWorld, a_request, done

from gpucommons.scheduler import models
from gpucommons.scheduler.background_tasks.old_job_files import Kept, Retention
from gpucommons.scheduler.background_tasks.sweeps import Sweeps
from gpucommons.scheduler.core.model.types import UserName
from gpucommons.scheduler.errors import Misconfigured
from gpucommons.scheduler.service.jobs import jobs, run_again, sweeps

CONTENT = b"train.py"
SHA = hashlib.sha256(CONTENT).hexdigest()
DAY_MS = 86_400_000


@dataclass
class Place:
    """Files, all of them old."""

    names: list[str]
    before_s: float = 0
    dropped: list[str] = field(default_factory=list)

    def prune(self, *, needed: Callable[[str], bool], before_s: float) -> int:
        self.before_s = before_s
        self.dropped = [name for name in self.names if not needed(name)]
        return len(self.dropped)


def retention_over(world: ServiceWorld, place: Place) -> Retention:
    return Retention(
        store=world.store,
        places=(Kept(place=place, for_ms=4000),),
        snapshots_for_ms=DAY_MS,
        has_snapshot=world.service.snapshots.has,
        now_ms=lambda: world.now_ms,
    )


def test_what_a_stored_job_refers_to_stays(tmp_path: Path) -> None:
    world = ServiceWorld(tmp_path)
    world.bring(CONTENT)
    ann = world.principal("ann")
    job = jobs.submit(world.service, ann, a_request(snapshot=SHA), key=None)
    world.pass_time(1000)
    (attempt,) = jobs.job(world.service, ann, job.id).attempts
    place = Place([SHA, attempt.id, "cd" * 32, "an-older-attempt"])

    assert retention_over(world, place).step() == 2

    assert place.dropped == ["cd" * 32, "an-older-attempt"]
    assert place.before_s == (world.now_ms - 4000) / 1000


def test_a_job_that_no_cycle_has_seen_keeps_its_snapshot(tmp_path: Path) -> None:
    world = ServiceWorld(tmp_path)
    world.bring(CONTENT)
    world.loop.wake = lambda: None  # type: ignore[method-assign] # a loop that is busy elsewhere
    jobs.submit(world.service, world.principal("ann"), a_request(snapshot=SHA), key=None)
    place = Place([SHA])

    assert retention_over(world, place).step() == 0


@pytest.mark.parametrize("ran", [False, True])
def test_the_snapshot_of_a_cancelled_job_stays_while_it_can_be_run_again(
    tmp_path: Path, ran: bool
) -> None:
    world = ServiceWorld(tmp_path)
    world.bring(CONTENT)
    ann, place = world.principal("ann"), Place([SHA])
    request = a_request(snapshot=SHA, role={"milli_gpu": 1000 if ran else 2000})
    in_the_way = jobs.submit(world.service, ann, a_request(role={"milli_gpu": 4000}), key=None)
    if ran:
        done(jobs.cancel(world.service, ann, in_the_way.id))
        world.pass_time(60_000)
    job = jobs.submit(world.service, ann, request, key=None)
    world.pass_time(DAY_MS)
    assert retention_over(world, place).step() == 0, "it waits or runs"

    done(jobs.cancel(world.service, ann, job.id))
    world.pass_time(60_000)
    assert jobs.job(world.service, ann, job.id).state == "cancelled"
    world.pass_time(DAY_MS - 120_000)
    assert retention_over(world, place).step() == 0, "it can be run again"
    world.pass_time(DAY_MS)
    assert retention_over(world, place).step() == 1

    (tmp_path / "snapshots" / f"{SHA}.tar").unlink()
    with pytest.raises(Misconfigured, match=f"The files that {job.name} ran from are gone"):
        run_again.again(world.service, ann, job.id, key=None)


def test_a_snapshot_stays_for_the_other_job_that_waits_with_it(tmp_path: Path) -> None:
    world = ServiceWorld(tmp_path)
    world.bring(CONTENT)
    ann, place = world.principal("ann"), Place([SHA])
    over, paused = (
        jobs.submit(world.service, ann, a_request(snapshot=SHA), key=None) for _ in range(2)
    )
    done(jobs.cancel(world.service, ann, over.id))
    done(jobs.pause(world.service, ann, paused.id))
    world.pass_time(3 * DAY_MS)
    assert retention_over(world, place).step() == 0


def test_who_uploaded_a_snapshot_is_forgotten_with_it(tmp_path: Path) -> None:
    world = ServiceWorld(tmp_path)
    sha256, place = world.bring(CONTENT), Place([])
    ann = frozenset({UserName("ann")})
    world.pass_time(DAY_MS)

    retention_over(world, place).step()
    assert world.store.claims(sha256, ann).uploaded

    (tmp_path / "snapshots" / f"{SHA}.tar").unlink()
    retention_over(world, place).step()
    assert not world.store.claims(sha256, ann).uploaded


def test_the_snapshot_of_a_sweep_stays_until_it_is_over_for_long(tmp_path: Path) -> None:
    world = ServiceWorld(tmp_path)
    world.bring(CONTENT)
    request = models.SweepRequest(job=a_request(snapshot=SHA), given=[{"seed": 1}])
    ann, place = world.principal("ann"), Place([SHA])
    made = sweeps.submit_sweep(world.service, ann, request, key=None)
    world.pass_time(3 * DAY_MS)
    assert retention_over(world, place).step() == 0
    sweeps.stop_sweep(world.service, ann, made.id)
    Sweeps(world.service, epoch=lambda: world.loop.epoch).step()
    world.pass_time(DAY_MS)
    assert retention_over(world, place).step() == 0
    world.pass_time(1)
    assert retention_over(world, place).step() == 1
