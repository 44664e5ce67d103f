"""What large requests cost the others: reading one holds everybody up, so they take turns."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import httpx
import pytest
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.types import Receive, Scope, Send

from gpucommons.scheduler.api.limits import concurrent_requests
from gpucommons.scheduler.api.limits.body_limit import LARGE_BYTES, BodyLimit

LARGE = b"x" * (LARGE_BYTES + 1)


class Reading:
    """An application that reads bodies, and the pauses that it is given."""

    def __init__(self) -> None:
        self.happened: list[str] = []
        self.go_on = asyncio.Event()
        app = BodyLimit(self, streamed="/s/", max_streamed_bytes=1 << 20, sleep=self._pause)
        transport = httpx.ASGITransport(app)
        self.http = httpx.AsyncClient(transport=transport, base_url="http://api")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        await request.body()
        self.happened.append(f"read {request.url.path}")
        await PlainTextResponse("")(scope, receive, send)
        # As answers do that go on: whether anybody still listens.
        assert (await receive())["type"] == "http.disconnect"

    async def _pause(self, seconds: float) -> None:
        assert seconds > 0
        self.happened.append("pause")
        await self.go_on.wait()

    async def post(self, path: str, body: bytes = LARGE, whose: str = "a") -> int:
        found = await self.http.post(
            path, content=body, headers={"Authorization": f"token {whose}"}
        )
        return found.status_code

    async def begin(self, tokens: Sequence[str]) -> list[asyncio.Task[int]]:
        posts = [asyncio.create_task(self.post(f"/{i}", whose=one)) for i, one in enumerate(tokens)]
        for _ in range(50):
            await asyncio.sleep(0)
        return posts


async def test_large_bodies_are_read_one_after_another_with_pauses_between() -> None:
    app = Reading()
    posts = await app.begin(["a", "b", "c"])
    assert app.happened == ["pause"]
    app.go_on.set()
    assert await asyncio.gather(*posts) == [200] * 3
    assert app.happened.count("pause") == 3
    for n in range(3):
        assert sum(one != "pause" for one in app.happened[: 2 * n + 1]) <= n


async def test_small_ones_and_files_wait_for_nobody() -> None:
    app = Reading()
    posts = await app.begin(["a", "b"])
    assert await app.post("/small", LARGE[:LARGE_BYTES]) == 200
    assert await app.post("/s/file") == 200
    assert app.happened == ["pause", "read /small", "read /s/file"]
    app.go_on.set()
    await asyncio.gather(*posts)


async def test_many_of_one_token_go_behind_the_first_of_another() -> None:
    app = Reading()
    posts = await app.begin(["a", "a", "a", "b"])
    app.go_on.set()
    await asyncio.gather(*posts)
    read = [one for one in app.happened if one != "pause"]
    assert read.index("read /3") == 1


async def test_who_gets_no_turn_is_told_to_come_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(concurrent_requests, "PATIENCE_S", 0)
    app = Reading()
    posts = await app.begin(["a", "b"])
    assert await posts[1] == 429
    app.go_on.set()
    assert await posts[0] == 200
