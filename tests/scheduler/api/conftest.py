from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import httpx
import pytest
from fastapi import FastAPI
from service_world import FakeHubServer, ServiceWorld, an_app

from gpucommons.scheduler.client import AsyncSchedulerClient


@pytest.fixture
def world(tmp_path: Path) -> ServiceWorld:
    return ServiceWorld(tmp_path)


@pytest.fixture
def hub() -> FakeHubServer:
    return FakeHubServer()


@pytest.fixture
def app(world: ServiceWorld, hub: FakeHubServer) -> FastAPI:
    return an_app(world, hub, max_snapshot_bytes=2 << 20)


@pytest.fixture
async def http(app: FastAPI) -> AsyncIterator[httpx.AsyncClient]:
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://api") as client:
        yield client


@pytest.fixture
def client_of(app: FastAPI) -> Iterator[Callable[[str | None], AsyncSchedulerClient]]:
    """A client with somebody's token."""

    def make(token: str | None) -> AsyncSchedulerClient:
        transport = httpx.ASGITransport(app)
        return AsyncSchedulerClient("http://api", token=token, transport=transport)

    return make
