"""Stops of one job over random histories: what it was told holds, and no cloud is kept waiting."""

from __future__ import annotations

from builders import World, a_job, a_node, a_pool, a_team
from hypothesis import given, settings
from hypothesis import strategies as st

from gpucommons.scheduler.core.events.nodes.spot_notice import MARGIN_MS
from gpucommons.scheduler.core.model.intents import Cancel, NoticeNode, Pause, PutPools
from gpucommons.scheduler.core.model.types import Millis, NodeId, Stop, WorkloadId

SECOND = 1_000
#: What happens, with a number that it may use, and how many seconds pass then.
moves = st.lists(
    st.tuples(
        st.sampled_from(["claim", "withdraw", "pause", "take back", "pool", "wait"]),
        st.integers(min_value=1, max_value=200),
        st.integers(min_value=0, max_value=40),
    ),
    max_size=12,
)


def a_pool_of(number: int) -> PutPools:
    """Its notice and grace, and whether it asks for a signal, all of one number."""
    asks = "SIGUSR1" if number % 2 else "none"
    made = a_pool(
        min_run_ms=0,
        notice_ms=number % 60 * SECOND,
        grace_ms=(1 + number % 50) * SECOND,
        notice_signal=asks,
    )
    return PutPools(pools=(made,))


def happen(world: World, job: WorkloadId, claims: list[WorkloadId], what: str, number: int) -> None:
    if what == "claim":
        name = f"theirs-{len(claims)}"
        claims.append(world.submit(a_job(name, team="nlp", notice_signal="none")))
    elif what == "withdraw" and claims:
        world.ask(Cancel(workload_id=claims.pop()))
    elif what == "pause":
        world.ask(Pause(workload_id=job))
    elif what == "take back":
        at_ms = Millis(world.now + number * SECOND)
        world.ask(NoticeNode(node_id=NodeId("n1"), leaves_ms=at_ms), "admin")
    elif what == "pool":
        world.ask(a_pool_of(number), "admin")


@settings(max_examples=150, deadline=None)
@given(first=st.integers(min_value=1, max_value=200), history=moves, asks=st.booleans())
def test_a_stop_keeps_what_was_told_and_ends_before_its_node_does(
    first: int, history: list[tuple[str, int, int]], *, asks: bool
) -> None:
    world = World(a_node(gpus=1), teams=[a_team(), a_team("nlp", guaranteed_milli_gpu=1000)])
    world.ask(a_pool_of(first), "admin")
    job = world.run(a_job(notice_signal="SIGUSR1" if asks else None))
    claims: list[WorkloadId] = []
    before: Stop | None = None
    for what, number, seconds in history:
        happen(world, job, claims, what, number)
        for wait_ms in (0, 1, seconds * SECOND):
            world.wait(wait_ms)
            stop = world.stop_of(job)
            _holds(world, before, stop)
            before = stop


def _holds(world: World, before: Stop | None, stop: Stop | None) -> None:
    if before is not None and before.signalled:
        assert stop is not None and stop.signalled, "SIGTERM cannot be taken back"  # noqa: PT018
    if stop is None:
        return
    assert stop.term_ms <= stop.kill_ms
    leaves_ms = world.cluster.nodes[NodeId("n1")].leaves_ms
    is_sooner = before is not None and before.why == "spot"
    if leaves_ms is not None and (stop.why == "spot" or is_sooner):
        assert stop.kill_ms <= max(world.now, leaves_ms - MARGIN_MS)
    if before is None or before.signalled or stop.announced_ms != before.announced_ms:
        return
    assert stop.notice_signal == before.notice_signal or not stop.notice_signal
    waits = bool(before.notice_signal) and stop.why != "spot"
    if waits and not stop.signalled:
        assert (stop.term_ms, stop.kill_ms) == (before.term_ms, before.kill_ms), "it was told so"
    if waits and stop.signalled:
        assert world.now >= before.term_ms, "SIGTERM before its time"
