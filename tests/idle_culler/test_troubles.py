"""A culler in a cluster starts before the others: it says why it waits, once."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator

import pytest

from gpucommons.idle_culler.hub import HubUnavailable
from gpucommons.idle_culler.loop import Act, Loop, Pace
from gpucommons.idle_culler.metrics import Metrics
from gpucommons.scheduler.client import calls
from gpucommons.scheduler.client.transport import SchedulerClient
from gpucommons.scheduler.errors import NotAuthenticated, Unreachable


class Still:
    def monotonic(self) -> float:
        return 0.0

    async def sleep(self, seconds: float) -> None:
        pass


class Troubled:
    due_in_s = None

    def __init__(self, *troubles: Exception | None) -> None:
        self._troubles = list(troubles)

    async def acts(self) -> AsyncGenerator[Act]:
        trouble = self._troubles.pop(0)
        if trouble is not None:
            raise trouble
        return
        yield


async def told(caplog: pytest.LogCaptureFixture, *troubles: Exception | None) -> list[str]:
    loop = Loop([Troubled(*troubles)], pace=Pace(), metrics=Metrics(), clock=Still())
    with caplog.at_level(logging.INFO, logger="gpucommons.culler"):
        for _ in troubles:
            await loop.cycle()
    return [record.getMessage() for record in caplog.records]


async def test_the_same_trouble_is_said_once_and_its_end(caplog: pytest.LogCaptureFixture) -> None:
    away = HubUnavailable("JupyterHub does not answer.")
    lines = await told(caplog, away, away, away, None, None)
    assert lines == [
        "nothing decided until this is over: JupyterHub does not answer.",
        "deciding again",
    ]


async def test_another_trouble_is_said_too(caplog: pytest.LogCaptureFixture) -> None:
    lines = await told(caplog, HubUnavailable("one"), HubUnavailable("two"), HubUnavailable("one"))
    assert [line[-3:] for line in lines] == ["one", "two", "one"]


async def test_a_token_that_nobody_knows_is_told_with_its_remedy(
    caplog: pytest.LogCaptureFixture,
) -> None:
    (line,) = await told(caplog, NotAuthenticated())
    assert "restart the hub" in line
    assert "header" not in line


@pytest.mark.parametrize(
    ("url", "asks"), [("http://127.0.0.1:1", True), ("http://gpucommons-api.invalid:8000", False)]
)
def test_only_on_one_machine_is_asked_for_its_command(url: str, *, asks: bool) -> None:
    with SchedulerClient(url) as scheduler, pytest.raises(Unreachable) as refused:
        scheduler.send(calls.whoami())
    assert ("gpucommons up" in str(refused.value)) is asks
