"""Requests become specs; what cannot be is refused with the rule and with what can be."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from builders import a_node
from service_world import CONFIG, ServiceWorld, a_request

from gpucommons.scheduler import models
from gpucommons.scheduler.core.model.demand import every_size
from gpucommons.scheduler.core.model.resources import Policy
from gpucommons.scheduler.core.model.state import Cluster
from gpucommons.scheduler.core.model.types import PoolName, TeamName
from gpucommons.scheduler.errors import (
    BadRequest,
    Forbidden,
    Misconfigured,
    PolicyRefused,
    UnknownPool,
    UnknownTeam,
)
from gpucommons.scheduler.intake import Found, job_spec
from gpucommons.scheduler.service.views.jobs import request_of


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> ServiceWorld:
    return ServiceWorld(Path(tmp_path_factory.mktemp("intake")))


def with_policy(world: ServiceWorld, **rules: Any) -> Cluster:
    teams = dict(world.cluster.teams)
    vision = TeamName("vision")
    teams[vision] = replace(teams[vision], policy=replace(Policy(), **rules))
    return replace(world.cluster, teams=teams)


def spec_of(world: ServiceWorld, cluster: Cluster | None = None, **changes: Any) -> Any:
    found = changes.pop("found", Found(why_not=every_size))
    who = changes.pop("who", "ann")
    request = a_request(**changes)
    return job_spec(request, world.principal(who), cluster or world.cluster, found)


def test_what_is_left_out_gets_defaults(world: ServiceWorld) -> None:
    spec = spec_of(world, role={"milli_gpu": 500})
    assert (spec.team, spec.owner, spec.pools, spec.priority) == (
        "vision",
        "ann",
        ("gpu",),
        "normal",
    )
    assert (spec.min_workers, spec.max_workers, spec.max_run_ms) == (None, None, None)


def test_a_job_without_gpu_goes_where_there_are_none(world: ServiceWorld) -> None:
    assert spec_of(world).pools == ("cpu",)
    assert spec_of(world, pools=["gpu", "cpu", "gpu"]).pools == ("gpu", "cpu")


@pytest.mark.parametrize(("quotas", "sentence"), [(("gpu", "cpu"), "largest has 4"), ((), "(gpu)")])
def test_an_ask_for_gpus_never_hears_of_pools_without(
    world: ServiceWorld, quotas: tuple[str, ...], sentence: str
) -> None:
    team = world.cluster.teams[TeamName("vision")]
    given = {PoolName(pool): team.quotas[PoolName("gpu")] for pool in quotas}
    teams = {**world.cluster.teams, team.name: replace(team, quotas=given)}
    with pytest.raises(Misconfigured) as refused:
        spec_of(world, replace(world.cluster, teams=teams), role={"milli_gpu": 5000})
    assert sentence in str(refused.value)
    assert "cpu" not in str(refused.value)


def test_a_spec_reads_back_as_its_request(world: ServiceWorld) -> None:
    request = a_request(
        team="vision",
        pools=["gpu"],
        role={"milli_gpu": 500, "count": 2, "gpu_kind": "A100-40"},
        min_workers=1,
        max_workers=4,
        max_run_s=60,
        env={"A": "b"},
        secrets={"TOKEN": "wandb"},
        labels={"sweep": "7"},
        results_to="out",
        launcher="torchrun",
        priority="high",
        over_quota=True,
    )
    spec = job_spec(request, world.principal("ann"), world.cluster, Found(why_not=every_size))
    assert request_of(spec) == models.JobRequest.model_validate_json(request.model_dump_json())


def test_one_bound_is_completed_by_the_count(world: ServiceWorld) -> None:
    role = {"count": 3}
    assert spec_of(world, role=role, min_workers=1).max_workers == 3
    assert spec_of(world, role=role, max_workers=5).min_workers == 3
    with pytest.raises(Misconfigured, match="must lie between min_workers 4"):
        spec_of(world, role=role, min_workers=4)


@pytest.mark.parametrize(
    ("who", "team", "refusal"),
    [
        ("ann", "moon", UnknownTeam),
        ("ann", "nlp", Forbidden),
        ("eve", None, Forbidden),
        ("eve", "vision", Forbidden),
    ],
)
def test_people_submit_for_their_own_teams(
    world: ServiceWorld, who: str, team: str | None, refusal: type[Exception]
) -> None:
    with pytest.raises(refusal, match="team"):
        spec_of(world, who=who, team=team)


def test_an_admin_names_any_team(world: ServiceWorld) -> None:
    request = a_request(team="nlp")
    assert job_spec(request, world.admin, world.cluster, Found(why_not=every_size)).team == "nlp"
    with pytest.raises(BadRequest, match=r"name the one that pays .*nlp, vision"):
        job_spec(a_request(), world.admin, world.cluster, Found(why_not=every_size))


def test_members_of_several_teams_say_which_unless_one_can_pay(tmp_path: Path) -> None:
    teams = [
        {"name": "a", "members": ["ann"], "quotas": {"gpu": {"guaranteed_milli_gpu": 500}}},
        {"name": "b", "members": ["ann"]},
        {"name": "dep", "members": ["ann", "zoe"]},
        {"name": "leaf", "parent": "dep"},
    ]
    world = ServiceWorld(tmp_path, config={**CONFIG, "teams": teams})
    assert spec_of(world, role={"milli_gpu": 500}).team == "a"
    with pytest.raises(BadRequest, match="several teams"):
        spec_of(world)
    with pytest.raises(Misconfigured, match="choose one of its teams"):
        spec_of(world, team="dep")
    with pytest.raises(Forbidden, match="in no team that has quotas"):
        spec_of(world, who="zoe")


@pytest.mark.parametrize(
    ("rules", "ask", "rule"),
    [
        ({"environments": frozenset({"torch"})}, {"environment": "tf"}, "environments"),
        ({"environments": frozenset({"torch"})}, {}, "environments"),
        ({"max_run_ms": 60_000}, {"max_run_s": 61}, "max_run_s"),
        ({"priorities": frozenset({"low"})}, {"priority": "high"}, "priorities"),
        ({"max_milli_gpu_per_job": 500}, {"role": {"milli_gpu": 1000}}, "max_milli_gpu_per_job"),
        ({"max_workers": 1}, {"role": {"count": 2}}, "max_workers"),
        ({"max_workers": 2}, {"min_workers": 1, "max_workers": 3}, "max_workers"),
        (
            {"max_pending_per_user": 2},
            {"found": Found(why_not=every_size, pending=2)},
            "max_pending_per_user",
        ),
    ],
)
def test_a_policy_refuses_by_name(
    world: ServiceWorld, rules: dict[str, Any], ask: dict[str, Any], rule: str
) -> None:
    with pytest.raises(PolicyRefused, match=rf"Team vision .*policy {rule}"):
        spec_of(world, with_policy(world, **rules), **ask)
    everywhere = replace(world.cluster, policy=replace(Policy(), **rules))
    with pytest.raises(PolicyRefused, match=rf"This hub .*policy {rule}"):
        spec_of(world, everywhere, **ask)


def test_a_policy_gives_its_limits_to_those_who_name_none(world: ServiceWorld) -> None:
    cluster = with_policy(world, max_run_ms=60_000, priorities=frozenset({"low", "high"}))
    spec = spec_of(world, cluster)
    assert (spec.max_run_ms, spec.priority) == (60_000, "high")


@pytest.mark.parametrize(
    "name",
    ["NVIDIA_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES", "CUDA_MPS_PIPE_DIRECTORY", "LD_PRELOAD",
     "GPUCOMMONS_URL", "JUPYTERHUB_API_TOKEN"],
)  # fmt: skip
def test_reserved_variables_are_refused(world: ServiceWorld, name: str) -> None:
    for where in ("env", "secrets"):
        with pytest.raises(Misconfigured, match=f"variable {name} may not be set"):
            spec_of(world, **{where: {name: "x"}})
    assert spec_of(world, env={"MY_" + name: "x"}).env == {"MY_" + name: "x"}


@pytest.mark.parametrize(
    ("ask", "sentence"),
    [
        ({"role": {"milli_gpu": 5000}}, "largest has 4: use more workers"),
        ({"role": {"milli_gpu": 1000, "count": 5}}, "there are 4"),
        ({"role": {"milli_gpu": 500, "gpu_kind": "T4"}}, "it has A100-40"),
        ({"role": {"milli_gpu": 500}, "pools": ["cpu"]}, "cpu: it has no GPUs"),
        ({"role": {"milli_gpu": 2000}, "over_quota": False}, "is guaranteed 1"),
        ({"role": {"cpu_milli": 65_000}}, "the largest node has 64 to give out"),
        (
            {"role": {"memory_mib": 300_000}},
            "293 GiB of memory asked for a worker, the largest node has 256 to give out",
        ),
        ({"role": {"cpu_milli": 64_000, "count": 2}}, "by all workers together"),
    ],
)
def test_what_can_never_run_is_refused_with_the_obstacle(
    world: ServiceWorld, ask: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(Misconfigured, match="never run") as refused:
        spec_of(world, **ask)
    assert sentence in str(refused.value)


def test_one_pool_that_could_run_it_is_enough(world: ServiceWorld) -> None:
    assert spec_of(world, role={"milli_gpu": 500}, pools=["cpu", "gpu"]).pools == ("cpu", "gpu")


def test_an_elastic_job_needs_room_only_for_its_least_workers(world: ServiceWorld) -> None:
    role = {"milli_gpu": 1000, "count": 4}
    assert spec_of(world, role=role, min_workers=1, max_workers=16).max_workers == 16


def test_limits_count_what_must_run_together(tmp_path: Path) -> None:
    quota = {"gpu": {"guaranteed_milli_gpu": 500, "limit_milli_gpu": 1000}}
    teams = [{"name": "a", "members": ["ann"], "quotas": quota}]
    world = ServiceWorld(tmp_path, config={**CONFIG, "teams": teams})
    with pytest.raises(Misconfigured, match="limit of a is 1"):
        spec_of(world, role={"milli_gpu": 2000})


def test_a_lost_node_still_counts(tmp_path: Path) -> None:
    world = ServiceWorld(tmp_path)
    world.machine.nodes = (a_node("c1", 0, pool="cpu"),)
    world.pass_time(60_000)
    assert spec_of(world, role={"milli_gpu": 4000}).pools == ("gpu",)


def test_names_must_be_told_apart(world: ServiceWorld) -> None:
    two = [{"name": "a", "command": ["x"]}, {"name": "a", "command": ["y"]}]
    with pytest.raises(Misconfigured, match="same name"):
        job_spec(
            models.JobRequest(roles=two),
            world.principal("ann"),
            world.cluster,
            Found(why_not=every_size),
        )
    with pytest.raises(UnknownPool, match="Pools: cpu, gpu"):
        spec_of(world, pools=["moon"])
    with pytest.raises(Misconfigured, match="uploaded first"):
        spec_of(
            world,
            snapshot="a" * 64,
            found=Found(why_not=every_size, has_snapshot=lambda _team: False),
        )


TOO_MANY: dict[str, Any] = {"role": {"milli_gpu": 1000, "count": 5}, "launcher": "auto"}


@pytest.mark.parametrize(
    ("rules", "pending"),
    [({"max_workers": 1}, 0), ({"max_pending_per_user": 2}, 2), ({"priorities": {"low"}}, 0)],
)
def test_what_is_refused_anyhow_has_no_files_read(
    world: ServiceWorld, rules: dict[str, Any], pending: int
) -> None:
    reads: list[str] = []

    def environment() -> tuple[str, ...]:
        reads.append("environment")
        return ("",)

    def launcher() -> str:
        reads.append("launcher")
        return "plain"

    found = Found(why_not=every_size, environment=environment, launcher=launcher, pending=pending)
    ask: dict[str, Any] = {"role": {"count": 2}, "launcher": "auto", "priority": "high"}
    with pytest.raises(PolicyRefused):
        spec_of(world, with_policy(world, **rules), found=found, **ask)
    with pytest.raises(Misconfigured, match="never run"):
        spec_of(
            world,
            found=Found(why_not=every_size, environment=environment, launcher=launcher),
            **TOO_MANY,
        )
    assert reads == []
    assert (
        spec_of(world, found=Found(why_not=every_size, launcher=launcher), **ask).launcher
        == "plain"
    )
    assert reads == ["launcher"]


def test_commands_that_cannot_be_told_to_all_workers_are_refused(world: ServiceWorld) -> None:
    long = {"command": ["python", "a.py", "x" * 2000]}
    with pytest.raises(
        Misconfigured, match=r"each of 60 workers, which makes .* 100 KiB are possible"
    ):
        spec_of(world, role={**long, "count": 60}, launcher="jax")
    with pytest.raises(Misconfigured, match="each of 60 workers"):
        spec_of(world, role={**long, "count": 2}, max_workers=60, launcher="torchrun")
    short = {"command": ["python", "a.py"], "cpu_milli": 50, "memory_mib": 100}
    for launcher in ("tensorflow", "mpi"):
        with pytest.raises(Misconfigured, match="tells each of 1000 workers where all others are"):
            spec_of(world, role={**short, "count": 1000}, launcher=launcher)
    assert spec_of(world, role={**long, "count": 2}, launcher="jax").launcher == "jax"
    assert spec_of(world, role={**long, "count": 2}, max_workers=60, launcher="plain")
