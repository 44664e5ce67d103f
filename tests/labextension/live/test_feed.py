from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from gpucommons.labextension.live.fanout import Fanout, Tab
from gpucommons.labextension.live.feed import Feed
from gpucommons.labextension.server_context import ServerContext
from gpucommons.scheduler import models


async def test_tabs_are_kept_fresh_after_an_odd_answer(client: Any) -> None:
    class Odd:
        asked = 0

        async def send(self, call: Any) -> Any:
            self.asked += 1
            if self.asked == 1:
                raise KeyError("user")
            return await client.send(call)

    fanout, tab = Fanout(), Tab()
    fanout.add(tab)
    feed = Feed(Odd(), fanout, ServerContext(), sleep=lambda _seconds: asyncio.sleep(0))
    running = asyncio.create_task(feed.run())
    said = []
    async with asyncio.timeout(60):
        while said[-1:] != ["ok"]:
            message = json.loads(await tab.next())
            if message["type"] == "hello":
                said.append(message["scheduler"])
                if said == ["unreachable"]:
                    assert "cannot read" in message["message"]
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert said == ["unreachable", "ok"]


class BusyTeam:
    """So many running jobs and, from the first question on, an event each second."""

    def __init__(self, client: Any, jobs: list[models.JobView], *, events: bool) -> None:
        self._client = client
        self._jobs = jobs
        self._events = events
        self.now_s = 100.0
        self.looks: list[float] = []

    async def send(self, call: Any) -> Any:
        if call.path.endswith("/events") and "newest" not in call.query:
            return self._after(float(call.query.get("wait_s") or 0))
        if call.path.endswith("/jobs") and call.query["live"] == "true":
            self.looks.append(self.now_s - 100.0)
            return models.JobList(jobs=self._jobs)
        return await self._client.send(call)

    def _after(self, wait_s: float) -> models.EventList:
        self.now_s += min(wait_s, 1.0) if self._events else wait_s
        event = models.EventView(number=1, at_ms=1, kind="started", by="scheduler", text="It runs.")
        return models.EventList(events=[event] if self._events else [], last=1)


@pytest.mark.parametrize(
    ("count", "events", "looks"),
    [
        (1, False, [0, 2, 4, 6]),
        (500, False, [0, 20, 40, 60]),
        (1, True, [0, 1, 2, 3]),
        (500, True, [0, 5, 10, 15]),
    ],
)
async def test_the_more_jobs_live_the_less_often_all_are_read(
    client: Any, make_job: Any, count: int, events: bool, looks: list[float]
) -> None:
    jobs = [make_job(id=f"j{number}", name=f"job-{number}") for number in range(count)]
    team = BusyTeam(client, jobs, events=events)
    fanout = Fanout()
    feed = Feed(team, fanout, ServerContext(), steady_s=lambda: team.now_s)
    while len(team.looks) < len(looks):
        await feed._step(team)
    assert team.looks == looks


def a_lease(idle_since_ms: int | None, state: str = "warned") -> models.LeaseView:
    return models.LeaseView(
        id="l-1",
        user="ann",
        server_name="",
        team="vision",
        pool="build",
        state=state,
        milli_gpu=500,
        requested_ms=0,
        since_ms=0,
        idle=models.IdleView(
            idle_since_ms=idle_since_ms, warned_ms=idle_since_ms, returns_ms=9_000, keeps_left=2
        ),
    )


async def test_a_cell_that_runs_since_ends_an_idleness_before_the_culler_says_so() -> None:
    fanout, tab = Fanout(), Tab()
    fanout.add(tab)
    feed = Feed(None, fanout, ServerContext())
    seen = []
    for step in (
        lambda: feed.take_lease(a_lease(1_000)),
        lambda: feed.take_activity(5_000),
        lambda: feed.take_lease(a_lease(5_000)),
        lambda: feed.take_activity(6_000),
        lambda: feed.take_activity(0),
    ):
        step()
        lease = json.loads(await tab.next())["lease"]
        seen.append((lease["state"], lease["idle"]["idle_since_ms"], lease["idle"]["returns_ms"]))

    assert seen == [
        ("warned", 1_000, 9_000),
        ("active", None, None),
        ("warned", 5_000, 9_000),
        ("active", None, None),
        ("warned", 5_000, 9_000),
    ]
    assert feed.hello()["lease"]["idle"]["keeps_left"] == 2
