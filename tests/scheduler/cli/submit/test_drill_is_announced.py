"""Before a job is submitted that will be stopped once on purpose, the terminal says so as the panel does."""

from __future__ import annotations

from pathlib import Path

import pytest
from command_line import Cli, WatchedWorld
from service_world import CONFIG

TESTED = "It is stopped once after its first save, while nobody waits, to see that it goes on."


@pytest.fixture
def world(tmp_path: Path) -> WatchedWorld:
    pools = [{**pool, "drills": "on"} for pool in CONFIG["pools"]]
    return WatchedWorld(tmp_path, config={**CONFIG, "pools": pools})


def test_a_job_that_borrows_is_told_to_be_stopped_once_and_one_without_gpus_is_not(
    cli: Cli, script: Path
) -> None:
    borrowed = cli("submit", str(script), "--gpus", "4")
    assert TESTED in borrowed.err.splitlines(), borrowed.err
    assert "stopped once" not in cli("submit", str(script), "--gpus", "0").err
