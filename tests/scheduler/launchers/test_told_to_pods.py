"""What a launcher says of each worker reaches its pod in one variable."""

from __future__ import annotations

import pytest
from gangs import a_gang

from gpucommons.scheduler.in_pod import starting
from gpucommons.scheduler.launchers import LAUNCHERS, starts


@pytest.mark.parametrize("launcher", LAUNCHERS)
@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("gpus", [0, 2])
def test_each_worker_reads_its_own_part(launcher: str, count: int, gpus: int) -> None:
    found = starts(launcher, a_gang(*["worker"] * count, gpus=gpus))
    told = starting.written([one.command for one in found], [one.env for one in found])
    for rank, start in enumerate(found):
        environ = {starting.VARIABLE: told, "GPUCOMMONS_RANK": str(rank), "MINE": "1"}
        assert starting.read(environ, ["as", "asked"]) == list(start.command)
        assert environ == {"GPUCOMMONS_RANK": str(rank), "MINE": "1", **start.env}


def test_a_pod_that_is_told_nothing_runs_what_was_asked() -> None:
    environ = {"GPUCOMMONS_RANK": "0"}
    assert starting.read(environ, ["as", "asked"]) == ["as", "asked"]


def test_what_a_thousand_workers_have_in_common_is_told_once() -> None:
    common = "x" * 50_000
    env = [{"TF_CONFIG": f"{common}{rank}"} for rank in range(1000)]
    assert len(starting.written([["a"]] * 1000, env)) < 60_000
