"""A scheduler that lost the lead leaves the cluster alone, whichever thread is about to act."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, cast

import pytest
from cluster_objects import ATTEMPT_ID, JOB, SilentWatches, a_pod, a_stop, an_attempt

from gpucommons.scheduler.core.model.resources import Pool
from gpucommons.scheduler.core.model.types import AttemptId, Millis
from gpucommons.scheduler.executors.kubernetes.api_server.connection import ApiError, Connection
from gpucommons.scheduler.executors.kubernetes.api_server.orders import Orders
from gpucommons.scheduler.executors.kubernetes.cluster_state.scheduler_callbacks import Around
from gpucommons.scheduler.executors.kubernetes.executor import KubernetesExecutor
from gpucommons.scheduler.executors.kubernetes.objects import names
from gpucommons.scheduler.executors.kubernetes.settings import KubernetesSettings

LABELS = {names.INSTANCE: "gpucommons", names.ATTEMPT: ATTEMPT_ID, names.KIND: "training"}
A_JOB = {
    "metadata": {"name": JOB, "namespace": "jobs", "uid": "job-uid", "labels": LABELS},
    "spec": {"template": {"spec": {"terminationGracePeriodSeconds": 30}}},
}
STOPPED = replace(an_attempt(), stop=a_stop())


@dataclass
class OneAttempt(SilentWatches):
    """An API server that shows one attempt, after which nothing happens, and notes what is written."""

    written: list[str] = field(default_factory=list)

    def get(self, path: str, **_query: object) -> dict[str, Any]:
        kind = path.rpartition("/")[2]
        items = {"jobs": [A_JOB], "pods": [a_pod()]}.get(kind, [])
        return {"items": items, "metadata": {"resourceVersion": "1"}}

    def post(self, path: str, _body: object) -> dict[str, Any]:
        self.written.append(path)
        return {}

    merge_patch = json_patch = delete = post


@dataclass
class World:
    """An executor on that cluster, and whether it leads."""

    leads: bool = False
    looked: int = 0
    cluster: OneAttempt = field(default_factory=OneAttempt)

    def __post_init__(self) -> None:
        around = Around(leading=lambda: self.leads, pools=self._pools)
        settings = KubernetesSettings(namespace="jobs")
        self.executor = KubernetesExecutor(cast("Connection", self.cluster), settings, around)

    def _pools(self) -> tuple[Pool, ...]:
        self.looked += 1
        return ()

    def done(self) -> list[str]:
        """Close, which finishes what is ordered; returns what was written."""
        self.executor.close()
        return self.cluster.written


@pytest.fixture
def world() -> Iterator[World]:
    made = World()
    yield made
    made.executor.close()


def test_an_order_whose_turn_comes_after_the_lead_is_not_carried_out_and_due_again() -> None:
    carried_out, errors, told = [], list[ApiError | None](), threading.Event()

    def done(error: ApiError | None) -> None:
        errors.append(error)
        told.set()

    orders = Orders(leading=lambda: False)
    orders.give("key", lambda: carried_out.append(1), done)
    assert told.wait(5)
    orders.close()
    assert carried_out == []
    assert [error.try_again for error in errors if error is not None] == [True]


def test_what_is_to_stop_is_left_to_the_one_that_leads(world: World) -> None:
    world.executor.signal(STOPPED, now_ms=Millis(0))
    assert world.done() == []


def test_what_is_to_stop_is_stopped_once_the_lead_is_back(world: World) -> None:
    world.executor.signal(STOPPED, now_ms=Millis(0))
    world.leads = True
    world.executor.signal(STOPPED, now_ms=Millis(0))
    assert f"/apis/batch/v1/namespaces/jobs/jobs/{JOB}" in world.done()


def test_what_nobody_knows_is_not_removed_in_the_name_of_another(world: World) -> None:
    world.executor.adopt(())
    assert world.done() == []


def test_a_beat_reserves_nothing_without_the_lead(world: World) -> None:
    world.executor._beat()
    assert world.looked == 0
    world.leads = True
    world.executor._beat()
    assert world.looked == 1


def test_a_stop_that_is_repeated_every_cycle_costs_nothing_until_its_kill_time(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.leads, looks = True, []

    def note(attempt_id: AttemptId) -> None:
        if threading.current_thread() is threading.main_thread():
            looks.append(attempt_id)

    monkeypatch.setattr(world.executor, "_look", note)
    stopped = replace(STOPPED, stop=replace(a_stop(), kill_ms=Millis(10_000)))
    for now_ms in range(0, 10_000, 1_000):
        world.executor.signal(stopped, now_ms=Millis(now_ms))
    assert looks == [ATTEMPT_ID]
    world.executor.signal(stopped, now_ms=Millis(10_000))
    assert looks == [ATTEMPT_ID, ATTEMPT_ID]
