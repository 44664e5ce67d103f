"""A request that is sent again is known, also by a release that knows more fields of it."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import BaseModel
from service_world import ServiceWorld

from gpucommons.scheduler.background_tasks.housekeeping import FIRST_START, OPERATOR
from gpucommons.scheduler.core.model.intents import NoteFacts
from gpucommons.scheduler.errors import Conflict
from gpucommons.scheduler.idempotency import check_same_request, fingerprint
from gpucommons.scheduler.principal import Principal


class Older(BaseModel):
    name: str
    workers: int = 1


class Newer(Older):
    priority: str = "normal"


def test_a_field_that_an_upgrade_adds_makes_no_other_request_of_a_retry() -> None:
    first = fingerprint("job", Older(name="a", workers=1))
    check_same_request("key", first, fingerprint("job", Newer(name="a")))


@pytest.mark.parametrize(
    "other",
    [
        fingerprint("job", Newer(name="b")),
        fingerprint("job", Newer(name="a", workers=2)),
        fingerprint("job", Newer(name="a", priority="high")),
        fingerprint("sweep", Newer(name="a")),
    ],
)
def test_another_request_under_the_same_key_is_refused(other: str) -> None:
    with pytest.raises(Conflict, match="choose a new key"):
        check_same_request("key", fingerprint("job", Older(name="a")), other)


@pytest.mark.parametrize("ours", [OPERATOR, FIRST_START])
def test_who_is_called_as_a_part_of_ours_takes_none_of_its_keys(
    ours: Principal, tmp_path: Path
) -> None:
    world = ServiceWorld(tmp_path)
    action = NoteFacts(pools={})
    theirs = world.service.ask(world.principal(ours.name), action, key="over-1", request="theirs")
    assert world.service.ask(
        world.principal(ours.name), action, key="over-1", request="theirs"
    ) == (theirs)
    found = world.service.ask(ours, action, key="over-1", request="ours")
    assert found.intent_id != theirs.intent_id
    again = world.service.asked(ours, NoteFacts, key="over-1", request="ours")
    assert again is not None
    assert again.intent_id == found.intent_id
