"""The contract of every store: memory, SQLite and PostgreSQL."""

from __future__ import annotations

import threading
from dataclasses import replace
from itertools import product

import pytest
from stored_rows import NOW, VISION, event, job, ledger_row, point, running, submit

from gpucommons.scheduler.core.model.intents import Cancel, Intent, Verdict
from gpucommons.scheduler.core.model.lifecycle import (
    LEASES_REMEMBERED_MS,
    WITHDRAWALS_REMEMBERED_MS,
)
from gpucommons.scheduler.core.model.resources import Block, Node, Policy, Pool, Quota, Team
from gpucommons.scheduler.core.model.state import Changes
from gpucommons.scheduler.core.model.types import (
    IntentId,
    Kind,
    Millis,
    NodeId,
    PoolName,
    State,
    TeamName,
    UserName,
    WorkloadId,
)
from gpucommons.scheduler.core.packing.asks import Ask
from gpucommons.scheduler.core.packing.learning import learned
from gpucommons.scheduler.errors import BadRequest, Conflict, LeaderLost
from gpucommons.scheduler.store.base import (
    EventSight,
    LostMinutes,
    Store,
    WorkloadFilter,
)
from gpucommons.scheduler.store.opening import open_store

# --- intents -----------------------------------------------------------------------------------


def test_intents_wait_in_order_of_arrival_until_they_have_a_verdict(store: Store) -> None:
    epoch = store.take_lead("me")
    first, second = store.put_intent(submit(2)), store.put_intent(submit(1))
    assert store.asked().intents == (first, second)
    assert store.asked(limit=1).intents == (first,)
    verdict = Verdict(intent_id=first.intent_id, workload_id=WorkloadId("w-0002"))
    store.commit(epoch, Changes(now_ms=NOW, verdicts=(verdict,)))
    assert store.asked().intents == (second,)
    assert store.verdict(first.intent_id) == verdict
    assert store.verdict(second.intent_id) is None


def test_several_intents_are_asked_for_in_one_order(store: Store) -> None:
    several = [submit(2), submit(3), submit(1)]
    store.put_intents(several)
    store.put_intents([])
    assert store.asked().intents == tuple(several)


def test_an_intent_is_found_by_the_key_of_its_author(store: Store) -> None:
    ada, eve = UserName("ada"), UserName("eve")
    assert store.intent_with_key(ada, "k", "f") is None
    first = store.put_intent(submit(1, idempotency_key="k", fingerprint="f"))
    assert store.intent_with_key(ada, "k", "f") == first
    assert store.intent_with_key(eve, "k", "f") is None
    assert store.intent_with_key(ada, "other", "f") is None
    with pytest.raises(Conflict, match="new key"):
        store.intent_with_key(ada, "k", "g")


def test_the_same_key_gives_the_first_intent_again(store: Store) -> None:
    first = store.put_intent(submit(1, idempotency_key="k", fingerprint="f"))
    assert store.put_intent(submit(2, idempotency_key="k", fingerprint="f")) == first
    assert store.asked().intents == (first,)
    other = submit(3, idempotency_key="k", fingerprint="f", by=UserName("eve"))
    assert store.put_intent(other) == other


def test_a_key_cannot_stand_for_two_requests(store: Store) -> None:
    first = store.put_intent(submit(1, idempotency_key="k", fingerprint="f"))
    with pytest.raises(Conflict, match="another request"):
        store.put_intent(submit(2, idempotency_key="k", fingerprint="g"))
    assert store.asked().intents == (first,)


def test_the_first_verdict_stands(store: Store) -> None:
    epoch = store.take_lead("me")
    intent = store.put_intent(submit(1))
    done = Verdict(intent_id=intent.intent_id)
    store.commit(epoch, Changes(now_ms=NOW, verdicts=(done,)))
    store.commit(epoch, Changes(now_ms=NOW, verdicts=(replace(done, error="Conflict"),)))
    assert store.verdict(intent.intent_id) == done


def test_unconsumed_submits_are_found_by_their_workloads(store: Store) -> None:
    epoch = store.take_lead("me")
    intent = store.put_intent(submit(1))
    store.put_intent(submit(2, action=Cancel(workload_id=WorkloadId("w-0001"))))
    other = store.put_intent(submit(3))
    wanted = (WorkloadId("w-0001"), WorkloadId("w-0003"), WorkloadId("w-0009"))
    assert store.intent_submits(wanted) == {"w-0001": intent, "w-0003": other}
    assert store.intent_submits(()) == {}
    store.commit(epoch, Changes(now_ms=NOW, verdicts=(Verdict(intent_id=intent.intent_id),)))
    assert store.intent_submits(wanted) == {"w-0003": other}


def test_one_key_from_many_threads_is_one_intent(store: Store) -> None:
    answers: list[Intent] = []
    threads = [
        threading.Thread(
            target=lambda n=number: answers.append(
                store.put_intent(submit(n, idempotency_key="k", fingerprint="f"))
            )
        )
        for number in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(answers) == 8
    assert len(set(map(id, store.asked().intents))) == len(store.asked().intents) == 1


# --- leadership and commits --------------------------------------------------------------------


def test_a_new_leader_makes_the_old_one_stale(store: Store) -> None:
    old = store.take_lead("old")
    new = store.take_lead("new")
    assert new > old
    for write in (
        lambda: store.commit(old, Changes(now_ms=NOW, workloads=(job(1),), events=(event("x"),))),
        lambda: store.add_ledger(old, [ledger_row(0)]),
        lambda: store.add_points(old, {WorkloadId("w"): [point(1, 1)]}),
        lambda: store.prune(old, before_ms=NOW, kept=()),
    ):
        with pytest.raises(LeaderLost):
            write()
    assert store.workload(WorkloadId("w-0001")) is None
    assert store.last_event_number() == 0


def test_what_a_cycle_wrote_is_what_the_next_leader_loads(store: Store) -> None:
    epoch = store.take_lead("me")
    pool = Pool(name=PoolName("train"), gpu_kind="A100-40", kernels_kept_days=7, kernels_kept_gib=5)
    node = Node(node_id=NodeId("n"), pool=pool.name, devices=(), cpu_milli=1000, memory_mib=10)
    team = Team(
        name=VISION,
        quotas={pool.name: Quota(fixed_milli_gpu=1000, limit_milli_gpu=None)},
        members=frozenset({UserName("ada"), UserName("bob")}),
    )
    block = Block(
        team=VISION, pool=pool.name, node_id=node.node_id, device_ids=(), offset=0, milli_gpu=1000
    )
    changes = Changes(
        now_ms=NOW,
        workloads=(
            running(1),
            job(2, State.SUCCEEDED),
            job(3, after=(WorkloadId("w-0002"),), kernels_kept_days=3),
        ),
        teams=(team, replace(team, name=TeamName("gone"))),
        pools=(pool,),
        nodes=(node, replace(node, node_id=NodeId("gone"))),
        blocks=(block,),
        policy=Policy(max_run_ms=5),
        usage={(VISION, pool.name): 12},
        demand={pool.name: learned([Ask.of(250, 1, 2, ("A100-40",))] * 20)},
    )
    store.commit(epoch, changes)
    store.commit(
        epoch,
        Changes(
            now_ms=Millis(NOW + 5),
            workloads=(job(4, State.FAILED),),
            removed_teams=(TeamName("gone"),),
            removed_nodes=(NodeId("gone"),),
        ),
    )
    loaded = store.load()
    # The final one stays while a live one depends on it.
    assert dict(loaded.workloads) == {w.workload_id: w for w in changes.workloads}
    assert dict(loaded.teams) == {VISION: team}
    assert dict(loaded.pools) == {pool.name: pool}
    assert dict(loaded.nodes) == {node.node_id: node}
    assert loaded.blocks == (block,)
    assert loaded.policy == Policy(max_run_ms=5)
    assert dict(loaded.usage) == {(VISION, pool.name): 12}
    assert dict(loaded.demand) == dict(changes.demand)
    assert (loaded.usage_at_ms, loaded.now_ms) == (NOW, NOW + 5)


def test_leases_that_just_ended_are_loaded_too(store: Store) -> None:
    epoch = store.take_lead("one")
    ends = {"w-0001": NOW - LEASES_REMEMBERED_MS, "w-0002": NOW - LEASES_REMEMBERED_MS + 1}
    leases = [
        replace(
            job(number, State.ENDED, kind=Kind.NOTEBOOK),
            workload_id=WorkloadId(workload_id),
            ended_ms=Millis(ended_ms),
        )
        for number, (workload_id, ended_ms) in enumerate(ends.items(), 1)
    ]
    over = replace(job(3, State.FAILED), ended_ms=NOW)
    store.commit(epoch, Changes(now_ms=NOW, workloads=(*leases, over)))
    assert dict(store.load().workloads) == {WorkloadId("w-0002"): leases[1]}


def test_what_left_the_line_in_vain_is_loaded_for_an_hour(store: Store) -> None:
    epoch = store.take_lead("one")
    ends = [NOW - WITHDRAWALS_REMEMBERED_MS, NOW - WITHDRAWALS_REMEMBERED_MS + 1]
    left = [
        replace(
            job(number, state, kind=kind),
            ended_ms=Millis(ended_ms),
            withdrawn_ms=(Millis(ended_ms),),
        )
        for number, (ended_ms, (state, kind)) in enumerate(
            product(ends, [(State.CANCELLED, Kind.TRAINING), (State.ENDED, Kind.NOTEBOOK)]), 1
        )
    ]
    others = [
        replace(job(5, State.CANCELLED), ended_ms=NOW),
        replace(job(6, State.CANCELLED), ended_ms=NOW, ended_text='"withdrawn_ms":[1]'),
    ]
    store.commit(epoch, Changes(now_ms=NOW, workloads=(*left, *others)))
    assert dict(store.load().workloads) == {one.workload_id: one for one in left[2:]}


def test_a_later_commit_replaces_what_it_names_and_nothing_else(store: Store) -> None:
    epoch = store.take_lead("me")
    store.commit(epoch, Changes(now_ms=NOW, workloads=(job(1), job(2)), usage={}, blocks=()))
    store.commit(epoch, Changes(now_ms=NOW, workloads=(running(1),)))
    assert store.workload(WorkloadId("w-0001")) == running(1)
    assert store.workload(WorkloadId("w-0002")) == job(2)


def test_events_are_numbered_without_gaps_in_order(store: Store) -> None:
    epoch = store.take_lead("me")
    first = store.commit(epoch, Changes(now_ms=NOW, events=(event("a"), event("b"))))
    store.commit(epoch, Changes(now_ms=NOW, workloads=(job(1),)))
    second = store.commit(epoch, Changes(now_ms=NOW, events=(event("c"),)))
    assert [e.number for e in first + second] == [1, 2, 3]
    assert store.events() == first + second
    assert store.last_event_number() == 3


def test_events_are_read_by_cursor_workload_and_kind(store: Store) -> None:
    epoch = store.take_lead("me")
    mine = {"workload_id": WorkloadId("w-0001")}
    texts = (event("a", **mine), event("b", kind="started"), event("c", kind="started", **mine))
    store.commit(epoch, Changes(now_ms=NOW, events=texts))

    def read(**options: object) -> list[str]:
        return [e.event.text for e in store.events(**options)]  # type: ignore[arg-type] # any

    assert read(after=1) == ["b", "c"]
    assert read(limit=2) == ["a", "b"]
    assert read(limit=2, newest=True) == ["b", "c"]
    assert read(limit=0, newest=True) == []
    assert read(workload_id=WorkloadId("w-0001")) == ["a", "c"]
    assert read(kinds=frozenset({"started"}), after=2) == ["c"]
    assert read(kinds=frozenset({"started"}), limit=1, newest=True) == ["c"]


def test_events_are_read_as_far_as_somebody_sees(store: Store) -> None:
    epoch = store.take_lead("me")
    texts = (
        event("a", team=VISION),
        event('b \0 "team":"vision","data":{', team=TeamName("nlp")),
        event("c"),
        event("d", by="änn's \"%_"),
        event("e", team=VISION, kind="started", by="bob", data={"team": "nlp"}),
        event("f", by="scheduler"),
        event("g", by="agent of node-1"),
    )
    store.commit(epoch, Changes(now_ms=NOW, events=texts))

    def seen(sight: EventSight | None, **options: object) -> list[str]:
        found = store.events(sight=sight, **options)  # type: ignore[arg-type] # any
        return [e.event.text[0] for e in found]

    assert seen(None) == ["a", "b", "c", "d", "e", "f", "g"]
    assert seen(EventSight()) == []
    of_vision = frozenset({VISION})
    assert seen(EventSight(teams=of_vision)) == ["a", "e"]
    assert seen(EventSight(teams=of_vision, until=4)) == ["a"]
    assert seen(EventSight(teams=of_vision, by="ada")) == ["a", "c", "e"]
    # A hub may have users who are called as our parts are.
    assert seen(EventSight(by="scheduler")) == seen(EventSight(by="agent of node-1")) == []
    assert seen(EventSight(by="änn's \"%_")) == ["d"]
    assert seen(EventSight(teams=of_vision), limit=1, newest=True) == ["e"]
    assert seen(EventSight(teams=of_vision), kinds=frozenset({"started"})) == ["e"]
    assert seen(EventSight(teams=of_vision), after=1, limit=1) == ["e"]


# --- lists -------------------------------------------------------------------------------------


def test_pages_go_from_the_newest_to_the_oldest_without_gaps(store: Store) -> None:
    epoch = store.take_lead("me")
    jobs = [replace(job(number), submitted_ms=Millis(NOW + number // 2)) for number in range(7)]
    store.commit(epoch, Changes(now_ms=NOW, workloads=tuple(jobs)))
    seen: list[str] = []
    cursor = None
    pages = 0
    while pages == 0 or cursor is not None:
        pages += 1
        page = store.workloads(WorkloadFilter(), limit=3, cursor=cursor)
        seen += [w.workload_id for w in page.items]
        cursor = page.cursor
    assert pages == 3
    assert seen == [w.workload_id for w in reversed(jobs)]


def test_who_ended_since_is_listed_by_the_end(store: Store) -> None:
    epoch = store.take_lead("me")
    ends = {1: 9, 2: 5, 3: 7, 4: 7, 5: 3}
    ended = [replace(job(n, State.FAILED), ended_ms=Millis(NOW + at)) for n, at in ends.items()]
    store.commit(epoch, Changes(now_ms=NOW, workloads=(*ended, running(6))))
    where = WorkloadFilter(live=False, ended_after_ms=NOW + 3)
    first = store.workloads(where, limit=2)
    rest = store.workloads(where, limit=2, cursor=first.cursor)
    assert [w.workload_id for w in first.items] == ["w-0001", "w-0004"]
    assert [w.workload_id for w in rest.items] == ["w-0003", "w-0002"]
    assert rest.cursor is None


def test_many_are_looked_up_at_once_and_what_is_not_there_is_left_out(store: Store) -> None:
    epoch = store.take_lead("me")
    ended = replace(job(2, State.FAILED), ended_ms=NOW)
    store.commit(epoch, Changes(now_ms=NOW, workloads=(running(1), ended, job(3))))
    wanted = {running(1).workload_id, ended.workload_id, job(9).workload_id}
    assert store.workloads_by_id(wanted) == {"w-0001": running(1), "w-0002": ended}
    assert store.workloads_by_id(()) == {}


def test_a_full_last_page_has_no_cursor(store: Store) -> None:
    epoch = store.take_lead("me")
    store.commit(epoch, Changes(now_ms=NOW, workloads=(job(1), job(2))))
    assert store.workloads(WorkloadFilter(), limit=2).cursor is None


def test_filters_restrict_what_they_name(store: Store) -> None:
    epoch = store.take_lead("me")
    others = job(3, team=TeamName("nlp"), owner=UserName("eve"), name="bert-1")
    notebook = job(4, State.ACTIVE, kind=Kind.NOTEBOOK)
    store.commit(
        epoch,
        Changes(now_ms=NOW, workloads=(running(1), job(2, State.FAILED), others, notebook)),
    )

    def found(**fields: object) -> set[str]:
        where = WorkloadFilter(**fields)  # type: ignore[arg-type] # any field
        return {w.workload_id for w in store.workloads(where).items}

    assert found(live=True) == {"w-0001", "w-0003", "w-0004"}
    assert found(live=False) == {"w-0002"}
    assert found(teams=frozenset({TeamName("nlp")})) == {"w-0003"}
    assert found(owner=UserName("ada"), kinds=frozenset({Kind.TRAINING})) == {"w-0001", "w-0002"}
    assert found(states=frozenset({State.RUNNING, State.ACTIVE})) == {"w-0001", "w-0004"}
    assert found(name="bert-1", teams=frozenset({VISION})) == set()


@pytest.mark.parametrize("cursor", ["", "x", "-1.w", "9" * 30 + ".w", "'; --"])
def test_a_strange_cursor_is_refused(store: Store, cursor: str) -> None:
    with pytest.raises(BadRequest, match="cursor"):
        store.workloads(WorkloadFilter(), cursor=cursor)


def test_names_count_up_per_team_and_are_never_given_twice(store: Store) -> None:
    assert store.next_name(VISION, "digits") == "digits-1"
    assert store.next_name(VISION, "digits") == "digits-2"
    assert store.next_name(TeamName("nlp"), "digits") == "digits-1"
    assert store.next_name(VISION, "digits-1") == "digits-1-1"
    long = store.next_name(VISION, "a" * 39 + "-" + "b" * 10)
    assert long == "a" * 39 + "-1"


def test_a_wanted_number_is_given_where_none_after_it_was(store: Store) -> None:
    assert store.next_name(VISION, "array-1", 0) == "array-1-0"
    assert store.next_name(VISION, "array-1", 7) == "array-1-7"
    # Somebody calls a job as the array is called.
    assert store.next_name(VISION, "array-1") == "array-1-8"
    assert store.next_name(VISION, "array-1", 8) == "array-1-9"
    assert store.next_name(VISION, "digits", 3) == "digits-3"


def test_names_are_given_once_to_many_threads(store: Store) -> None:
    given: list[str] = []
    threads = [
        threading.Thread(target=lambda: given.append(store.next_name(VISION, "x")))
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(given) == sorted(f"x-{number}" for number in range(1, 9))


# --- history -----------------------------------------------------------------------------------


def test_ledger_rows_are_replaced_by_key_and_read_by_span_and_workload(store: Store) -> None:
    epoch = store.take_lead("me")
    other = ledger_row(2, workload_id=WorkloadId("w-0002"), team=TeamName("nlp"), idle=True)
    store.add_ledger(epoch, [ledger_row(1), ledger_row(2), other])
    final = ledger_row(1, lost_milli_gpu_ms=5, compute_percent_mean=50, memory_used_mib_max=9)
    store.add_ledger(epoch, [final])
    store.add_ledger(epoch, [])
    everything = store.ledger(from_ms=Millis(0), to_ms=Millis(10**9))
    assert everything == (final, ledger_row(2), other)
    assert store.ledger(from_ms=Millis(60_000), to_ms=Millis(120_000)) == (final,)
    for several in ((), map(WorkloadId, map(str, range(1000)))):
        of = frozenset([other.workload_id, *several])
        assert store.ledger(from_ms=Millis(0), to_ms=Millis(10**9), of=of) == (other,)


def test_minutes_that_were_lost_after_all_are_marked_where_they_are(store: Store) -> None:
    epoch = store.take_lead("me")
    other = ledger_row(2, workload_id=WorkloadId("w-0002"))
    rows = [ledger_row(number, idle=number == 2) for number in range(1, 5)]
    store.add_ledger(epoch, [*rows, other])
    mine = rows[0].workload_id
    lost = LostMinutes(workload_id=mine, from_ms=Millis(120_000), to_ms=Millis(240_000))
    store.add_ledger(epoch, [ledger_row(5)], [lost])
    everything = store.ledger(from_ms=Millis(0), to_ms=Millis(10**9), of=frozenset({mine}))
    marked = [replace(row, lost_milli_gpu_ms=row.held_milli_gpu_ms) for row in rows[1:3]]
    assert everything == (rows[0], *marked, rows[3], ledger_row(5))
    assert other in store.ledger(from_ms=Millis(0), to_ms=Millis(10**9))


def test_pruning_drops_the_old_but_nothing_live_or_needed(store: Store) -> None:
    epoch = store.take_lead("me")
    old, later = Millis(NOW - 10), Millis(NOW + 10)
    needed = replace(job(2, State.SUCCEEDED), ended_ms=old)
    changes = Changes(
        now_ms=NOW,
        workloads=(
            job(1, after=(needed.workload_id,)),
            needed,
            replace(job(3, State.FAILED), ended_ms=old),
            replace(job(4, State.FAILED), ended_ms=later),
        ),
        events=(event("old", at_ms=old), event("new", at_ms=later)),
        verdicts=(Verdict(intent_id=IntentId("i-0001")),),
    )
    store.put_intent(submit(1, at_ms=old, idempotency_key="k"))
    waiting = store.put_intent(submit(2, at_ms=old))
    store.commit(epoch, changes)
    store.add_points(epoch, {WorkloadId("w-0003"): [point(1, 1)]})
    store.add_points(epoch, {WorkloadId("w-0004"): [point(1, 1)]})
    store.add_ledger(epoch, [ledger_row(0), ledger_row(100)])
    kept = {needed.workload_id}
    assert store.prune(epoch, before_ms=NOW, kept=kept) == 5
    left = {w.workload_id for w in store.workloads(WorkloadFilter()).items}
    assert left == {"w-0001", "w-0002", "w-0004"}
    assert [e.event.text for e in store.events()] == ["new"]
    assert store.points(WorkloadId("w-0003")) == ()
    assert len(store.points(WorkloadId("w-0004"))) == 1
    assert store.ledger(from_ms=Millis(0), to_ms=Millis(10**9)) == (ledger_row(100),)
    assert store.asked().intents == (waiting,)
    assert store.put_intent(submit(3, idempotency_key="k", fingerprint="new")).intent_id == "i-0003"
    # Numbers go on where they were, even if every event is gone.
    store.prune(epoch, before_ms=Millis(10**12), kept=kept)
    assert store.commit(epoch, Changes(now_ms=NOW, events=(event("c"),)))[0].number == 3


def test_replicas_on_one_database_share_everything_and_one_of_them_leads(database: str) -> None:
    first, second = open_store(database), open_store(database)
    old = first.take_lead("first")
    asked = second.put_intent(submit(1, idempotency_key="k", fingerprint="f"))
    assert first.asked().intents == (asked,)
    assert first.put_intent(submit(2, idempotency_key="k", fingerprint="f")) == asked
    first.commit(old, Changes(now_ms=NOW, workloads=(job(1),), events=(event("a"),)))
    new = second.take_lead("second")
    with pytest.raises(LeaderLost, match="second has taken over"):
        first.commit(old, Changes(now_ms=NOW, events=(event("lost"),)))
    second.commit(new, Changes(now_ms=NOW, events=(event("b"),)))
    assert [(e.number, e.event.text) for e in first.events()] == [(1, "a"), (2, "b")]
    assert [first.next_name(VISION, "x"), second.next_name(VISION, "x")] == ["x-1", "x-2"]
    first.close()
    second.close()
