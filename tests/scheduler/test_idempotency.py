"""A request that is sent again is known, also by a release that knows more fields of it."""

from __future__ import annotations

import pytest
from pydantic import BaseModel

from gpucommons.scheduler.errors import Conflict
from gpucommons.scheduler.idempotency import check_same_request, fingerprint


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
