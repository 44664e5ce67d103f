"""When time alone will change something: noted once, dropped when it no longer holds."""

from __future__ import annotations

from gpucommons.scheduler.core.cycle_state.next_deadlines import Clock
from gpucommons.scheduler.core.model.types import WorkloadId

JOB, OTHER = WorkloadId("job"), WorkloadId("other")


def test_a_deadline_is_noted_once_however_often_its_workload_changes() -> None:
    clock = Clock()
    for now_ms in range(1000):
        clock.fresh.add(JOB)
        clock.look(lambda _: [5000], now_ms)
    assert len(clock) == 1
    assert clock.passed(4999) == set()
    assert clock.passed(5000) == {JOB}
    assert len(clock) == 0


def test_a_deadline_that_was_put_off_and_back_again_still_comes() -> None:
    clock, due = Clock(), {JOB: [300]}
    for times in ([300], [200], [300]):
        due[JOB] = times
        clock.fresh.add(JOB)
        clock.look(lambda one: due[one], 0)
        assert clock.next_ms(lambda one: due[one]) == times[0]
    assert clock.passed(250) == set()
    assert clock.passed(300) == {JOB}


def test_what_was_due_when_it_was_noted_has_passed() -> None:
    clock = Clock()
    clock.fresh.update((JOB, OTHER))
    clock.look(lambda one: [100] if one == JOB else [900], 500)
    assert clock.passed(500) == {JOB}
    assert clock.passed(900) == {OTHER}
