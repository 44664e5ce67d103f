"""What a user may have waiting is looked at where nobody else can add to it."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import replace

import pytest
from stored_rows import NOW, job, spec, submit

from gpucommons.scheduler.core.model.intents import Intent, Submit, Verdict
from gpucommons.scheduler.core.model.state import Changes
from gpucommons.scheduler.core.model.types import (
    IntentId,
    Kind,
    Millis,
    State,
    UserName,
    WorkloadId,
)
from gpucommons.scheduler.errors import PolicyRefused
from gpucommons.scheduler.parents import Parent, ParentId, ParentKind
from gpucommons.scheduler.store.base import Admit, Store, Submits, WorkloadFilter
from gpucommons.scheduler.store.codec import encode
from gpucommons.scheduler.store.opening import open_store
from gpucommons.scheduler.store.rules import named

ADA, EVE = UserName("ada"), UserName("eve")


def submit_for(owner: str, number: int, **changes: object) -> Intent:
    asked = Submit(workload_id=WorkloadId(f"w-{number:04}"), spec=spec(owner=owner, **changes))
    return submit(number, action=asked)


def at_most(cap: int) -> Admit:
    def admit(pending: frozenset[WorkloadId | ParentId]) -> None:
        if len(pending) >= cap:
            raise PolicyRefused

    return admit


def test_jobs_that_wait_are_those_that_a_cycle_has_seen_and_those_that_it_has_not(
    store: Store,
) -> None:
    epoch = store.take_lead("me")
    waiting = (job(1), job(2, State.PAUSED), job(3, State.NOMINATED))
    others = (
        job(4, State.RUNNING),
        job(5, State.SUCCEEDED),
        job(6, owner=EVE),
        job(7, State.WAITING, kind=Kind.NOTEBOOK),
    )
    store.commit(epoch, Changes(now_ms=NOW, workloads=(*waiting, *others)))
    for intent in (submit(8), submit_for("eve", 9), submit_for("ada", 10, kind=Kind.NOTEBOOK)):
        store.put_intent(intent)

    assert store.pending_jobs(ADA) == {"w-0001", "w-0002", "w-0003", "w-0008"}
    assert store.pending_jobs(EVE) == {"w-0006", "w-0009"}
    seen = Verdict(intent_id=IntentId("i-0008"), workload_id=WorkloadId("w-0008"))
    store.commit(epoch, Changes(now_ms=NOW, workloads=(job(8),), verdicts=(seen,)))
    assert store.pending_jobs(ADA) == {"w-0001", "w-0002", "w-0003", "w-0008"}


def part_of(number: int, parent: str = "p-1") -> Parent:
    return Parent(parent_id=ParentId(parent), kind=ParentKind.MAP, name="digits-map", number=number)


def test_all_jobs_of_one_parent_wait_as_one(store: Store) -> None:
    epoch = store.take_lead("me")
    seen = (job(1, part_of=part_of(1)), job(2, part_of=part_of(2)), job(3))
    ended = job(4, State.SUCCEEDED, part_of=part_of(1, "p-2"))
    store.commit(epoch, Changes(now_ms=NOW, workloads=(*seen, ended)))
    store.put_intent(submit_for("ada", 5, part_of=part_of(3)))
    store.put_intent(submit_for("ada", 6, part_of=part_of(1, "p-3")), admit=at_most(3))

    assert store.pending_jobs(ADA) == {"p-1", "p-3", "w-0003"}
    counted: list[frozenset[WorkloadId | ParentId]] = []
    store.put_intent(submit_for("ada", 7, part_of=part_of(4)), admit=counted.append)
    assert counted == [{"p-1", "p-3", "w-0003"}]
    mine = store.workloads(WorkloadFilter(part_of=ParentId("p-1"))).items
    assert [one.workload_id for one in mine] == ["w-0002", "w-0001"]
    assert [one.spec.part_of for one in mine] == [part_of(2), part_of(1)]


def test_who_is_refused_leaves_nothing_and_who_asks_again_is_not_counted_twice(
    store: Store,
) -> None:
    first = submit(1, idempotency_key="k", fingerprint="f")
    stored = store.put_intent(first, admit=at_most(1))
    assert stored == named(first, lambda _team, base, _index: f"{base}-1")
    with pytest.raises(PolicyRefused):
        store.put_intent(submit(2, idempotency_key="l", fingerprint="f"), admit=at_most(1))

    assert store.asked().intents == (stored,)
    assert store.intent_with_key(ADA, "l", "f") is None
    again = replace(first, intent_id=IntentId("i-0003"))
    assert store.put_intent(again, admit=at_most(1)) == stored
    store.put_intent(submit_for("eve", 4), admit=at_most(1))
    store.put_intent(submit_for("ada", 5, kind=Kind.NOTEBOOK), admit=at_most(0))
    store.put_intent(submit(2, idempotency_key="l", fingerprint="f"), admit=at_most(2))
    assert len(store.asked().intents) == 4


def test_what_was_asked_for_within_a_while_is_counted_with_its_length(store: Store) -> None:
    epoch = store.take_lead("me")
    long = {"env": {"A": "ä" * 1000}}
    for number, (owner, changes, at_ms) in enumerate(
        [("ada", {}, 99), ("ada", {}, 100), ("ada", long, 200), ("eve", {}, 200)]
    ):
        store.put_intent(replace(submit_for(owner, number, **changes), at_ms=Millis(at_ms)))
    ticket = replace(submit_for("ada", 7, kind=Kind.NOTEBOOK), at_ms=Millis(200))
    store.put_intent(ticket)
    refused = Verdict(intent_id=IntentId("i-0001"), error="PolicyRefused")
    store.commit(epoch, Changes(now_ms=NOW, verdicts=(refused,)))

    lengths = [len(encode(i)) for i in store.asked().intents if i.at_ms in (100, 200)]
    one = store.submits(ADA, since_ms=Millis(100))
    assert one == Submits(count=1, size_bytes=lengths[0])
    assert one.size_bytes > 6000
    assert store.submits(ADA, since_ms=Millis(0)).count == 3
    assert store.submits(UserName("bob"), since_ms=Millis(0)) == Submits()


def test_who_comes_while_another_is_let_in_waits_and_counts_it(url: str, store: Store) -> None:
    other = store if url == "memory:" else open_store(url)
    looking, go_on = threading.Event(), threading.Event()

    def slowly(pending: frozenset[WorkloadId | ParentId]) -> None:
        at_most(1)(pending)
        looking.set()
        assert go_on.wait(60)

    with ThreadPoolExecutor(2) as threads:
        first = threads.submit(store.put_intent, submit(1), admit=slowly)
        assert looking.wait(60)
        second = threads.submit(other.put_intent, submit(2), admit=at_most(1))
        # Were it let in, that would take no time.
        wait([second], timeout=0.5)
        go_on.set()
        assert first.result(60) == named(submit(1), lambda _team, base, _index: f"{base}-1")
        with pytest.raises(PolicyRefused):
            second.result(60)

    assert store.pending_jobs(ADA) == {"w-0001"}
    if other is not store:
        other.close()


def test_of_many_who_submit_at_once_no_more_get_in_than_there_is_room_for(
    url: str, store: Store
) -> None:
    replicas = [store] if url == "memory:" else [store, open_store(url)]
    begin = threading.Barrier(8)

    def flood(thread: int) -> int:
        begin.wait(60)
        let_in = 0
        for number in range(5):
            intent = submit(100 * thread + number)
            try:
                replicas[thread % len(replicas)].put_intent(intent, admit=at_most(10))
            except PolicyRefused:
                continue
            let_in += 1
        return let_in

    with ThreadPoolExecutor(8) as threads:
        let_in = sum(threads.map(flood, range(8)))

    assert let_in == len(store.pending_jobs(ADA)) == 10
    for other in replicas[1:]:
        other.close()
