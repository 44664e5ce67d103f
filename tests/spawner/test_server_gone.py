"""The scheduler hears soon that a server is gone, however long it could not be told."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from gpucommons.scheduler.errors import Unavailable
from gpucommons.spawner import server_gone


class Deaf:
    """A scheduler that answers from a moment on; the clock moves by the pauses of who asks."""

    def __init__(self, until_s: float) -> None:
        self.until_s = until_s
        self.now_s = 0.0

    async def __aenter__(self) -> Deaf:
        return self

    async def __aexit__(self, *_: object) -> None:
        pass

    async def send(self, _call: object) -> None:
        if self.now_s < self.until_s:
            raise Unavailable

    async def sleep(self, length_s: float) -> None:
        self.now_s += length_s


@pytest.mark.parametrize("until_s", [0.2, 1.6, 7.6, 15.6, 30.6, 59])
async def test_a_scheduler_that_can_listen_again_hears_it_within_seconds(until_s: float) -> None:
    scheduler: Any = Deaf(until_s)
    await _say_goodbye(scheduler)
    assert until_s <= scheduler.now_s < until_s + 5


async def test_it_gives_up_after_minutes() -> None:
    scheduler: Any = Deaf(86_400)
    await _say_goodbye(scheduler)
    assert 300 < scheduler.now_s < 900


async def _say_goodbye(scheduler: Any) -> None:
    log = logging.getLogger("farewell")
    await server_gone.say_goodbye(
        lambda: scheduler, "l-1", why="stopped", log=log, sleep=scheduler.sleep
    )
