"""What a cycle tells: what it takes back costs no more in a long cycle than in a short one."""

from __future__ import annotations

from gpucommons.scheduler.core.cycle_state.parts import Told
from gpucommons.scheduler.core.model.state import Event
from gpucommons.scheduler.core.model.types import Millis, WorkloadId

JOBS = 200


class _Counting(str):
    """An id that counts how often it is compared."""

    __slots__ = ()
    compared = 0

    def __eq__(self, other: object) -> bool:
        _Counting.compared += 1
        return str.__eq__(self, other) is True

    def __hash__(self) -> int:
        return str.__hash__(self)


def an_event(kind: str, workload_id: WorkloadId, text: str = "") -> Event:
    return Event(at_ms=Millis(0), kind=kind, by="scheduler", text=text, workload_id=workload_id)


def texts(told: Told) -> list[str]:
    return [event.text for event in told.events]


def test_no_admission_walks_the_events_of_those_before_it() -> None:
    told = Told()
    _Counting.compared = 0
    for number in range(JOBS):
        job = WorkloadId(_Counting(f"job-{number}"))
        told.take_back("admitted", job)
        told.tell(an_event("admitted", job))
    assert len(told.events) == JOBS
    assert _Counting.compared <= 2 * JOBS


def test_the_newest_of_a_kind_is_taken_back_first_and_the_order_stays() -> None:
    told, job, other = Told(), WorkloadId("a"), WorkloadId("b")
    for one, text in ((job, "first"), (other, "theirs"), (job, "second")):
        told.tell(an_event("nominated", one, text))
    assert told.take_back("nominated", job)
    assert texts(told) == ["first", "theirs"]
    assert told.take_back("nominated", job)
    assert not told.take_back("nominated", job)
    assert not told.take_back("admitted", other)
    assert texts(told) == ["theirs"]


def test_what_is_gone_with_a_mark_is_not_taken_back_in_its_stead() -> None:
    told, job = Told(), WorkloadId("a")
    told.tell(an_event("nominated", job, "before"))
    mark = told.mark()
    told.tell(an_event("nominated", job, "since"))
    told.take_back_since(mark)
    assert texts(told) == ["before"]
    assert told.take_back("nominated", job)
    assert texts(told) == []
