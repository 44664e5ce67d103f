"""Which address of the hub's API a request really goes to."""

from __future__ import annotations

import httpx
import pytest

from gpucommons.scheduler.hub.hub import Hub


@pytest.mark.parametrize("name", [".", "..", "lab", "a/../b", ".lab"])
async def test_a_server_is_stopped_itself_whatever_it_is_called(name: str) -> None:
    asked: list[bytes] = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(request.url.raw_path)
        return httpx.Response(204)

    hub = Hub("http://hub/hub/api", token="t", transport=httpx.MockTransport(answer))
    assert await hub.stop_server("ann", name)
    written = {".": "%2E", "..": "%2E%2E", "a/../b": "a%2F..%2Fb"}.get(name, name)
    assert asked == [f"/hub/api/users/ann/servers/{written}".encode()]
