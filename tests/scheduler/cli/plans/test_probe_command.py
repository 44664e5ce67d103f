"""`gpucommons probe`: a short job measures a pool, and an admin's plans reckon with what it told."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from command_line import Cli, WatchedWorld, submitted
from service_world import done

from gpucommons.scheduler import models
from gpucommons.scheduler.background_tasks.housekeeping import OPERATOR
from gpucommons.scheduler.cli.plans import probe_program
from gpucommons.scheduler.core.model.intents import NoteFacts, PoolFacts
from gpucommons.scheduler.core.model.resources import Measured
from gpucommons.scheduler.core.model.state import NodesObserved
from gpucommons.scheduler.core.model.types import PoolName
from gpucommons.scheduler.executors.fake import Script
from gpucommons.scheduler.service.administration import settings

QUOTA = {"guaranteed_milli_gpu": 4000}
QUOTAS = {"gpu": QUOTA, "cpu": {"over_quota_weight": 1}}
FOUND = {"gemm_tflops": 228.5, "inside_gb_s": 215.0, "inside_us": 7.5}


@pytest.fixture
def world(tmp_path: Path) -> WatchedWorld:
    """The admin is in a team: who runs a probe pays for it, as for any job."""
    made = WatchedWorld(tmp_path)
    team = {"name": "vision", "members": ["ann", "root"], "quotas": QUOTAS}
    config = models.ConfigModel.model_validate({"teams": [team, {"name": "nlp"}]})
    done(settings.put_config(made.service, made.admin, config))
    return made


def line(**changes: Any) -> str:
    return probe_program.MARK + json.dumps({**FOUND, **changes})


def measured(world: WatchedWorld) -> Measured | None:
    return world.cluster.pools[PoolName("gpu")].measured


def with_driver(world: WatchedWorld, driver: str) -> None:
    nodes = tuple(replace(one, driver=driver) for one in world.cluster.nodes.values())
    world.loop.observe(NodesObserved(executor="fake", nodes=nodes))
    world.pass_time(1000)


def ran(
    world: WatchedWorld, *lines: str, by: str = "root", pool: str = "gpu", **script: Any
) -> str:
    """A probe that is over."""
    world.script = Script(lines=lines, run_ms=1000, **script)
    name = submitted(world, by=by, name="probe", team="vision", pools=[pool]).name
    for _ in range(3):
        world.pass_time(1000)
    return name


def test_it_runs_one_worker_on_each_node_and_can_be_kept_later(
    cli: Cli, world: WatchedWorld
) -> None:
    """Who asked is gone before the job is over; its name is enough to keep what it found."""
    world.script = Script(lines=("a line of torch", line()), run_ms=1000)
    asked = cli("probe", "gpu", "--team", "vision", "--detach", by="root")
    assert asked.code == 0, asked.err
    (job,) = world.cluster.workloads.values()
    (role,) = job.spec.roles
    assert (role.count, role.milli_gpu, job.spec.launcher) == (1, 4000, "torchrun")
    assert "probe_program.py" in " ".join(role.command)
    for _ in range(3):
        world.pass_time(1000)

    name = asked.err.split()[0]
    assert f"gpucommons probe gpu --job {name} keeps what it found" in asked.err
    kept = cli("probe", "gpu", "--job", name, by="root")

    assert kept.code == 0, kept.err
    assert kept.out.splitlines() == [
        "gpu (A100-40): products 228 TFLOP/s; inside a node 215 GB/s, 7.5 µs; between nodes not measured",
        "Kept: plans on gpu reckon with it for 30 days.",
    ]
    found = measured(world)
    assert found is not None
    assert (found.gemm_gflops, found.inside_mb_s, found.between_mb_s) == (228_500, 215_000, 0)
    assert found.gpu_kind == "A100-40"
    again = cli("probe", "gpu", "--job", name, by="root")
    assert again.code == 0
    assert measured(world) == found


def test_a_probe_of_one_node_leaves_what_was_measured_between_nodes(
    cli: Cli, world: WatchedWorld
) -> None:
    first = ran(world, line(between_gb_s=90.0, between_us=15.0))
    assert cli("probe", "gpu", "--job", first, by="root").code == 0
    before = measured(world)
    world.pass_time(60_000)
    again = cli("probe", "gpu", "--job", ran(world, line(gemm_tflops=200.0)), by="root")
    assert "between nodes not measured" in again.out
    found = measured(world)
    assert before is not None
    assert found is not None
    assert (found.gemm_gflops, found.between_mb_s, found.between_ns) == (200_000, 90_000, 15_000)
    assert found.between_at_ms == before.at_ms < found.at_ms


def test_a_probe_is_kept_with_the_driver_that_it_ran_on(cli: Cli, world: WatchedWorld) -> None:
    with_driver(world, "550.54.15")
    assert cli("probe", "gpu", "--job", ran(world, line(between_gb_s=90.0)), by="root").code == 0
    before = measured(world)
    with_driver(world, "580.95.05")
    assert cli("probe", "gpu", "--job", ran(world, line()), by="root").code == 0
    after = measured(world)
    assert before is not None
    assert after is not None
    assert (before.drivers, after.drivers) == (("550.54.15",), ("580.95.05",))
    # Links that were measured with another driver are not kept beside it.
    assert (before.between_mb_s, after.between_mb_s) == (90_000, 0)


def test_of_simulated_gpus_it_is_shown_and_not_kept(cli: Cli, world: WatchedWorld) -> None:
    facts = NoteFacts(pools={PoolName("gpu"): PoolFacts(isolation="none", simulated=True)})
    world.service.ask(OPERATOR, facts)
    world.pass_time(1000)
    told = cli("probe", "gpu", "--job", ran(world, line()), by="root")
    assert "Not kept: the GPUs of gpu are simulated" in told.out
    assert measured(world) is None


@pytest.mark.parametrize(
    ("lines", "script", "said"),
    [
        (("no torch here",), {}, "has no result of a probe"),
        ((probe_program.MARK + "{",), {}, "has no result of a probe"),
        ((line(inside_gb_s=-1),), {}, "cannot be: inside_gb_s"),
        ((line(surprise=1),), {}, "cannot be: surprise"),
        ((line(),), {"exit_code": 1}, "only a probe that succeeded is kept"),
    ],
)
def test_what_a_probe_cannot_have_found_changes_nothing(
    cli: Cli, world: WatchedWorld, lines: tuple[str, ...], script: dict[str, Any], said: str
) -> None:
    told = cli("probe", "gpu", "--job", ran(world, *lines, **script), by="root")
    assert told.code != 0
    assert said in told.err
    assert measured(world) is None


def test_numbers_of_somebody_else_s_job_are_not_taken(cli: Cli, world: WatchedWorld) -> None:
    told = cli("probe", "gpu", "--job", ran(world, line(), by="ann"), by="root")
    assert "is of ann: keep what your own probe found" in told.err
    assert measured(world) is None


def test_numbers_of_another_pool_are_not_taken(cli: Cli, world: WatchedWorld) -> None:
    told = cli("probe", "gpu", "--job", ran(world, line(), pool="cpu"), by="root")
    assert "is of pool cpu: only a probe of gpu is kept" in told.err
    assert measured(world) is None


def test_only_admins_and_only_of_gpus_that_are_there(cli: Cli, world: WatchedWorld) -> None:
    assert "Only admins" in cli("probe", "gpu").err
    assert "There is no pool 'x'. Pools: cpu, gpu." in cli("probe", "x", by="root").err
    assert "Pool cpu has no GPUs now" in cli("probe", "cpu", by="root").err
    assert not world.cluster.workloads
