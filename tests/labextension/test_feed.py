from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from gpucommons.labextension.fanout import Fanout, Tab
from gpucommons.labextension.feed import Feed
from gpucommons.labextension.place import Place


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
