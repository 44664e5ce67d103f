from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from benchmarks.real_scripts import environment
from benchmarks.real_scripts.play import Stage, stage


@pytest.fixture(scope="module")
def played_on() -> Iterator[Stage]:
    """A machine of our own, on which scripts of the frameworks are played."""
    found = environment.find()
    if found is None:
        if os.environ.get("REQUIRE_FRAMEWORKS") == "1":
            pytest.fail(environment.HOW_TO_GET)
        pytest.skip(environment.HOW_TO_GET)
    with stage(found) as playing:
        yield playing
