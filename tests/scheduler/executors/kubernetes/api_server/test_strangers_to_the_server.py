"""An API server that does not take our token is not asked as fast as it refuses."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

import pytest
import urllib3

from gpucommons.scheduler.executors.kubernetes.api_server.connection import ApiError, Connection


@dataclass
class Server:
    """Takes one token; counts how often it is asked."""

    takes: str
    asked: int = 0
    data: bytes = b"{}"
    accepted: str = ""

    def request(self, _verb: str, _url: str, *, headers: dict[str, str], **_: Any) -> Any:
        self.asked += 1
        self.accepted = headers["Accept"]
        known = headers.get("Authorization") == self.takes
        return SimpleNamespace(status=200 if known else 401, data=self.data)


@dataclass
class Token:
    value: str

    def headers(self) -> dict[str, str]:
        return {"Authorization": self.value}


@dataclass
class World:
    now_s: float = 0.0
    server: Server = field(default_factory=lambda: Server(takes="new"))
    token: Token = field(default_factory=lambda: Token("old"))

    def __post_init__(self) -> None:
        pool = cast("urllib3.PoolManager", self.server)
        self.connection = Connection("http://k", pool, self.token, now_s=lambda: self.now_s)

    def refused(self) -> ApiError:
        with pytest.raises(ApiError) as refused:
            self.connection.get("/api/v1/nodes")
        return refused.value


def test_a_token_that_was_refused_rests_before_it_is_shown_again() -> None:
    world = World()
    for _ in range(20):
        assert world.refused().try_again
    assert world.server.asked == 1
    world.now_s = 2.0
    assert world.refused().status == 401
    assert world.server.asked == 2


def test_a_renewed_token_is_shown_at_once() -> None:
    world = World()
    world.refused()
    world.token.value = "new"
    assert world.connection.get("/api/v1/nodes") == {}


def test_a_server_that_takes_the_token_again_is_asked_without_rest() -> None:
    world = World()
    world.refused()
    world.server.takes, world.now_s = "old", 2.0
    for _ in range(3):
        assert world.connection.get("/api/v1/nodes") == {}
    assert world.server.asked == 4


def test_the_answer_to_a_change_is_kept_short_and_is_not_read() -> None:
    world = World(token=Token("new"))
    world.server.data = b"no document"
    world.connection.merge_patch("/api/v1/namespaces/jobs/pods/p", {})
    world.connection.json_patch("/api/v1/namespaces/jobs/pods/p", [])
    world.connection.delete("/api/v1/namespaces/jobs/pods/p")
    assert world.server.asked == 3
    brief, whole = world.server.accepted.split(",")
    assert "as=PartialObjectMetadata" in brief
    # Refusals have no shorter form.
    assert whole == "application/json"
