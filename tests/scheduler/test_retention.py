"""Files of jobs go when the store has forgotten the jobs, never before."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from service_world import ServiceWorld, a_request

from gpucommons.scheduler.core.types import Millis
from gpucommons.scheduler.retention import Kept, Retention
from gpucommons.scheduler.service import jobs

SHA = "ab" * 32


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
        now_ms=lambda: Millis(10_000),
    )


def test_what_a_stored_job_refers_to_stays(tmp_path: Path) -> None:
    world = ServiceWorld(tmp_path)
    (tmp_path / "snapshots" / f"{SHA}.tar").touch()
    ann = world.principal("ann")
    job = jobs.submit(world.service, ann, a_request(snapshot=SHA), key=None)
    world.pass_time(1000)
    (attempt,) = jobs.job(world.service, ann, job.id).attempts
    place = Place([SHA, attempt.id, "cd" * 32, "an-older-attempt"])

    assert retention_over(world, place).step() == 2

    assert place.dropped == ["cd" * 32, "an-older-attempt"]
    assert place.before_s == 6


def test_a_job_that_no_cycle_has_seen_keeps_its_snapshot(tmp_path: Path) -> None:
    world = ServiceWorld(tmp_path)
    (tmp_path / "snapshots" / f"{SHA}.tar").touch()
    world.loop.wake = lambda: None  # type: ignore[method-assign] # a loop that is busy elsewhere
    jobs.submit(world.service, world.principal("ann"), a_request(snapshot=SHA), key=None)
    place = Place([SHA])

    assert retention_over(world, place).step() == 0
