"""Which nodes are slow, by the steps that the same job told on several."""

from __future__ import annotations

from dataclasses import replace

import pytest
from builders import a_device, a_job, a_node
from hypothesis import given
from hypothesis import strategies as st

from gpucommons.scheduler.core.model.going_on import Pace
from gpucommons.scheduler.core.model.resources import Node, SlowNode
from gpucommons.scheduler.core.model.types import (
    Attempt,
    AttemptId,
    AttemptState,
    HoldClass,
    Millis,
    NodeId,
    Progress,
    State,
    WorkerPlacement,
    Workload,
    WorkloadId,
)
from gpucommons.scheduler.forecast.slow_nodes import (
    AVOIDED_MS,
    COUNTED_MS,
    LEAST_RUNS,
    StepTime,
    slow_nodes,
    slow_pairs,
    step_times,
)

NOW = Millis(100 * 86_400_000)
N1, N2, N3 = NodeId("n1"), NodeId("n2"), NodeId("n3")
NODES = {
    node_id: a_node(node_id, devices=(replace(a_device(f"{node_id}-g0", 0), simulated=False),))
    for node_id in (N1, N2, N3)
}


def runs(node: NodeId, *steps_s: float, job: str = "a", at_ms: int = NOW - 1) -> list[StepTime]:
    return [
        StepTime(signature=job, place=frozenset({node}), step_s=step_s, at_ms=Millis(at_ms))
        for step_s in steps_s
    ]


def found(times: list[StepTime], nodes: dict[NodeId, Node] = NODES) -> dict[NodeId, int]:
    return {node_id: slow.percent for node_id, slow in slow_nodes(times, nodes, NOW).items()}


def test_a_node_where_the_same_steps_take_longer_is_slow() -> None:
    times = [*runs(N1, *[1.3] * 5), *runs(N2, *[1.0] * 3), *runs(N3, *[1.0] * 3)]
    assert slow_nodes(times, NODES, NOW) == {
        N1: SlowNode(
            percent=30, runs=5, jobs=1, since_ms=NOW, until_ms=Millis(NOW - 1 + AVOIDED_MS)
        )
    }


def test_of_too_few_runs_nothing_is_said() -> None:
    enough = runs(N2, *[1.0] * LEAST_RUNS)
    assert found([*runs(N1, *[2.0] * (LEAST_RUNS - 1)), *enough]) == {}
    assert found([*runs(N1, *[2.0] * LEAST_RUNS), *enough[1:]]) == {}
    assert found([*runs(N1, *[2.0] * LEAST_RUNS), *enough]) == {N1: 100}


def test_a_tenth_longer_is_what_runs_differ_anyway() -> None:
    assert found([*runs(N1, *[1.1] * 9), *runs(N2, *[1.0] * 9)]) == {}


def test_a_bad_run_makes_no_node_slow() -> None:
    assert found([*runs(N1, 1.0, 1.0, 9.0, 1.0, 9.0), *runs(N2, *[1.0] * 5)]) == {}


def test_steps_of_other_jobs_are_not_compared() -> None:
    assert found([*runs(N1, *[5.0] * 9, job="large"), *runs(N2, *[1.0] * 9, job="small")]) == {}


def test_each_job_has_one_voice() -> None:
    times = [*runs(N1, *[2.0] * 500, job="loud"), *runs(N2, *[1.0] * 5, job="loud")]
    for job in ("b", "c"):
        times += [*runs(N1, *[1.0] * 5, job=job), *runs(N2, *[1.0] * 5, job=job)]
    assert found(times) == {}


def test_a_node_is_as_slow_as_the_median_of_its_jobs() -> None:
    times = []
    for job, step_s in (("a", 1.4), ("b", 1.2), ("c", 1.0)):
        times += [*runs(N1, *[step_s] * 6, job=job), *runs(N2, *[1.0] * 5, job=job)]
    slow = slow_nodes(times, NODES, NOW)
    assert (slow[N1].percent, slow[N1].runs, slow[N1].jobs) == (20, 18, 3)


def test_a_job_that_is_as_fast_there_keeps_no_node_avoided() -> None:
    last = NOW - AVOIDED_MS
    slower = [*runs(N1, *[1.6] * 5, job="a", at_ms=last + 7), *runs(N2, *[1.0] * 5, job="a")]
    alike = [*runs(N1, *[1.0] * 5, job="b"), *runs(N2, *[1.0] * 5, job="b")]
    (slow,) = slow_nodes([*slower, *alike], NODES, NOW).values()
    assert (slow.percent, slow.until_ms) == (30, NOW + 7)
    assert slow_nodes([*slower, *alike], NODES, Millis(NOW + 7)) == {}


def test_old_runs_are_of_another_time_and_what_was_slow_is_tried_again() -> None:
    others = runs(N2, *[1.0] * 9)
    assert found([*runs(N1, *[2.0] * 9, at_ms=NOW - COUNTED_MS), *others]) == {}
    assert found([*runs(N1, *[2.0] * 9, at_ms=NOW - AVOIDED_MS), *others]) == {}
    assert found([*runs(N1, *[2.0] * 9, at_ms=NOW - AVOIDED_MS + 1), *others]) == {N1: 100}


DAY_MS = 86_400_000


def test_what_is_avoided_stays_so_until_it_was_said_though_nothing_new_runs_there() -> None:
    days_ago = (13, 12, 11, 10, 0)
    times = [
        one
        for days in days_ago
        for node, step_s in ((N1, 1.4), (N2, 1.0))
        for one in runs(node, step_s, at_ms=NOW - days * DAY_MS)
    ]
    until_ms = NOW + AVOIDED_MS
    for now_ms in (NOW, NOW + 2 * DAY_MS, until_ms - 1):
        assert slow_nodes(times, NODES, Millis(now_ms))[N1].until_ms == until_ms
    assert slow_nodes(times, NODES, Millis(until_ms)) == {}


def test_a_place_is_avoided_for_longer_than_runs_count_where_that_is_set() -> None:
    times = [*runs(N1, *[1.4] * 5), *runs(N2, *[1.0] * 5)]
    later = Millis(NOW + 29 * DAY_MS)
    assert set(slow_nodes(times, NODES, later, avoided_ms=30 * DAY_MS)) == {N1}


def test_runs_long_before_the_last_one_there_do_not_count() -> None:
    before = [*runs(N1, *[1.4] * 5, at_ms=NOW - COUNTED_MS - 1), *runs(N2, *[1.0] * 9)]
    assert set(slow_nodes(before, NODES, NOW, avoided_ms=2 * COUNTED_MS)) == {N1}
    assert slow_nodes([*before, *runs(N1, 1.4)], NODES, NOW, avoided_ms=2 * COUNTED_MS) == {}


def test_it_is_slow_since_that_was_first_known() -> None:
    before = SlowNode(percent=40, runs=5, since_ms=Millis(7), until_ms=Millis(8))
    nodes = {**NODES, N1: replace(NODES[N1], slow=before)}
    slow = slow_nodes([*runs(N1, *[1.3] * 5), *runs(N2, *[1.0] * 5)], nodes, NOW)
    assert slow[N1].since_ms == 7


@given(
    st.lists(
        st.tuples(st.sampled_from([N1, N2, N3]), st.floats(0.5, 5), st.sampled_from("ab")),
        max_size=60,
    )
)
def test_never_are_all_nodes_slow(told: list[tuple[NodeId, float, str]]) -> None:
    times = [one for node, step_s, job in told for one in runs(node, step_s, job=job)]
    one_job = [one for one in times if one.signature == "a"]
    assert len(found(one_job)) < len(NODES)


def a_run(node: NodeId = N1, *, steps: int = 100, minutes: int = 5, **changes: object) -> Workload:
    spec = a_job("digits-1", 1000, snapshot="abc", **changes)
    attempt = Attempt(
        attempt_id=AttemptId("x"),
        workload_id=WorkloadId("w"),
        number=1,
        state=AttemptState.ENDED,
        hold_class=HoldClass.GUARANTEED,
        placements=(
            WorkerPlacement(
                role="worker",
                index=0,
                node_id=node,
                device_ids=(NODES[node].devices[0].device_id,),
                milli_gpu=1000,
            ),
        ),
        reserved_ms=Millis(0),
        ended_ms=Millis(NOW - 1),
        drivers=("",),
        pace=Pace(from_step=0, from_ms=0, step=steps, at_ms=minutes * 60_000),
    )
    return Workload(
        workload_id=WorkloadId("w"),
        spec=spec,
        state=State.SUCCEEDED,
        submitted_ms=Millis(0),
        since_ms=Millis(0),
        attempts=(attempt,),
        progress=Progress(step=steps, at_ms=Millis(minutes * 60_000), source="log"),
    )


def test_the_same_job_is_compared_over_nodes() -> None:
    (one,) = step_times(a_run(N1), NODES)
    (other,) = step_times(a_run(N2), NODES)
    assert (one.signature, one.place, one.step_s) == (other.signature, {N1}, 3.0)


@pytest.mark.parametrize(
    "changes",
    [
        {"env": {"LR": "2"}},
        {"snapshot": "def"},
        {"environment": "/other"},
        {"launcher": "torchrun"},
    ],
)
def test_a_job_that_differs_is_another(changes: dict[str, object]) -> None:
    job = a_run()
    changed = replace(job, spec=replace(job.spec, **changes))
    (one,), (other,) = step_times(job, NODES), step_times(changed, NODES)
    assert one.signature != other.signature


def test_a_start_a_share_another_driver_and_simulated_gpus_tell_nothing() -> None:
    job = a_run()
    (attempt,) = job.attempts
    (place,) = attempt.placements
    half = replace(attempt, placements=(replace(place, milli_gpu=500),))
    three = [replace(place, node_id=node_id) for node_id in NODES]
    many = replace(attempt, placements=tuple(three))
    pretended = a_node(N1, devices=(replace(a_device("n1-g0", 0), simulated=True),))
    assert list(step_times(a_run(steps=3), NODES)) == []
    assert list(step_times(a_run(minutes=0), NODES)) == []
    for other in (half, many, replace(attempt, pace=None), replace(attempt, drivers=("580.1",))):
        assert list(step_times(replace(job, attempts=(other,)), NODES)) == []
    assert list(step_times(job, {N1: pretended})) == []
    assert list(step_times(job, {})) == []
    assert list(step_times(replace(job, progress=None), NODES)) == []


def test_epochs_are_not_compared_with_steps() -> None:
    job = a_run()
    assert job.progress is not None
    epochs = replace(job, progress=replace(job.progress, unit="epoch"))
    (one,), (other,) = step_times(job, NODES), step_times(epochs, NODES)
    assert one.signature != other.signature


def pair(one: NodeId, other: NodeId, *steps_s: float, job: str = "a") -> list[StepTime]:
    return [replace(run, place=frozenset({one, other})) for run in runs(one, *steps_s, job=job)]


def test_two_nodes_that_are_slow_together_are_told_at_both() -> None:
    times = [*pair(N1, N2, *[1.4] * 5), *pair(N1, N3, *[1.0] * 3), *pair(N2, N3, *[1.0] * 3)]
    links = slow_pairs(times, NODES, NOW, avoided_ms=3_600_000)
    (at_one,), (at_other,) = links[N1], links[N2]
    assert (at_one.other, at_other.other, set(links)) == (N2, N1, {N1, N2})
    assert (at_one.slow.percent, at_one.slow.runs) == (40, 5)
    assert at_one.slow.until_ms == NOW - 1 + 3_600_000
    assert slow_nodes(times, NODES, NOW) == {}
    assert slow_pairs(times, NODES, Millis(NOW + 3_600_000), avoided_ms=3_600_000) == {}


def test_runs_on_one_node_say_nothing_of_a_pair() -> None:
    assert slow_pairs([*runs(N1, *[1.0] * 9), *pair(N1, N2, *[3.0] * 9)], NODES, NOW) == {}


def test_a_job_on_two_nodes_tells_of_them_together_if_it_is_spread_alike() -> None:
    job = a_run()
    (attempt,) = job.attempts
    (place,) = attempt.placements
    other = replace(place, node_id=N2, device_ids=(NODES[N2].devices[0].device_id,))
    even, uneven = (place, other), (place, place, other)
    told = [
        next(step_times(replace(job, attempts=(replace(attempt, placements=placed),)), NODES))
        for placed in (even, tuple(reversed(even)), uneven)
    ]
    assert [one.place for one in told] == [{N1, N2}] * 3
    assert told[0].signature == told[1].signature != told[2].signature
