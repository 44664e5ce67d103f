"""Promises 1 to 7 over random histories of a small cluster, with crashes between commit and act.

``GPUCOMMONS_EXAMPLES`` sets how many histories each promise sees; `make properties` takes 10,000.
"""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from properties import truths
from properties.histories import History, days, rough, step

from gpucommons.scheduler.core.model.lifecycle import is_final
from gpucommons.scheduler.core.model.state import Cluster
from gpucommons.scheduler.core.model.types import AttemptId, HoldClass, Kind, State, Workload

EXAMPLES = int(os.environ.get("GPUCOMMONS_EXAMPLES", "60"))
#: Ten thousand histories take their time.
pytestmark = pytest.mark.timeout(max(300, EXAMPLES))
many = settings(
    max_examples=EXAMPLES,
    deadline=None,
    derandomize=EXAMPLES <= 100,
    suppress_health_check=list(HealthCheck),
)
orderly = days(step)
#: Plenty, or so little that processors are what is short.
cpu = st.sampled_from([64_000, 2000])
anything = days(rough)
#: Without a minimum run time a job may be stopped as soon as it runs.
min_run = st.sampled_from([60_000, 0])

#: What an elastic job was to keep is taken for one, and then it is shrunk for another.
SHRUNK_AFTER_ALL_WAS_TAKEN = [
    *[("submit", 0, 0, 0, 0)] * 3,
    ("submit", 0, 0, 0, 2),
    ("submit", 0, 4, 7, 0),
    ("submit", 1, 0, 0, 0),
    ("submit", 1, 4, 0, 4),
    *[("submit", 0, 0, 0, 0)] * 3,
    ("submit", 0, 4, 0, 2),
    *[("submit", 0, 0, 0, 0)] * 4,
    ("wait", 4, 0, 0, 0),
]

#: Its owner pauses a job of a node that does not answer, and an admin fences the node.
PAUSED_ON_A_LOST_NODE = [
    ("submit", 0, 0, 6, 7),
    *[("submit", 0, 0, 0, 0)] * 8,
    ("node_lost", 0, 0, 0, 0),
    ("pause", 0, 0, 0, 0),
    *[("submit", 0, 0, 0, 0)] * 5,
    ("fence", 0, 0, 0, 0),
]

#: Whoever a job is being moved for loses its promise after the job's SIGTERM, and looks anew.
MOVED_FOR_NOBODY = [
    ("ticket", 0, 0, 0, 0),
    ("acquire", 0, 2, 2, 0),
    ("submit", 0, 4, 0, 0),
    ("submit", 0, 0, 0, 0),
    ("acquire", 0, 0, 0, 0),
    ("wait", 4, 0, 0, 0),
    ("submit", 0, 4, 6, 0),
    ("stubborn", 1, 0, 0, 0),
    ("wait", 6, 0, 0, 0),
    ("submit", 1, 3, 5, 0),
]

#: A job gives a notebook one of the workers that it can do without; another notebook wants the next.
SHRUNK_FOR_TWO_NOTEBOOKS = [
    *[("submit", 0, 0, 0, 0)] * 12,
    ("submit", 1, 0, 0, 0),
    ("submit", 2, 4, 7, 0),
    *[("submit", 0, 0, 0, 0)] * 3,
    ("ticket", 0, 0, 2, 0),
    *[("submit", 0, 0, 0, 0)] * 3,
    ("ticket", 0, 1, 0, 0),
]


@many
@given(anything, st.sampled_from([0, 500, 1000]), cpu)
@example(MOVED_FOR_NOBODY, 0, 64_000)
@example(PAUSED_ON_A_LOST_NODE, 0, 2000)
@example(SHRUNK_AFTER_ALL_WAS_TAKEN, 500, 64_000)
# A notebook that gives its GPU back is on the node.
@example([(name, 0, 0, 0, 0) for name in ("acquire", "drop", "node_lost", "fence")], 0, 64_000)
def test_nothing_is_ever_held_twice_gangs_are_whole_and_lost_nodes_take_nothing_new(
    steps: Any, headroom: int, cpu_milli: int
) -> None:
    def check(history: History) -> None:
        cluster = history.world.cluster
        truths.nothing_is_held_twice(cluster)
        truths.promises_do_not_overlap(cluster)
        truths.gangs_are_whole(cluster)
        truths.blocks_are_laid_out(cluster)
        truths.stops_have_a_beneficiary(cluster)
        truths.who_waits_for_victims_has_some(cluster)
        truths.what_is_new_lies_on_ready_nodes(history.before, cluster)
        # A grant ends only when its processes are seen dead or their node is fenced.
        held = {attempt.attempt_id for _, attempt in truths.current_attempts(cluster)}
        assert all(p.attempt_id in held for p in history.machines.processes.values() if p.alive)

    History(check, headroom=headroom, cpu_milli=cpu_milli).play(steps)


#: Whoever a place was kept for borrows another: it is kept no longer, in the same cycle.
KEPT_FOR_NOBODY = [
    ("submit", 0, 6, 0, 1),
    ("submit", 1, 0, 0, 0),
    *[("ticket", 0, 0, 0, 0)] * 6,
    ("cordon", 1, 0, 0, 0),
    ("submit", 0, 0, 0, 0),
    ("submit", 1, 1, 7, 0),
    ("finish", 2, 0, 0, 0),
    ("submit", 0, 2, 6, 0),
]


#: A lease that ended is forgotten, nothing is committed meanwhile, and a new scheduler begins.
FORGOTTEN_BEFORE_A_RESTART = [
    *[(name, 0, 0, 0, 0) for name in ("acquire", "drop", "stop_server")],
    ("wait", 4, 0, 0, 0),
    ("ticket", 0, 1, 1, 0),
    ("wait", 4, 0, 0, 0),
    ("crash", 0, 0, 0, 0),
]

#: Room beside an elastic job becomes idle, and a new scheduler begins to watch it.
IDLE_ROOM_BEFORE_A_RESTART = [
    ("submit", 0, 0, 0, 0),
    ("ticket", 0, 0, 0, 0),
    ("finish", 0, 0, 0, 0),
    ("submit", 0, 1, 7, 0),
    *[("submit", 0, 0, 0, 0)] * 2,
    ("submit", 0, 4, 7, 0),
    *[("submit", 0, 0, 0, 0)] * 2,
    ("finish", 0, 0, 0, 0),
    ("crash", 0, 0, 0, 0),
]


#: A place is kept for two GPUs of a guarantee, and then a small job of the team uses some of it.
KEPT_IN_VAIN = [
    *[("submit", 0, 0, 0, 0)] * 2,
    ("submit", 0, 0, 7, 0),
    ("ticket", 0, 0, 0, 0),
    *[("submit", 0, 0, 0, 0)] * 3,
    ("submit", 2, 4, 0, 0),
    ("submit", 1, 6, 0, 0),
    ("submit", 1, 0, 0, 0),
]

#: A small job borrows in a place that is kept for two GPUs of another team's guarantee.
BORROWED_WHAT_IS_KEPT = [
    *[("submit", 0, 0, 0, 0)] * 5,
    ("cordon", 1, 0, 0, 0),
    ("submit", 1, 6, 0, 1),
    ("submit", 0, 0, 0, 0),
]

#: Who was promised a place finds another, and the promised one is free for others.
FOUND_ANOTHER_PLACE = [
    ("node_lost", 0, 0, 0, 0),
    ("submit", 0, 1, 0, 0),
    ("slow", 0, 0, 0, 0),
    ("submit", 1, 3, 0, 0),
    ("submit", 0, 0, 0, 0),
    ("submit", 1, 3, 0, 0),
    ("acquire", 0, 0, 2, 0),
    ("submit", 1, 4, 0, 0),
    ("submit", 0, 0, 5, 0),
    ("wait", 6, 0, 0, 0),
]

#: What is cleared for a preemption late in a cycle would do for somebody who had had its turn.
CLEARED_LATE = [
    *[("submit", 0, 1, 0, 0)] * 2,
    *[("submit", 0, 0, 0, 0)] * 2,
    ("submit", 0, 0, 0, 7),
    ("submit", 0, 0, 5, 7),
    ("submit", 0, 6, 0, 0),
    ("submit", 1, 0, 0, 4),
    ("submit", 0, 2, 0, 2),
]

#: A job that may grow begins to run.
MAY_GROW = [
    *[("submit", 2, 4, 0, 0)] * 6,
    *[("ticket", 0, 0, 0, 0)] * 3,
    ("submit", 0, 0, 0, 0),
    ("submit", 2, 0, 7, 0),
    ("stop_server", 0, 0, 0, 0),
    ("wait", 2, 0, 0, 0),
    ("cancel", 3, 0, 0, 0),
]

#: Two are promised what one victim clears: its processors count for one of them.
CLEARED_FOR_TWO = [
    ("acquire", 0, 0, 0, 0),
    ("submit", 0, 7, 0, 0),
    ("submit", 0, 0, 0, 0),
    ("cordon", 1, 0, 0, 0),
    ("submit", 0, 0, 0, 7),
    ("wait", 4, 0, 0, 0),
    ("headroom", 1, 0, 0, 0),
    ("finish", 0, 0, 0, 0),
    ("submit", 0, 4, 5, 0),
]


@many
@example(CLEARED_LATE, 2000, 0)
@example(MAY_GROW, 64_000, 60_000)
@example(CLEARED_FOR_TWO, 2000, 60_000)
@example(FOUND_ANOTHER_PLACE, 64_000, 60_000)
@example(BORROWED_WHAT_IS_KEPT, 64_000, 60_000)
@example(KEPT_IN_VAIN, 64_000, 60_000)
@example(KEPT_FOR_NOBODY, 64_000, 60_000)
@example(FORGOTTEN_BEFORE_A_RESTART, 64_000, 60_000)
@example(IDLE_ROOM_BEFORE_A_RESTART, 64_000, 60_000)
@given(anything, cpu, min_run)
def test_deciding_twice_changes_nothing(steps: Any, cpu_milli: int, min_run_ms: int) -> None:
    def check(history: History) -> None:
        before = history.world.cluster
        again = history.world.step()
        if history.restarted:  # since when room is idle or kept is not stored
            before = replace(
                before,
                pending_resizes=again.cluster.pending_resizes,
                fair_share_reservations=again.cluster.fair_share_reservations,
            )
        assert again.changes.empty, again.changes
        assert again.cluster == before

    History(check, cpu_milli=cpu_milli, min_run_ms=min_run_ms).play(steps)


#: Who gave a GPU back starts the server anew by hand before it was stopped.
STARTED_ANEW = [
    *[("submit", 0, 0, 0, 0)] * 6,
    ("acquire", 0, 0, 0, 0),
    ("submit", 0, 0, 0, 0),
    ("drop", 0, 0, 0, 0),
    *[("submit", 0, 0, 0, 0)] * 4,
    ("acquire", 0, 0, 0, 0),
    ("stop_server", 0, 0, 0, 0),
]

#: The same, and gives the GPU back twice while the server is gone.
GIVEN_BACK_TWICE = [
    *[("submit", 0, 0, 0, 0)] * 3,
    ("acquire", 0, 0, 0, 0),
    ("acquire", 0, 0, 1, 0),
    *[("submit", 0, 0, 0, 0)] * 5,
    *[("drop", 0, 0, 0, 0)] * 2,
    ("submit", 0, 0, 0, 0),
    ("stop_server", 0, 0, 0, 0),
]


@many
@example(STARTED_ANEW)
@example(GIVEN_BACK_TWICE)
@given(anything)
def test_a_notebook_that_gave_its_gpu_back_comes_back_without_it(steps: Any) -> None:
    history = History(lambda _: None)
    history.play(steps)
    history.machines.fuse = None
    history.world.step()
    history.machines.act(history.world.outcome.actions)
    machines, now = history.machines, history.world.now
    recent = {lease for lease, at_ms in machines.down.items() if at_ms > now - 120_000}
    assert machines.dropped & recent <= machines.back


#: A gang looks for a place while an elastic job goes on elsewhere: what it was promised is there too.
BESIDE_A_RESIZED_JOB = [
    ("submit", 0, 0, 0, 6),
    ("submit", 0, 4, 7, 0),
    *[("submit", 0, 0, 0, 0)] * 10,
    ("submit", 1, 0, 0, 0),
    ("submit", 1, 4, 0, 0),
    ("submit", 2, 2, 6, 0),
]


@many
@example(BESIDE_A_RESIZED_JOB)
@given(anything)
def test_never_two_attempts_at_once_and_one_final_state(steps: Any) -> None:
    finals: dict[str, State] = {}

    def check(history: History) -> None:
        alive = [p.workload_id for p in history.machines.processes.values() if p.alive]
        assert len(alive) == len(set(alive)), "two attempts of one job run"
        for workload in history.world.outcome.changes.workloads:
            known = finals.get(workload.workload_id)
            assert known is None or known is workload.state
            if is_final(workload):
                finals[workload.workload_id] = workload.state
            _resumes_from_the_last_checkpoint(history, workload)

    History(check).play(steps)


def _resumes_from_the_last_checkpoint(history: History, workload: Workload) -> None:
    before = history.before.workloads.get(workload.workload_id)
    attempt = workload.current
    known = None if before is None else before.current
    if before is None or attempt is None or known is not None:
        return
    if len(workload.attempts) == len(before.attempts) + 1:
        assert attempt.resumed_from == before.checkpoint


@many
@given(orderly, cpu)
@example(SHRUNK_FOR_TWO_NOTEBOOKS, 64_000)
def test_a_notebook_inside_its_quota_never_waits_for_another_team(
    steps: Any, cpu_milli: int
) -> None:
    def check(history: History) -> None:
        cluster = history.world.cluster
        fixed = [HoldClass.FIXED]
        for workload in cluster.workloads.values():
            if workload.spec.kind is not Kind.NOTEBOOK or not truths.in_line(cluster, workload):
                continue
            if truths.left_too_often(cluster, workload):
                continue
            size = workload.spec.roles[0].milli_gpu
            team = workload.spec.team
            used = sum(
                one.milli_gpu * len(one.device_ids)
                for other in cluster.workloads.values()
                for held in [other.current or other.nomination]
                if other.spec.team == team and held and held.hold_class is HoldClass.FIXED
                for one in held.placements
            )
            if used + size > truths.quota_of(cluster, workload).fixed_milli_gpu:
                continue
            notebooks = truths.held_by(cluster, *fixed)
            promised = truths.promised(cluster, *fixed)
            for block in cluster.blocks:
                if block.team == team and block.milli_gpu >= size:
                    assert not _has_room(block, size, notebooks, promised)

    History(check, cpu_milli=cpu_milli).play(steps)


def _has_room(block: Any, size: int, *taken: dict[Any, int]) -> bool:
    """Some aligned part of the block holds no notebook."""

    def used(device_id: Any) -> int:
        bits = 0
        for one in taken:
            bits |= one.get(device_id, 0)
        return bits

    if size >= 1000:
        width = size // 1000
        ids = block.device_ids
        groups = [ids[i : i + width] for i in range(0, len(ids), width)]
        return any(not any(used(d) for d in group) for group in groups)
    ends = block.offset + min(block.milli_gpu, 1000)
    return any(
        not used(d) & (((1 << size) - 1) << offset)
        for d in block.device_ids
        for offset in range(block.offset, ends, size)
    )


@many
@given(orderly, st.sampled_from([0, 200, 400]))
def test_quotas_hold_and_nobody_waits_while_what_may_be_used_is_free(
    steps: Any, unlent_permille: int
) -> None:
    def check(history: History) -> None:
        cluster = history.world.cluster
        truths.quotas_hold(cluster)
        waiting = _jobs_in_line(cluster)
        _a_guarantee_waits_for_borrowers_only(cluster, waiting)
        _nothing_that_may_be_used_is_free(cluster, waiting)

    History(check, unlent_permille=unlent_permille).play(steps)


def _a_guarantee_waits_for_borrowers_only(cluster: Cluster, in_line: list[Workload]) -> None:
    waiting = [workload for workload in in_line if _inside_guarantee(cluster, workload)]
    if len(waiting) != 1 or truths.left_too_often(cluster, waiting[0]):
        return  # an earlier gang may have reserved what a later job would need
    firm = [HoldClass.FIXED, HoldClass.GUARANTEED]
    free = truths.Free(
        cluster,
        [
            truths.held_by(cluster, *firm),
            truths.promised(cluster, *firm),
            truths.in_blocks(cluster),
        ],
    )
    assert not free.fits(truths.needed(waiting[0])), waiting[0]


def _nothing_that_may_be_used_is_free(cluster: Cluster, in_line: list[Workload]) -> None:
    if not in_line:
        return
    everyone = list(HoldClass)
    free = truths.Free(
        cluster, [truths.held_by(cluster, *everyone), truths.promised(cluster, *everyone)]
    )
    blocks = truths.in_blocks(cluster)
    for workload in in_line:
        need = truths.needed(workload)
        quota = truths.quota_of(cluster, workload)
        use = sum(truths.training_use(cluster, workload.spec.team))
        if sum(need) and not workload.spec.over_quota:
            continue
        if quota.limit_milli_gpu is not None and use + sum(need) > quota.limit_milli_gpu:
            continue
        kept = truths.kept_for_guarantees(cluster, workload.spec.pools[0])
        assert not free.fits_whatever_is_kept(need, kept, blocks), workload


def _jobs_in_line(cluster: Cluster) -> list[Workload]:
    return [
        workload
        for workload in cluster.workloads.values()
        if workload.spec.kind is not Kind.NOTEBOOK and truths.in_line(cluster, workload)
    ]


def _inside_guarantee(cluster: Cluster, workload: Workload) -> bool:
    quota = truths.quota_of(cluster, workload)
    need = sum(truths.needed(workload))
    guaranteed, _ = truths.training_use(cluster, workload.spec.team)
    if need == 0 or workload.spec.kind is Kind.RETRAIN:
        return False
    if quota.limit_milli_gpu is not None and guaranteed + need > quota.limit_milli_gpu:
        return False
    return guaranteed + need <= quota.guaranteed_milli_gpu


@many
@given(orderly)
def test_victims_clear_a_place_and_none_of_them_could_be_spared(steps: Any) -> None:
    def check(history: History) -> None:
        cluster = history.world.cluster
        for workload in cluster.workloads.values():
            nomination = workload.nomination
            before = history.before.workloads.get(workload.workload_id)
            if nomination is None or workload.current is not None:
                continue
            if before is not None and before.nomination == nomination:
                continue
            _decided_well(history, workload, nomination.victims)

    History(check).play(steps)


def _decided_well(history: History, workload: Workload, victims: tuple[AttemptId, ...]) -> None:
    cluster = history.world.cluster
    nomination = workload.nomination
    assert nomination is not None
    assert victims
    if nomination.hold_class is not HoldClass.GUARANTEED:
        return
    if truths.quota_of(cluster, workload).limit_milli_gpu is not None:
        return
    others = {k: v for k, v in cluster.workloads.items() if k != workload.workload_id}
    for victim in truths.victims_of(cluster, victims):
        stop = victim.stop
        if stop is None or stop.why != "reclaim" or stop.beneficiary != workload.workload_id:
            continue
        spared = [
            one
            for other in others.values()
            for attempt in [other.current]
            if attempt is not None and (attempt.attempt_id not in victims or attempt is victim)
            for one in attempt.placements
        ]
        held: dict[Any, int] = {}
        for one in spared:
            for device_id in one.device_ids:
                held[device_id] = held.get(device_id, 0) | truths.bits(one)
        free = truths.Free(
            cluster,
            [
                held,
                truths.promised(cluster, *HoldClass, leaving=workload),
                truths.in_blocks(cluster),
            ],
        )
        assert not free.fits(truths.needed(workload)), (workload, victim)


@many
@given(orderly)
def test_everything_ends_once_nobody_asks_for_more(steps: Any) -> None:
    """Liveness: no promise, notice or grant gets stuck."""
    history = History(lambda _: None)
    history.play(steps)
    history.machines.slow = False
    for _ in range(200):
        live = [w for w in history.world.cluster.workloads.values() if not is_final(w)]
        if not live:
            return
        for workload in live:
            if workload.spec.kind is Kind.NOTEBOOK:
                history.world.step(*history.machines.stop_server(workload))
            elif workload.state is State.PAUSED:
                history._cancel(sorted(w.workload_id for w in live).index(workload.workload_id))
            else:
                history.machines.finish(workload, 0)
        history.world.wait(20_000)
        history._committed()
        history.world.step(*history.machines.reports())
        history._committed()
        never = [
            w
            for w in history.world.cluster.workloads.values()
            if w.state is State.QUEUED
            and w.reason
            and w.reason.code in {"limit", "never", "misconfigured"}
        ]
        for workload in never:
            live = [w for w in history.world.cluster.workloads.values() if not is_final(w)]
            jobs = sorted(w.workload_id for w in live if w.spec.kind is not Kind.NOTEBOOK)
            history._cancel(jobs.index(workload.workload_id))
    left = [w for w in history.world.cluster.workloads.values() if not is_final(w)]
    assert not left, left
