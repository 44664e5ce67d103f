from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from gpucommons.labextension.fanout import Fanout, Tab
from gpucommons.labextension.feed import Feed
from gpucommons.labextension.place import Place
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
    feed = Feed(Odd(), fanout, Place(), sleep=lambda _seconds: asyncio.sleep(0))
    running = asyncio.create_task(feed.run())
    said = []
    async with asyncio.timeout(60):
        while said[-1:] != ["ok"]:
            message = json.loads(await tab.next())
            if message["type"] == "hello":
                said.append(message["scheduler"])
                if said == ["unreachable"]:
                    assert "cannot be read" in message["message"]
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert said == ["unreachable", "ok"]


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
    feed = Feed(None, fanout, Place())
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
