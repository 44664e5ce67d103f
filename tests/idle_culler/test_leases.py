import asyncio
import logging
from typing import Any

import pytest

from gpucommons.idle_culler.hub import HubUnavailable
from gpucommons.idle_culler.idle_limits import Rules
from gpucommons.idle_culler.loop import run_bounded
from gpucommons.scheduler.models import IdleView

MINUTE = 60_000
START = 1_800_000_000_000


async def test_an_idle_notebook_is_timed_warned_and_culled_with_its_reason(bench: Any) -> None:
    notebook = bench.scheduler.add("alice")
    await bench.at_minute(10)
    assert notebook.idle.idle_since_ms == START
    assert notebook.state == "active"
    await bench.at_minute(50)
    assert (notebook.state, notebook.idle.returns_ms) == ("warned", START + 60 * MINUTE)
    await bench.at_minute(59)
    assert bench.hub.stopped == []
    await bench.at_minute(60)
    assert bench.hub.stopped == ["alice"]
    assert notebook.ended == ("culled", "idle 60 min")
    assert bench.metrics.value("culled_total", reason="idle") == 1
    assert bench.metrics.value("false_culls_total") == 0


async def test_a_silent_cell_of_three_hours_is_kept_and_the_log_says_why(
    bench: Any, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    notebook = bench.scheduler.add("alice", busy=True)
    for minute in range(0, 181, 5):
        await bench.at_minute(minute)
    assert bench.hub.stopped == []
    assert notebook.state == "active"
    assert caplog.messages == ["alice kept: kernel busy"]


async def test_activity_after_the_warning_takes_it_back(bench: Any) -> None:
    notebook = bench.scheduler.add("alice")
    await bench.at_minute(50)
    notebook.last_active_ms = START + 55 * MINUTE
    await bench.at_minute(56)
    assert notebook.state == "active"
    assert notebook.idle.returns_ms is None
    await bench.at_minute(60)
    assert bench.hub.stopped == []


async def test_a_moment_to_come_is_forgotten_with_the_report_that_told_it(bench: Any) -> None:
    notebook = bench.scheduler.add("alice")
    notebook.last_active_ms = START + 10**12
    await bench.at_minute(10)
    assert notebook.state == "active"
    notebook.last_active_ms = START
    await bench.at_minute(60)
    assert notebook.state == "warned"
    await bench.at_minute(70)
    assert bench.hub.stopped == ["alice"]


async def test_a_cell_started_after_the_list_was_read_is_spared(bench: Any) -> None:
    notebook = bench.scheduler.add("alice")
    await bench.at_minute(50)

    def wake_up(_lease_id: str) -> None:
        notebook.busy = True

    bench.scheduler.before_recheck = wake_up
    await bench.at_minute(60)
    assert bench.hub.stopped == []
    assert notebook.ended is None
    assert bench.metrics.value("spared_total") == 1


async def test_activity_between_recheck_and_stop_is_counted_as_a_false_cull(bench: Any) -> None:
    notebook = bench.scheduler.add("alice")
    await bench.at_minute(50)

    async def work_meanwhile() -> None:
        bench.clock.now_s += 1
        notebook.gpu_active_ms = bench.clock.now_ms

    bench.hub.wait = work_meanwhile
    await bench.at_minute(60)
    assert bench.metrics.value("false_culls_total") == 1


async def test_a_culler_started_late_warns_before_it_culls(make_bench: Any) -> None:
    bench = make_bench()
    notebook = bench.scheduler.add("alice")
    await bench.at_minute(300)
    assert bench.hub.stopped == []
    assert notebook.idle.returns_ms == START + 310 * MINUTE
    await bench.at_minute(310)
    assert bench.hub.stopped == ["alice"]


async def test_a_restarted_scheduler_that_forgot_gpu_use_makes_nobody_idle(bench: Any) -> None:
    notebook = bench.scheduler.add("alice", gpu_active_ms=START + 99 * MINUTE)
    await bench.at_minute(100)
    notebook.gpu_active_ms = None
    await bench.at_minute(110)
    assert notebook.idle.idle_since_ms == START + 99 * MINUTE


async def test_a_restarted_scheduler_without_reports_yet_is_not_told_of_activity(
    bench: Any,
) -> None:
    notebook = bench.scheduler.add("alice")
    await bench.at_minute(32)
    notebook.reporting = notebook.metered = False
    notebook.gpu_active_ms = None
    await bench.at_minute(33)
    assert notebook.idle.idle_since_ms == START
    notebook.metered = True
    notebook.gpu_active_ms = START + 33 * MINUTE
    await bench.at_minute(34)
    assert notebook.idle.idle_since_ms is None


async def test_what_stays_unseen_after_a_restart_is_not_called_idle_for_ever(bench: Any) -> None:
    notebook = bench.scheduler.add("alice")
    await bench.at_minute(32)
    notebook.reporting = False
    await bench.at_minute(51)
    assert (notebook.idle.idle_since_ms, notebook.state) == (None, "active")


async def test_a_lease_without_any_trace_counts_from_the_first_look(make_bench: Any) -> None:
    bench = make_bench()
    notebook = bench.scheduler.add("alice", gpu_active_ms=None)
    await bench.at_minute(200)
    await bench.at_minute(249)
    assert notebook.state == "active"
    await bench.at_minute(250)
    assert notebook.state == "warned"


async def test_a_closed_kernel_does_not_take_its_activity_with_it(bench: Any) -> None:
    notebook = bench.scheduler.add("alice", last_active_ms=START + 50 * MINUTE)
    await bench.at_minute(51)
    notebook.last_active_ms = START
    await bench.at_minute(61)
    assert notebook.idle.idle_since_ms == START + 50 * MINUTE


@pytest.mark.parametrize("field", ["reporting", "metered"])
async def test_what_cannot_be_seen_is_kept_and_flagged(bench: Any, field: str) -> None:
    bench.scheduler.add("alice", **{field: False})
    await bench.at_minute(120)
    assert bench.hub.stopped == []
    assert bench.metrics.value("unverified") == 1
    assert bench.metrics.value("kept_total", reason="unverified") == 1


async def test_keep_30_min_is_honoured(bench: Any) -> None:
    notebook = bench.scheduler.add("alice")
    await bench.at_minute(50)
    notebook.state, notebook.idle = "active", IdleView(kept_until_ms=START + 82 * MINUTE)
    await bench.at_minute(60)
    assert (bench.hub.stopped, notebook.state) == ([], "active")
    await bench.at_minute(72)
    assert notebook.idle.returns_ms == START + 82 * MINUTE
    await bench.at_minute(82)
    assert notebook.ended == ("culled", "idle 82 min")


async def test_release_mode_drops_the_device_and_leaves_the_server(make_bench: Any) -> None:
    bench = make_bench()
    notebook = bench.scheduler.add("alice")
    notebook.idle = IdleView(on_idle="release")
    await bench.at_minute(50)
    await bench.at_minute(60)
    assert (notebook.dropped, bench.hub.stopped) == (True, [])
    assert bench.metrics.value("released_total", reason="idle") == 1


async def test_kernels_are_saved_where_that_was_chosen_and_its_server_can(bench: Any) -> None:
    notebook = bench.scheduler.add("alice")
    notebook.idle = IdleView(on_idle="hibernate", keeps="kernels")
    for minute in (50, 60, 61, 62):
        await bench.at_minute(minute)
    assert (notebook.hibernated, notebook.ended, bench.hub.stopped) == ("idle 60 min", None, [])
    assert bench.metrics.value("hibernated_total", reason="idle") == 1


async def test_a_notebook_is_parked_where_that_was_chosen_and_its_server_can(bench: Any) -> None:
    notebook = bench.scheduler.add("alice")
    notebook.idle = IdleView(on_idle="park", parks=True, keeps="kernels")
    for minute in (50, 60, 61, 62):
        await bench.at_minute(minute)
    assert (notebook.parked, notebook.hibernated, notebook.ended) == ("idle 60 min", None, None)
    assert bench.hub.stopped == []
    assert bench.metrics.value("parked_total", reason="idle") == 1


@pytest.mark.parametrize("cannot", [{"parks": False}, {"parks": True, "not_parked": "it is busy"}])
@pytest.mark.parametrize(
    ("allowed", "keeps", "weaker"),
    [
        (["park", "hibernate"], "kernels", "hibernated"),
        (["park", "hibernate"], "variables", "culled"),
        (["park"], "kernels", "culled"),
    ],
)
async def test_where_it_cannot_be_parked_the_next_weaker_way_is_taken(
    bench: Any, cannot: dict[str, Any], allowed: list[str], keeps: str, weaker: str
) -> None:
    notebook = bench.scheduler.add("alice")
    notebook.idle = IdleView(on_idle="park", on_idle_allowed=allowed, keeps=keeps, **cannot)
    await bench.at_minute(50)
    await bench.at_minute(60)
    assert notebook.parked is None
    assert (notebook.hibernated is not None, notebook.ended is not None) == (
        weaker == "hibernated",
        weaker == "culled",
    )


@pytest.mark.parametrize("keeps", ["variables", "nothing", ""])
async def test_a_server_that_cannot_save_its_kernels_is_culled(bench: Any, keeps: str) -> None:
    notebook = bench.scheduler.add("alice")
    notebook.idle = IdleView(on_idle="hibernate", keeps=keeps)
    await bench.at_minute(50)
    await bench.at_minute(60)
    assert (notebook.hibernated, notebook.ended) == (None, ("culled", "idle 60 min"))


async def test_a_team_has_its_own_limits(make_bench: Any) -> None:
    rules = Rules(per_team={"vision": {"idle_after_s": 600, "warn_after_s": 300}})
    bench = make_bench(rules)
    notebook = bench.scheduler.add("alice")
    await bench.at_minute(5)
    assert notebook.state == "warned"


async def test_dry_run_changes_nothing_and_says_what_it_would_do(
    make_bench: Any, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    bench = make_bench(dry_run=True)
    bench.scheduler.add("alice")
    await bench.at_minute(60)
    assert set(bench.scheduler.asked) == {"GET /v1/activities"}
    assert caplog.messages == ["alice dry run, not warned: idle 60 min"]


async def test_nothing_is_reported_twice(bench: Any) -> None:
    bench.scheduler.add("alice")
    for minute in (10, 20, 30, 50, 51, 52):
        await bench.at_minute(minute)
    reports = [line for line in bench.scheduler.asked if line.startswith("PUT")]
    assert len(reports) == 2


async def test_ten_servers_stop_at_a_time_and_no_more(bench: Any) -> None:
    for number in range(35):
        bench.scheduler.add(f"user{number}")
    await bench.at_minute(50)
    bench.hub.wait = lambda: asyncio.sleep(0)
    await bench.at_minute(60)
    assert len(bench.hub.stopped) == 35
    assert bench.hub.most == 10


async def test_a_scheduler_that_is_down_ends_nothing_and_is_tried_again(bench: Any) -> None:
    notebook = bench.scheduler.add("alice")
    bench.scheduler.down = True
    await bench.at_minute(50)
    assert bench.metrics.value("failed_cycles_total") == 1
    assert bench.leases.held is None
    bench.scheduler.down = False
    await bench.at_minute(51)
    assert notebook.state == "warned"
    assert bench.leases.held == frozenset({("alice", "")})


async def test_a_hub_that_is_down_delays_the_cull_and_hinders_no_other(bench: Any) -> None:
    alice, bob = bench.scheduler.add("alice"), bench.scheduler.add("bob")
    await bench.at_minute(50)
    bench.hub.fails = HubUnavailable("no")
    await bench.at_minute(60)
    assert (alice.ended, bob.ended) == (None, None)
    assert bench.metrics.value("failed_acts_total") == 2
    bench.hub.fails = None
    await bench.at_minute(61)
    assert alice.ended == bob.ended == ("culled", "idle 61 min")


async def test_the_loop_wakes_at_the_announced_time(bench: Any) -> None:
    bench.scheduler.add("alice")
    await bench.at_minute(50)
    assert bench.loop.pause_s() == 60
    await bench.at_minute(59.5)
    assert bench.loop.pause_s() == 30


async def test_the_loop_runs_until_it_is_cancelled(bench: Any) -> None:
    notebook = bench.scheduler.add("alice")
    bench.clock.ends_s = 61 * 60
    with pytest.raises(asyncio.CancelledError):
        await bench.loop.run()
    assert notebook.ended == ("culled", "idle 60 min")


async def test_a_list_that_breaks_off_lets_acts_under_way_finish(bench: Any) -> None:
    done = []

    async def act() -> None:
        await asyncio.sleep(0)
        done.append("act")

    async def acts() -> Any:
        yield act
        raise HubUnavailable("page 2")

    with pytest.raises(HubUnavailable):
        await run_bounded(acts(), 10, lambda error: None)
    assert done == ["act"]
