"""A worker that is out of the cluster's books holds its device until it is seen, or sure, to be dead."""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, cast

import pytest
from cluster_objects import (
    ATTEMPT_ID,
    JOB,
    SilentWatches,
    a_job_document,
    a_launch,
    a_pod_seen,
    a_running_pod,
    a_stop,
    an_attempt,
    an_ended_pod,
)

from gpucommons.gpu.errors import AgentUnavailable
from gpucommons.gpu.slices.slices import SliceId
from gpucommons.scheduler.core.model.state import AttemptEnded
from gpucommons.scheduler.core.model.types import Attempt, AttemptId, AttemptState, Millis, NodeId
from gpucommons.scheduler.errors import BadRequest, Unavailable
from gpucommons.scheduler.executors.kubernetes import executor
from gpucommons.scheduler.executors.kubernetes.api_server.connection import ApiError, Connection
from gpucommons.scheduler.executors.kubernetes.attempts.observed_state import Remains
from gpucommons.scheduler.executors.kubernetes.attempts.witnesses import Said, is_believed
from gpucommons.scheduler.executors.kubernetes.cluster_state.scheduler_callbacks import Around
from gpucommons.scheduler.executors.kubernetes.executor import KubernetesExecutor
from gpucommons.scheduler.executors.kubernetes.manifests import patches
from gpucommons.scheduler.executors.kubernetes.settings import KubernetesSettings

#: An hour after the node was last heard to change.
NOW_MS = 3_600_000
GRACE_MS, HOLD_MS = 30_000, 15_000
RUNNING = replace(an_attempt(), state=AttemptState.RUNNING, started_ms=Millis(1))
VANISHED = Remains(rank=0, node="n0", ended=False)
ENDED = replace(VANISHED, ended=True)
HALF_MADE = replace(VANISHED, started=False)


@pytest.mark.parametrize(
    ("remains", "said", "at_once", "later"),
    [
        (VANISHED, Said.EMPTY, True, True),
        (VANISHED, Said.LIVE, False, False),
        (VANISHED, Said.SILENT, False, False),
        (VANISHED, Said.NOTHING, False, True),
        (HALF_MADE, Said.EMPTY, False, True),
        (ENDED, Said.EMPTY, True, True),
        (ENDED, Said.LIVE, False, False),
        (ENDED, Said.SILENT, False, True),
        (ENDED, Said.NOTHING, True, True),
    ],
)
def test_what_is_believed_at_once_and_what_in_time(
    remains: Remains, said: Said, at_once: bool, later: bool
) -> None:
    late_ms = GRACE_MS + HOLD_MS
    assert is_believed(remains, said, waited_ms=late_ms - 1, hold_ms=HOLD_MS) == at_once
    assert is_believed(remains, said, waited_ms=late_ms, hold_ms=HOLD_MS) == later


@dataclass
class ApiServer(SilentWatches):
    """Shows one node, and an attempt's Job where there is one; nothing happens by itself."""

    jobs: list[dict[str, Any]]
    written: list[tuple[str, Any]] = field(default_factory=list)
    ready: str = "True"
    refuses: bool = False

    def get(self, path: str, **_query: object) -> dict[str, Any]:
        condition = {"type": "Ready", "status": self.ready}
        node = {"metadata": {"name": "n0"}, "status": {"conditions": [condition]}}
        if path.endswith(f"/jobs/{JOB}"):
            return next(iter(self.jobs))
        items = {"jobs": self.jobs, "nodes": [node]}.get(path.rpartition("/")[2], [])
        return {"items": items, "metadata": {"resourceVersion": "1"}}

    def delete(self, path: str, body: object) -> dict[str, Any]:
        if self.refuses:
            raise ApiError(403, "Forbidden", "jobs.batch is forbidden")
        self.written.append((path, body))
        return {}

    post = merge_patch = json_patch = delete


@dataclass
class World:
    """An executor, its clock, and what the agent of the node says when it is asked."""

    api: ApiServer
    agent: bool = True
    live: int | None = 0
    silent: bool = False
    now_ms: int = NOW_MS
    asked: list[tuple[NodeId, SliceId]] = field(default_factory=list)
    images: dict[str, str] = field(default_factory=lambda: {"": "image"})
    changed: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        around = Around(
            now_ms=lambda: self.now_ms,
            reading=self._reading if self.agent else None,
            on_change=self.changed.set,
        )
        settings = KubernetesSettings(namespace="jobs", environments=self.images)
        self.executor = KubernetesExecutor(cast("Connection", self.api), settings, around)

    def _reading(self, node: NodeId, slice_id: SliceId) -> int | None:
        self.asked.append((node, slice_id))
        if self.silent:
            raise AgentUnavailable("It does not answer.")
        return self.live

    def shows(self, kind: str, pod: Any) -> None:
        with self.executor._lock:
            self.executor._view._pod(kind, pod)
            self.executor._look(ATTEMPT_ID)

    def pass_ms(self, ms: int) -> None:
        """Time goes by, and what was asked is answered."""
        self.now_ms += ms
        self.executor._beat()
        questions = self.executor._witnesses._orders
        while not (questions.idle and self.executor._orders.idle):
            threading.Event().wait(0.005)

    def end(self) -> AttemptEnded | None:
        self.pass_ms(1_000)
        # As the workqueue does, soon.
        self.executor._look_now(ATTEMPT_ID)
        found = [one for one in self.executor.observe() if isinstance(one, AttemptEnded)]
        return found[0] if found else None


@pytest.fixture
def make() -> Iterator[Any]:
    made: list[World] = []

    def world(*jobs: dict[str, Any], known: Attempt = RUNNING, **with_: Any) -> World:
        ready = with_.pop("ready", "True")
        found = World(ApiServer(list(jobs), ready=ready), **with_)
        made.append(found)
        found.lives = found.executor.adopt([known])  # type: ignore[attr-defined] # for one test
        return found

    yield world
    for one in made:
        one.executor.close()


def vanish(world: World) -> None:
    """Its pod ran, and is out of the books without having ended."""
    world.shows("ADDED", a_running_pod())
    world.shows("DELETED", a_running_pod())


def test_a_pod_deleted_by_force_is_live_while_its_agent_sees_processes(make: Any) -> None:
    world = make(a_job_document(), live=2)
    vanish(world)
    world.pass_ms(3_600_000)
    assert world.end() is None
    world.live = 0
    assert world.end() is not None
    assert set(world.asked) == {("n0", "s-0")}


def test_one_that_comes_up_after_its_agent_saw_nothing_is_live(make: Any) -> None:
    made = a_running_pod(phase="Pending", started=False)
    world = make(a_job_document(), live=0)
    world.shows("ADDED", made)
    world.shows("DELETED", made)
    world.pass_ms(1_000)
    world.live = 1
    world.pass_ms(GRACE_MS)
    world.pass_ms(HOLD_MS)
    assert world.end() is None
    world.live = 0
    world.pass_ms(1_000)
    assert world.end() is not None


def test_an_agent_that_is_away_proves_nothing(make: Any) -> None:
    world = make(a_job_document(), silent=True)
    vanish(world)
    world.pass_ms(3_600_000)
    assert world.end() is None
    world.silent = False
    assert world.end() is not None


def test_without_an_agent_its_place_is_held_for_its_grace_and_more(make: Any) -> None:
    world = make(a_job_document(), agent=False)
    vanish(world)
    world.pass_ms(GRACE_MS + HOLD_MS - 2_000)
    assert world.end() is None
    assert world.end() is not None


def test_one_that_the_kubelet_saw_end_is_over_once_its_agent_sees_nothing(make: Any) -> None:
    world = make(a_job_document(), live=1)
    world.shows("ADDED", a_running_pod())
    world.shows("MODIFIED", an_ended_pod())
    assert world.end() is None
    world.live = 0
    end = world.end()
    assert end is not None
    assert end.exit_code == 0


@pytest.mark.parametrize(
    "jobs", [(), (a_job_document(suspend=True),)], ids=["nothing left", "its job"]
)
def test_what_ran_and_left_nothing_on_a_node_that_is_away_is_live_after_a_restart(
    make: Any, jobs: tuple[dict[str, Any], ...]
) -> None:
    world = make(*jobs, agent=False, ready="Unknown")
    assert [live.running for live in world.lives] == [True]
    world.pass_ms(3_600_000)
    assert world.end() is None
    # The node is back, and has had the time to end what it should not run.
    back = replace(world.executor._view.nodes["n0"], ready=True)
    with world.executor._lock:
        world.executor._view._nodes.event("MODIFIED", back)
    assert world.end() is None
    world.pass_ms(GRACE_MS + HOLD_MS)
    assert world.end() is not None


def test_it_is_not_started_a_second_time_after_a_restart(make: Any) -> None:
    world = make(ready="Unknown")
    world.executor.start(a_launch(RUNNING))
    world.pass_ms(1_000)
    assert world.api.written == []


def test_a_pod_that_its_job_made_in_its_place_is_stopped_and_not_let_go(make: Any) -> None:
    world = make(a_job_document(), live=1)
    world.shows("ADDED", a_pod_seen())
    world.pass_ms(1_000)
    assert world.api.written[0] == (
        f"/apis/batch/v1/namespaces/jobs/jobs/{JOB}",
        patches.suspend(),
    )
    assert world.end() is None
    world.live = 0
    assert world.end() is not None


def test_pods_of_a_suspended_job_are_ended_by_us_at_their_kill_time(make: Any) -> None:
    kill_ms = NOW_MS + 60_000
    stopped = replace(RUNNING, stop=a_stop(kill_ms=Millis(kill_ms)))
    world = make(a_job_document(suspend=True), known=stopped, live=1)
    world.shows("ADDED", a_running_pod())
    world.executor.signal(stopped, now_ms=Millis(NOW_MS))
    world.pass_ms(59_000)
    assert world.api.written == []
    world.pass_ms(1_000)
    world.pass_ms(1_000)
    ((path, body),) = world.api.written
    assert path == f"/api/v1/namespaces/jobs/pods/{JOB}-0-abcde"
    assert body["gracePeriodSeconds"] == 1


def test_what_outlives_its_kill_time_is_looked_at_now_and_then_not_all_the_time(
    make: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    stopped = replace(RUNNING, stop=a_stop(kill_ms=Millis(NOW_MS)))
    world = make(a_job_document(suspend=True), known=stopped, live=1)
    world.shows("ADDED", a_running_pod())
    world.executor.signal(stopped, now_ms=Millis(NOW_MS))
    world.pass_ms(0)
    assert len(world.api.written) == 1
    driven, drive = [], world.executor._driver.drive

    def note(record: Any, trace: Any) -> None:
        driven.append(world.now_ms - NOW_MS)
        drive(record, trace)

    world.executor._workqueue.close()  # whatever is still to be looked at after the order
    monkeypatch.setattr(world.executor._driver, "drive", note)
    for _ in range(25):
        world.pass_ms(1_000)
        world.executor.signal(stopped, now_ms=Millis(world.now_ms))
    assert driven == [10_000, 20_000]
    assert len(world.api.written) == 1


STARTING = an_attempt()


def test_what_left_nothing_may_have_run_and_is_not_started_again_while_its_node_is_away(
    make: Any,
) -> None:
    world = make(known=STARTING, agent=False, ready="Unknown")
    for _ in range(5):
        world.executor.start(a_launch(STARTING))
        world.pass_ms(3_600_000)
    assert world.api.written == []
    # It is given up meanwhile: that frees nothing either.
    stopped = replace(STARTING, stop=a_stop())
    world.executor.signal(stopped, now_ms=Millis(world.now_ms))
    world.pass_ms(3_600_000)
    assert world.end() is None
    back = replace(world.executor._view.nodes["n0"], ready=True)
    with world.executor._lock:
        world.executor._view._nodes.event("MODIFIED", back)
    world.pass_ms(1_000)
    world.pass_ms(GRACE_MS + HOLD_MS)
    end = world.end()
    assert end is not None
    assert end.text == "It was stopped before it ran"
    assert world.api.written == []


@pytest.mark.parametrize(("agent", "wait_ms"), [(True, 1_000), (False, GRACE_MS + HOLD_MS)])
def test_what_left_nothing_is_started_once_nothing_of_it_can_run(
    make: Any, agent: bool, wait_ms: int
) -> None:
    world = make(known=STARTING, agent=agent, live=1)
    assert world.lives == ()
    world.executor.start(a_launch(STARTING))
    world.pass_ms(1_000)
    assert world.api.written == []
    world.live = 0
    world.pass_ms(wait_ms)
    world.pass_ms(1_000)
    world.executor.start(a_launch(STARTING))
    world.pass_ms(1_000)
    assert world.api.written[0][0] == "/apis/batch/v1/namespaces/jobs/jobs"


def test_what_cannot_be_made_once_its_doubt_is_settled_is_refused_to_the_loop(make: Any) -> None:
    world = make(known=STARTING, agent=False, images={})
    world.executor.start(a_launch(STARTING))
    world.pass_ms(1_000)
    world.changed.clear()
    world.pass_ms(120_000)
    # The loop is told to come, and hears what is wrong; nothing else does.
    assert world.changed.wait(90)
    with pytest.raises(BadRequest, match="environment"):
        world.executor.start(a_launch(STARTING))


def test_what_cannot_be_laid_out_yet_is_due_until_it_is(
    make: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = make()
    new = replace(STARTING, attempt_id=AttemptId("a-new"))

    def not_yet(*_args: object) -> None:
        raise Unavailable("n0 is not seen: the job starts when it is.")

    with monkeypatch.context() as patched:
        patched.setattr(executor, "lay_out", not_yet)
        for _ in range(2):
            with pytest.raises(Unavailable):
                world.executor.start(a_launch(new))
    world.executor.start(a_launch(new))
    world.pass_ms(1_000)
    assert world.api.written[0][0] == "/apis/batch/v1/namespaces/jobs/jobs"


def test_a_start_that_was_refused_to_an_earlier_lead_is_made_after_its_rest(make: Any) -> None:
    world = make()
    new = replace(STARTING, attempt_id=AttemptId("a-new"))
    world.api.refuses = True
    world.executor.start(a_launch(new))
    world.pass_ms(1_000)
    rests = world.executor._orders._refusals._rests.values()
    for rest in rests:
        rest.until_s = math.inf  # also on a machine that takes longer for this than the first rest
    world.executor.rest()
    world.api.refuses = False
    world.executor.adopt([])

    # What the first attempt left is still seen to, whenever its turn comes: only this start is meant.
    jobs = "/apis/batch/v1/namespaces/jobs/jobs"
    world.executor.start(a_launch(new))
    world.pass_ms(1_000)
    refused = "people mend what is refused: it is not asked at once again"
    assert jobs not in [path for path, _ in world.api.written], refused
    for rest in rests:
        rest.until_s = 0.0
    world.executor.start(a_launch(new))
    world.pass_ms(1_000)
    assert jobs in [path for path, _ in world.api.written]


def test_an_attempt_that_cannot_be_looked_at_does_not_keep_the_beat_from_others(
    make: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = make(known=STARTING, agent=False)
    other = replace(STARTING, attempt_id=AttemptId("a-other"))
    world.executor.adopt([STARTING, other])
    looked: list[AttemptId] = []

    def look(attempt_id: AttemptId) -> None:
        looked.append(attempt_id)
        raise RuntimeError("this one cannot be read")

    monkeypatch.setattr(world.executor, "_look", look)
    world.pass_ms(1_000)
    assert set(looked) == {STARTING.attempt_id, other.attempt_id}
