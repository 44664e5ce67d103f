from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from gpucommons.labextension.activity.reporter import Reporter
from gpucommons.scheduler.models import ActivityReport, KernelActivity

LEASE_ID = "018f0000-0000-7000-8000-0000000000aa"


class Collected:
    def __init__(self, *, busy: bool) -> None:
        self.busy = busy

    async def collect(self) -> ActivityReport:
        return ActivityReport(kernels=[KernelActivity(kind="kernel", name="p", busy=self.busy)])

    def busy_ms(self) -> int | None:
        return 99 if self.busy else None


def reporter(client: Any, *, busy: bool = False) -> Reporter:
    return Reporter(
        keeps=lambda: "variables",
        scheduler=client,
        collector=Collected(busy=busy),
        lease_id=LEASE_ID,
        take_lease=lambda lease: None,
        take_activity=lambda at_ms: None,
        last_activity_times={},
    )


async def test_a_report_says_what_is_busy_and_what_a_stop_keeps(client: Any, api: Any) -> None:
    await reporter(client, busy=True).report()
    assert api.body(f"/v1/leases/{LEASE_ID}/activity") == {
        "kernels": [{"kind": "kernel", "name": "p", "busy": True}],
        "keeps": "variables",
    }


@pytest.mark.parametrize("busy", [True, False])
async def test_only_work_counts_for_plain_cullers(client: Any, *, busy: bool) -> None:
    one = reporter(client, busy=busy)
    await one.report()
    assert ("gpucommons" in one.last_activity_times) is busy


async def test_a_scheduler_that_is_down_is_said_once_and_tried_again(
    client: Any, api: Any, caplog: pytest.LogCaptureFixture
) -> None:
    one = reporter(client)
    api.down = True
    await one.report()
    await one.report()
    assert len([one for one in caplog.records if one.name == "gpucommons.labextension"]) == 1
    assert "secret-token" not in caplog.text
    api.down = False
    await one.report()
    assert len(api.asked("PUT")) == 3


async def test_reports_go_on_when_one_cannot_be_made(client: Any, api: Any) -> None:
    one = reporter(client)
    answers = iter([KeyError("execution_state"), None, asyncio.CancelledError()])
    collector = one.collector

    class Odd:
        async def collect(self) -> ActivityReport:
            error = next(answers)
            if error is not None:
                raise error
            return await collector.collect()

        def busy_ms(self) -> int | None:
            return None

    one.collector, one.sleep = Odd(), lambda _seconds: asyncio.sleep(0)
    with pytest.raises(asyncio.CancelledError):
        await one.run()
    assert len(api.asked("PUT")) == 1


@pytest.mark.parametrize(("down", "told"), [(False, [99] * 3), (True, [])])
async def test_a_busy_kernel_is_told_between_two_reports_that_are_heard(
    client: Any, api: Any, *, down: bool, told: list[int]
) -> None:
    one = reporter(client, busy=True)
    api.down = down
    heard: list[int] = []
    one.take_activity = heard.append
    looks = iter(range(3))

    async def sleep(_seconds: float) -> None:
        if next(looks, None) is None:
            raise asyncio.CancelledError

    one.sleep = sleep
    with pytest.raises(asyncio.CancelledError):
        await one.run()
    assert heard == [0, *told]


async def test_a_cell_that_begins_is_reported_at_once_and_one_that_was_told_is_not_told_again(
    client: Any, api: Any
) -> None:
    one = reporter(client)
    collected = one.collector
    assert isinstance(collected, Collected)
    looks = 0

    async def sleep(_seconds: float) -> None:
        nonlocal looks
        looks += 1
        collected.busy = looks >= 2
        if looks == 10:
            raise asyncio.CancelledError

    one.sleep = sleep
    with pytest.raises(asyncio.CancelledError):
        await one.run()
    # Else its notebook might be stopped as idle until the next report.
    told = [json.loads(one.content)["kernels"][0]["busy"] for one in api.requests]
    assert told == [False, True]
