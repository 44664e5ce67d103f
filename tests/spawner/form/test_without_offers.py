"""A start page whose scheduler offers nothing says why, and still starts notebooks without a GPU."""

from __future__ import annotations

import logging
from types import SimpleNamespace
from typing import Any

import pytest

from gpucommons.scheduler.errors import (
    Forbidden,
    HubRefusesToken,
    NotAuthenticated,
    SchedulerError,
    Unavailable,
    Unreachable,
)
from gpucommons.scheduler.models import OfferList
from gpucommons.spawner.form.form_mixin import StartOptions, options_form


class Spawner(StartOptions):
    def __init__(
        self, error: SchedulerError | None = None, *, handler: Any = None, **settings: Any
    ) -> None:
        super().__init__(**settings)
        self.name, self.orm_spawner, self.handler = "", None, handler
        self.user, self.log = SimpleNamespace(name="ann"), logging.getLogger("spawner")
        self._error = error

    async def offers(self) -> OfferList:
        assert self._error is not None
        raise self._error


@pytest.mark.parametrize("error", [HubRefusesToken(), NotAuthenticated(), Forbidden()])
async def test_a_refused_token_is_not_called_silence(error: SchedulerError) -> None:
    page = await options_form(Spawner(error, scheduler_url="http://scheduler"))
    assert "do not take each other&#39;s tokens" in page
    assert "does not answer" not in page
    assert 'value="cpu"' in page


@pytest.mark.parametrize("error", [Unavailable(), Unreachable()])
async def test_a_scheduler_that_is_away_is_waited_for(error: SchedulerError) -> None:
    page = await options_form(Spawner(error, scheduler_url="http://scheduler"))
    assert "does not answer" in page
    assert 'value="cpu"' in page


async def test_a_hub_without_its_tokens_says_so_where_servers_are_started() -> None:
    page = await options_form(Spawner(why_no_scheduler="This hub is not connected."))
    assert "This hub is not connected." in page
    assert 'value="cpu"' in page


async def test_a_hub_that_never_had_a_scheduler_says_nothing_of_one() -> None:
    assert "scheduler" not in (await options_form(Spawner())).lower()
