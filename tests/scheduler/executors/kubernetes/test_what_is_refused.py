"""What the cluster refuses is said to those who can do something about it, and not asked again at once."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, cast

import pytest
from cluster_objects import (
    JOB,
    SilentWatches,
    a_job_document,
    a_pod_seen,
    a_running_pod,
    a_stop,
    an_attempt,
)

from gpucommons.gpu.devices.devices import DeviceId
from gpucommons.scheduler.core.model.resources import Pool
from gpucommons.scheduler.core.model.types import AttemptState, Millis, PoolName
from gpucommons.scheduler.executors.kubernetes.api_server.connection import ApiError, Connection
from gpucommons.scheduler.executors.kubernetes.api_server.refusals import Refusals
from gpucommons.scheduler.executors.kubernetes.attempts import sentences
from gpucommons.scheduler.executors.kubernetes.cluster_state.scheduler_callbacks import Around
from gpucommons.scheduler.executors.kubernetes.executor import KubernetesExecutor
from gpucommons.scheduler.executors.kubernetes.settings import KubernetesSettings

FORBIDDEN = ApiError(
    403, "Forbidden", 'jobs.batch "gc-1" is forbidden: User "gc" cannot patch jobs'
)
AWAY = ApiError(503, "", "not now")
RUNNING = replace(an_attempt(), state=AttemptState.RUNNING, started_ms=Millis(1))
SLOT = DeviceId("n0/gpu-0")


def test_rests_grow_with_each_refusal_and_are_over_with_the_first_success() -> None:
    now_s = [0.0]
    refusals = Refusals(lambda: now_s[0])
    rested = []
    for _ in range(8):
        refusals.note("key", FORBIDDEN)
        began_s = now_s[0]
        while refusals.rests("key"):
            now_s[0] += 1
        rested.append(now_s[0] - began_s)
    assert rested == [2, 4, 8, 16, 32, 60, 60, 60]
    refusals.note("key", FORBIDDEN)
    assert refusals.rests("key")
    assert not refusals.rests("another")
    refusals.note("key", None)
    assert not refusals.rests("key")


@pytest.mark.parametrize("error", [AWAY, ApiError(404, "NotFound", ""), ApiError(409, "", "")])
def test_what_is_away_gone_or_was_faster_is_no_refusal(error: ApiError) -> None:
    refusals = Refusals(lambda: 0.0)
    refusals.note("key", error)
    assert not refusals.rests("key")


@dataclass
class Refusing(SilentWatches):
    """A cluster with one node and one Job, in which we may change nothing."""

    asked: list[str] = field(default_factory=list)
    refuses: bool = True

    def get(self, path: str, **_query: object) -> dict[str, Any]:
        ready = {"conditions": [{"type": "Ready", "status": "True"}]}
        status = {**ready, "allocatable": {"nvidia.com/gpu": "1", "cpu": "8", "memory": "8Gi"}}
        labels = {"gpucommons.io/pool": "train", "kubernetes.io/hostname": "n0"}
        node = {"metadata": {"name": "n0", "labels": labels}, "status": status}
        items = {"jobs": [a_job_document()], "nodes": [node]}.get(path.rpartition("/")[2], [])
        return {"items": items, "metadata": {"resourceVersion": "1"}}

    def post(self, path: str, _body: object) -> dict[str, Any]:
        self.asked.append(path)
        if self.refuses:
            raise FORBIDDEN
        return {}

    merge_patch = json_patch = delete = post


def until(true: Callable[[], object]) -> None:
    """Orders are carried out beside the test."""
    give_up_s = time.monotonic() + 90
    while not true():
        assert time.monotonic() < give_up_s
        threading.Event().wait(0.005)


@dataclass
class World:
    cluster: Refusing = field(default_factory=Refusing)
    fractions: set[DeviceId] = field(default_factory=set)

    def __post_init__(self) -> None:
        pool = Pool(name=PoolName("train"), executor="kubernetes", gpu_kind="A100-40")
        around = Around(pools=lambda: (pool,), fractions=lambda: frozenset(self.fractions))
        settings = KubernetesSettings(namespace="jobs")
        self.executor = KubernetesExecutor(cast("Connection", self.cluster), settings, around)
        self.executor.adopt([RUNNING])

    def beat(self, times: int = 1) -> None:
        for _ in range(times):
            self.executor._beat()
            until(lambda: self.executor._orders.idle)

    def rest(self) -> None:
        """The time until it may be asked again goes by."""
        for rest in self.executor._orders._refusals._rests.values():
            rest.until_s = 0.0


@pytest.fixture
def world() -> Iterator[World]:
    made = World()
    yield made
    made.executor.close()


def test_a_stop_that_is_refused_is_said_and_asked_again_later(world: World) -> None:
    with world.executor._lock:
        world.executor._view._pod("ADDED", a_running_pod())
    stopped = replace(RUNNING, stop=a_stop(kill_ms=Millis(2**50)))
    world.executor.signal(stopped, now_ms=Millis(0))
    world.beat(20)
    path = f"/apis/batch/v1/namespaces/jobs/jobs/{JOB}"
    assert world.cluster.asked == [path]
    until(world.executor.refusals)
    (said,) = world.executor.refusals().values()
    assert said.startswith(
        "It cannot be ended, and holds what it has: The cluster refuses it: jobs.b"
    )
    assert world.executor.troubles() == {"jobs/suspend": said}
    world.cluster.refuses = False
    world.rest()
    world.beat()
    assert world.cluster.asked == [path, path]
    until(lambda: not world.executor.refusals())
    assert world.executor.troubles() == {}


def test_a_kill_that_is_refused_is_due_again(world: World) -> None:
    with world.executor._lock:
        world.executor._view._pod("ADDED", a_running_pod())
        world.executor._view.cache.suspended(RUNNING.attempt_id, JOB)
    world.executor.signal(replace(RUNNING, stop=a_stop()), now_ms=Millis(2**50))
    world.beat(5)
    assert len(world.cluster.asked) == 1
    # Its answer is heard a moment after it was given.
    until(world.executor.refusals)
    world.cluster.refuses = False
    world.rest()
    world.beat()
    assert len(world.cluster.asked) == 2


def test_a_reservation_that_is_refused_is_said_of_its_slot(world: World) -> None:
    world.fractions.add(SLOT)
    world.beat(20)
    assert len(world.cluster.asked) == 1
    until(world.executor.troubles)
    assert world.executor.troubles()[SLOT].startswith(
        f"Nothing of ours can hold {SLOT}: The cluster"
    )
    world.cluster.refuses = False
    world.rest()
    world.beat()
    until(lambda: not world.executor.troubles())


def test_what_is_asked_once_is_not_said_to_be_tried_again() -> None:
    again = "until then it is tried again every minute."
    said = {order: sentences.cannot(order, "no") for order in ("suspend", "hurry", "lift")}
    assert {order for order, one in said.items() if one.endswith(again)} == {"suspend", "hurry"}
    assert all("Whoever runs the cluster must allow it" in one for one in said.values())


def test_a_refused_kill_of_a_pod_that_is_gone_since_is_not_complained_of(world: World) -> None:
    with world.executor._lock:
        world.executor._view._pod("ADDED", a_running_pod())
        world.executor._view.cache.suspended(RUNNING.attempt_id, JOB)
    world.executor.signal(replace(RUNNING, stop=a_stop()), now_ms=Millis(2**50))
    until(world.executor.refusals)
    with world.executor._lock:
        world.executor._view._pod("DELETED", a_running_pod())
    world.beat()
    assert world.executor.refusals() == {}


def test_a_pod_whose_way_was_just_refused_is_let_go_after_the_rest(world: World) -> None:
    """As when a replica leads anew: its record knows of no refusal, its orders do."""
    executor, (attempt_id, pod) = world.executor, (RUNNING.attempt_id, a_pod_seen())
    starting = replace(RUNNING, state=AttemptState.STARTING, started_ms=None)
    world.cluster.refuses = False
    executor.rest()
    executor._orders._refusals.note((attempt_id, "lift", pod.uid), FORBIDDEN)
    executor.adopt([starting])
    with executor._lock:
        executor._records[attempt_id].laid_out = True
        executor._view._pod("ADDED", pod)
        executor._look(attempt_id)
    assert world.cluster.asked == []
    assert executor._records[attempt_id].due_again
    world.rest()
    with executor._lock:
        executor._look(attempt_id)
    until(lambda: world.cluster.asked)
