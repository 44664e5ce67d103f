"""What a replica answers that does not lead, and may be behind the one that does."""

from __future__ import annotations

from dataclasses import replace

import pytest
from service_world import ServiceWorld, a_request

from gpucommons.scheduler.core.model.types import AttemptId, UserName, WorkloadId
from gpucommons.scheduler.errors import StaleAttempt, Unavailable
from gpucommons.scheduler.executors.fake import FakeExecutor
from gpucommons.scheduler.loop.loop import Loop, Surroundings
from gpucommons.scheduler.principal import Principal, PrincipalKind
from gpucommons.scheduler.service.jobs import attempts, jobs
from gpucommons.scheduler.service.service import Service


class NotElected:
    """Another replica leads."""

    def leads(self) -> bool:
        return False

    def works(self, well: bool) -> None: ...

    def resign(self) -> None:
        """There is nothing to give up."""


@pytest.fixture
def follower(world: ServiceWorld) -> Service:
    """A replica that saw the store before anything was submitted, and sleeps since."""
    around = Surroundings(
        store=world.store,
        executors={"fake": FakeExecutor(world.machine)},
        now=lambda: world.now_ms,
        new_ids=iter(()),
        token_of=str,
        api_url="http://127.0.0.1:1",
        leadership=NotElected(),
    )
    loop = Loop(around)
    loop._follow()
    return replace(world.service, loop=loop)


def started(world: ServiceWorld) -> AttemptId:
    ann = world.principal("ann")
    job = jobs.submit(world.service, ann, a_request(role={"milli_gpu": 500}), key=None)
    world.pass_time(1000)
    attempt = world.cluster.workloads[WorkloadId(job.id)].current
    assert attempt is not None
    return attempt.attempt_id


def speaking(attempt_id: str) -> Principal:
    return Principal(
        name=UserName(f"attempt {attempt_id}"),
        kind=PrincipalKind.ATTEMPT,
        attempt_id=AttemptId(attempt_id),
    )


def test_a_replica_that_is_behind_looks_again_before_it_calls_an_attempt_stale(
    world: ServiceWorld, follower: Service
) -> None:
    attempt_id = started(world)
    assert not follower.loop.cluster.workloads
    assert attempts.attempt_orders(follower, speaking(attempt_id)).stop is None
    with pytest.raises(StaleAttempt):
        attempts.attempt_orders(follower, speaking("another"))


def test_a_replica_without_its_store_calls_nobody_stale(
    world: ServiceWorld, follower: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    attempt_id = started(world)

    def away() -> int:
        raise Unavailable

    monkeypatch.setattr(world.store, "commits", away)
    with pytest.raises(Unavailable):
        attempts.attempt_orders(follower, speaking(attempt_id))
