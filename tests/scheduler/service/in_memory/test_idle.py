"""Activity, idleness and reclaim."""

import pytest
from service_world import ServiceWorld, done

from gpucommons.gpu.slices.slices import SliceId
from gpucommons.gpu.slices.usage import UsageSample
from gpucommons.scheduler import models
from gpucommons.scheduler.core.model.types import Millis, WorkloadId
from gpucommons.scheduler.errors import BadRequest, Conflict, Forbidden, NotIdle
from gpucommons.scheduler.service import idle, leases
from gpucommons.scheduler.service.in_memory.activity import (
    WINDOW_MS,
    ActivityBoard,
    percentile_95,
    why_busy,
)

MINUTE_MS = 60_000


def a_sample(at_ms: int, percent: int | None = 0, active_ms: int | None = None) -> UsageSample:
    return UsageSample(
        slice_id=SliceId("s"),
        at_ms=at_ms,
        compute_percent=percent,
        memory_used_mib=0,
        memory_limit_mib=1000,
        processes=1,
        active_ms=active_ms,
    )


@pytest.fixture
def lease(world: ServiceWorld) -> models.LeaseView:
    request = models.LeaseRequest(user="ann", milli_gpu=500)
    held = done(leases.acquire(world.service, world.hub_service, request, key=None))
    report = models.StartedReport(pid=4242)
    return done(leases.started(world.service, world.hub_service, held.id, report))


def report(world: ServiceWorld, lease: models.LeaseView, *, busy: bool) -> None:
    kernels = [models.KernelActivity(kind="kernel", name="python3", busy=busy)]
    body = models.ActivityReport(kernels=kernels)
    idle.report_activity(world.service, world.principal("ann"), lease.id, body)


def read_gpu(world: ServiceWorld, lease: models.LeaseView, active_ms: int | None) -> None:
    assert lease.slice is not None
    sample = UsageSample(
        slice_id=SliceId(lease.slice.slice_id),
        at_ms=world.now_ms,
        compute_percent=3,
        memory_used_mib=10,
        memory_limit_mib=1000,
        processes=1,
        active_ms=active_ms,
    )
    world.agent.samples = (sample,)


def test_no_report_is_said_and_not_idle(world: ServiceWorld, lease: models.LeaseView) -> None:
    view = idle.activity(world.service, world.culler, lease.id)
    assert (view.reported_ms, view.usage_ms, view.gpu_active_ms) == (None, None, None)
    with pytest.raises(Conflict, match="nobody can say that it is idle"):
        idle.reclaim(world.service, world.admin, lease.id, models.ReclaimRequest())


def test_the_culler_sees_reports_and_readings(world: ServiceWorld, lease: models.LeaseView) -> None:
    report(world, lease, busy=True)
    read_gpu(world, lease, active_ms=world.now_ms)
    view = idle.activity(world.service, world.culler, lease.id)
    assert view.reported_ms == world.now_ms
    assert view.kernels[0].busy
    assert (view.gpu_active_ms, view.compute_percent_p95) == (world.now_ms, 3)
    assert len(idle.activities(world.service, world.culler).activities) == 1
    assert len(idle.activities(world.service, world.principal("ada")).activities) == 1
    for stranger in ("ann", "bob"):
        with pytest.raises(Forbidden):
            idle.activities(world.service, world.principal(stranger))


def test_only_the_own_server_reports(world: ServiceWorld, lease: models.LeaseView) -> None:
    with pytest.raises(Forbidden, match="own server"):
        idle.report_activity(
            world.service, world.principal("alf"), lease.id, models.ActivityReport()
        )


def test_idleness_is_the_cullers_word(world: ServiceWorld, lease: models.LeaseView) -> None:
    said = models.IdleReport(idle_since_ms=world.now_ms - MINUTE_MS)
    with pytest.raises(Forbidden):
        idle.report_idle(world.service, world.principal("ann"), lease.id, said)
    view = done(idle.report_idle(world.service, world.culler, lease.id, said))
    assert (view.state, view.idle.idle_since_ms) == ("active", world.now_ms - MINUTE_MS)
    with pytest.raises(BadRequest, match="idle_since_ms"):
        idle.report_idle(
            world.service, world.culler, lease.id, models.IdleReport(returns_ms=world.now_ms)
        )


def test_an_idle_notebook_is_reclaimed_after_a_warning(
    world: ServiceWorld, lease: models.LeaseView
) -> None:
    report(world, lease, busy=False)
    read_gpu(world, lease, active_ms=world.now_ms - 35 * MINUTE_MS)
    view = done(idle.reclaim(world.service, world.admin, lease.id, models.ReclaimRequest()))
    assert view.state == "warned"
    assert view.idle.returns_ms == world.now_ms + 10 * MINUTE_MS
    assert ("StopServer", "ann") not in world.server_acts


def test_a_reclaim_is_remembered_as_an_admins_wish_until_its_user_keeps_it(
    world: ServiceWorld, lease: models.LeaseView
) -> None:
    ann = world.principal("ann")
    report(world, lease, busy=False)
    read_gpu(world, lease, active_ms=world.now_ms - 35 * MINUTE_MS)
    done(leases.keep(world.service, ann, lease.id, models.KeepRequest()))
    view = done(idle.reclaim(world.service, world.admin, lease.id, models.ReclaimRequest()))
    assert (view.idle.reclaimed, view.idle.kept_until_ms) == (True, None)
    kept = done(leases.keep(world.service, ann, lease.id, models.KeepRequest()))
    assert (kept.idle.reclaimed, kept.idle.returns_ms) == (False, None)


def test_a_busy_notebook_is_reclaimed_only_by_force_and_with_a_reason(
    world: ServiceWorld, lease: models.LeaseView
) -> None:
    report(world, lease, busy=True)
    read_gpu(world, lease, active_ms=world.now_ms)
    with pytest.raises(NotIdle, match="kernel python3 is busy"):
        idle.reclaim(world.service, world.admin, lease.id, models.ReclaimRequest())
    with pytest.raises(BadRequest, match="reason"):
        idle.reclaim(world.service, world.admin, lease.id, models.ReclaimRequest(force=True))
    forced = models.ReclaimRequest(force=True, reason="a demo at noon")
    done(idle.reclaim(world.service, world.principal("ada"), lease.id, forced))
    assert ("StopServer", "ann") in world.server_acts
    for stranger in ("ann", "alf"):
        with pytest.raises(Forbidden):
            idle.reclaim(world.service, world.principal(stranger), lease.id, forced)


def test_readings_are_kept_for_an_hour() -> None:
    board = ActivityBoard()
    board.read([a_sample(0, 100)])
    board.read([a_sample(WINDOW_MS // 2, 10)])
    assert board.gpu_of(SliceId("s")).compute_percent_p95 == 100
    board.read([a_sample(WINDOW_MS, 10)])
    assert board.gpu_of(SliceId("s")).compute_percent_p95 == 10
    board.read([a_sample(WINDOW_MS + 1, None)])
    assert board.gpu_of(SliceId("s")).usage_ms == WINDOW_MS + 1
    board.forget_all_but(frozenset(), frozenset())
    assert board.gpu_of(SliceId("s")).usage_ms is None


def test_the_95th_percentile_is_the_nearest_rank() -> None:
    assert percentile_95([]) is None
    assert percentile_95([7]) == 7
    assert percentile_95(range(1, 101)) == 95
    assert percentile_95([0] * 19 + [100]) == 0


def test_old_reports_and_readings_say_nothing_about_now() -> None:
    board, now = ActivityBoard(), Millis(10 * MINUTE_MS)
    board.report(WorkloadId("w"), [], now)
    board.read([a_sample(now, 0, active_ms=0)])
    gpu = board.gpu_of(SliceId("s"))
    assert why_busy(board.report_of(WorkloadId("w")), gpu, now) is None
    assert why_busy(board.report_of(WorkloadId("w")), gpu, now + 4 * MINUTE_MS) is not None
    board.report(WorkloadId("w"), [], Millis(now + 4 * MINUTE_MS))
    late = why_busy(board.report_of(WorkloadId("w")), gpu, now + 4 * MINUTE_MS)
    assert late is not None
    assert "cannot be read" in late


def test_a_report_tells_of_nothing_that_is_to_come(
    world: ServiceWorld, lease: models.LeaseView
) -> None:
    ann = world.principal("ann")
    ahead = models.KernelActivity(kind="kernel", busy=False, last_active_ms=4_102_444_800_000)
    before = models.KernelActivity(kind="terminal", busy=False, last_active_ms=7)
    body = models.ActivityReport(kernels=[ahead, before])
    idle.report_activity(world.service, ann, lease.id, body)
    told_at = world.now_ms
    world.pass_time(MINUTE_MS)
    seen = idle.activity(world.service, world.culler, lease.id)
    assert [kernel.last_active_ms for kernel in seen.kernels] == [told_at, 7]


def test_a_report_is_kept_as_far_as_something_is_decided_on_it(
    world: ServiceWorld, lease: models.LeaseView
) -> None:
    idle_ones = [
        models.KernelActivity(kind="kernel", name="\U0001f4a9" * 500, busy=False, last_active_ms=at)
        for at in range(510)
    ]
    busy = models.KernelActivity(kind="process", name="train", busy=True)
    body = models.ActivityReport(kernels=[*idle_ones, busy])
    idle.report_activity(world.service, world.principal("ann"), lease.id, body)

    (seen,) = idle.activities(world.service, world.culler).activities
    # The culler and the page of idle notebooks read those of everybody at once.
    assert len(seen.model_dump_json()) < 32 << 10
    assert seen.kernels[0] == busy
    assert seen.kernels[1].last_active_ms == 509
