"""The first configuration waits for the GPUs; facts about pools come from the agent."""

from dataclasses import replace
from pathlib import Path

import pytest
from builders import a_node
from service_world import CONFIG, NODES, ServiceWorld, done

from gpucommons.gpu.client.agent_client import NodeReport
from gpucommons.gpu.errors import AgentUnavailable
from gpucommons.gpu.slices.slices import MpsDaemon, SliceId
from gpucommons.gpu.slices.usage import AuditEntry
from gpucommons.scheduler import models
from gpucommons.scheduler.background_tasks.housekeeping import (
    AGENT_EVENTS,
    PATIENCE_S,
    Housekeeping,
)
from gpucommons.scheduler.core.model.resources import Node
from gpucommons.scheduler.core.model.state import Event
from gpucommons.scheduler.core.model.types import PoolName
from gpucommons.scheduler.intake import configuration
from gpucommons.scheduler.models.history import (
    CONFIGURATION_IN_FORCE,
    CONFIGURATION_WAITS,
    NODES_MAY_HELP,
)
from gpucommons.scheduler.service import leases
from gpucommons.scheduler.service.administration import settings
from gpucommons.scheduler.service.jobs import profiles

FIRST = models.ConfigModel(**CONFIG)


def a_report() -> NodeReport:
    return NodeReport(node="n1", devices=(), cpu_milli=1, memory_mib=1, isolation="watched")


def on_record(world: ServiceWorld) -> list[Event]:
    kinds = frozenset({CONFIGURATION_WAITS, CONFIGURATION_IN_FORCE})
    return [one.event for one in world.store.events(kinds=kinds)]


def test_the_first_configuration_waits_for_the_devices(tmp_path: Path) -> None:
    world = ServiceWorld(tmp_path, config={}, nodes=())
    housekeeping = Housekeeping(world.service, report=None, first_config=FIRST)
    assert not housekeeping.ready
    housekeeping.step()
    assert (housekeeping.configured, world.cluster.teams) == (False, {})
    assert not housekeeping.ready
    world.machine.nodes = (a_node("n1", 1, pool="gpu"),)
    world.pass_time(5000)
    housekeeping.step()
    assert not housekeeping.configured
    assert housekeeping.ready, "admins find out why it cannot be"
    # Once, also by another start.
    Housekeeping(world.service, report=None, first_config=FIRST).step()
    world.pass_time(5000)
    (waits,) = on_record(world)
    assert waits.kind == CONFIGURATION_WAITS
    assert not waits.data[NODES_MAY_HELP], "quotas are too large for the nodes that are there"
    assert "fixed+guarantee 4 of 1" in waits.text
    world.machine.nodes = NODES
    world.pass_time(5000)
    housekeeping.step()
    assert housekeeping.configured
    assert housekeeping.ready
    world.pass_time(5000)
    assert [one.kind for one in on_record(world)] == [CONFIGURATION_WAITS, CONFIGURATION_IN_FORCE]
    assert set(world.cluster.teams) == {"vision", "nlp"}
    told = world.store.events(kinds=frozenset({"team-created"}))
    assert {one.event.by for one in told} == {"first configuration"}


def test_where_nodes_may_be_late_nobody_waits_for_them_for_long(tmp_path: Path) -> None:
    now_s = 0.0
    world = ServiceWorld(tmp_path, config={}, nodes=(a_node("n1", 0, pool="cpu"),))
    housekeeping = Housekeeping(world.service, report=None, first_config=FIRST, now_s=lambda: now_s)
    world.pass_time(5000)
    housekeeping.step()
    assert not housekeeping.ready
    now_s = PATIENCE_S
    assert housekeeping.ready
    (waits,) = on_record(world)
    assert waits.data[NODES_MAY_HELP]


def test_that_no_node_comes_is_said(tmp_path: Path) -> None:
    now_s = 0.0
    world = ServiceWorld(tmp_path, config={}, nodes=())
    housekeeping = Housekeeping(world.service, report=None, first_config=FIRST, now_s=lambda: now_s)
    housekeeping.step()
    world.pass_time(1000)
    assert on_record(world) == []
    now_s = PATIENCE_S
    housekeeping.step()
    world.pass_time(1000)
    (waits,) = on_record(world)
    assert waits.text.startswith(
        "No node is there yet. On Kubernetes a node of a pool has the label"
    )
    assert waits.data[NODES_MAY_HELP] is True


def test_teams_that_an_admin_adds_before_any_node_is_there_end_the_wait(tmp_path: Path) -> None:
    world = ServiceWorld(tmp_path, config={}, nodes=())

    def start() -> Housekeeping:
        started = Housekeeping(world.service, report=None, first_config=FIRST, now_s=lambda: now_s)
        started.step()
        world.pass_time(1000)
        return started

    now_s = 0.0
    first = start()
    now_s = PATIENCE_S
    first.step()
    world.pass_time(1000)
    by_hand = models.ConfigModel(teams=[models.TeamModel(name="by-hand")])
    done(settings.put_config(world.service, world.admin, by_hand))
    first.step()
    world.pass_time(1000)
    assert first.configured
    # Further starts say it no more.
    assert start().configured
    assert [one.kind for one in on_record(world)] == [CONFIGURATION_WAITS, CONFIGURATION_IN_FORCE]
    assert set(world.cluster.teams) == {"by-hand"}


def test_that_nodes_no_longer_help_is_said_where_the_sentence_stays_the_same(
    tmp_path: Path,
) -> None:
    def refused_with(nodes: tuple[Node, ...]) -> None:
        world.machine.nodes = nodes
        world.pass_time(5000)
        housekeeping.step()
        world.pass_time(1000)

    pool = {"name": "gpu"}
    quotas = {"gpu": {"guaranteed_milli_gpu": 4000}, "new": {"guaranteed_milli_gpu": 1000}}
    first = models.ConfigModel(
        pools=[pool, {"name": "new"}], teams=[{"name": "vision", "quotas": quotas}]
    )
    world = ServiceWorld(tmp_path, config={}, nodes=())
    housekeeping = Housekeeping(world.service, report=None, first_config=first)
    few = a_node("n1", 1, pool="gpu")
    refused_with((few,))
    refused_with((few, a_node("n2", 0, pool="new")))
    waits = on_record(world)
    assert len({one.text for one in waits}) == 1
    assert [one.data[NODES_MAY_HELP] for one in waits] == [True, False]
    # Which another start finds as it is.
    Housekeeping(world.service, report=None, first_config=first).step()
    world.pass_time(1000)
    assert len(on_record(world)) == 2


def test_a_configuration_whose_pool_grows_from_no_node_waits_for_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    growth = {"max_nodes": 1, "gpus": 4, "cpu_milli": 8000, "memory_mib": 8000}
    pools = [{**CONFIG["pools"][0], "gpu_kind": "A100-40", "growth": growth}]
    teams = [{"name": "vision", "quotas": {pools[0]["name"]: {"guaranteed_milli_gpu": 4000}}}]
    world = ServiceWorld(tmp_path, config={}, nodes=())
    first = models.ConfigModel(pools=pools, teams=teams)
    # Played on an executor that is called otherwise.
    monkeypatch.setattr(configuration, "_GROWS_ON", "fake")
    housekeeping = Housekeeping(world.service, report=None, first_config=first)
    housekeeping.step()
    world.pass_time(5000)
    housekeeping.step()
    assert housekeeping.configured
    assert set(world.cluster.teams) == {"vision"}


def test_later_starts_leave_admins_the_word(tmp_path: Path) -> None:
    world = ServiceWorld(tmp_path)
    other = models.ConfigModel(teams=[models.TeamModel(name="other")])
    housekeeping = Housekeeping(world.service, report=None, first_config=other)
    housekeeping.step()
    assert housekeeping.configured
    assert "other" not in world.cluster.teams


def test_profiles_go_with_their_team_and_do_not_come_back_with_its_name(tmp_path: Path) -> None:
    world = ServiceWorld(tmp_path)
    housekeeping = Housekeeping(world.service, report=None, first_config=None)
    form = models.ProfileRequest.model_validate({"job": {"milli_gpu": 1000}})
    for team in ("vision", "nlp"):
        profiles.put_profile(world.service, world.admin, team, "ddp", form)
    housekeeping.step()
    without = models.ConfigModel(removed_teams=["nlp"])
    done(settings.put_config(world.service, world.admin, without))
    housekeeping.step()
    done(settings.put_config(world.service, world.admin, FIRST))
    housekeeping.step()
    found = profiles.profiles(world.service, world.admin).profiles
    assert [one.team for one in found] == ["vision"]
    (removed,) = world.store.events(kinds=frozenset({"profile-removed"}))
    assert removed.event.text == "profile ddp of nlp was removed with its team"


def test_isolation_is_what_the_agent_says(tmp_path: Path) -> None:
    pools = [{"name": "gpu"}, {"name": "cpu"}]
    world = ServiceWorld(tmp_path, config={"pools": pools}, executor="local")
    housekeeping = Housekeeping(world.service, report=a_report, first_config=None)
    housekeeping.step()
    gpu, cpu = world.cluster.pools["gpu"], world.cluster.pools["cpu"]  # type: ignore[index]
    assert (gpu.isolation, gpu.simulated) == ("watched", True)
    assert (cpu.isolation, cpu.simulated) == ("none", False)
    events = world.store.last_event_number()
    housekeeping.step()
    assert world.store.last_event_number() == events


def test_a_pool_that_opted_in_to_mps_promises_what_the_daemon_keeps(tmp_path: Path) -> None:
    pools = [{"name": "gpu", "mps": {"pipe": "/run/mps"}}, {"name": "cpu"}]
    real = replace(NODES[0], devices=tuple(replace(d, simulated=False) for d in NODES[0].devices))
    world = ServiceWorld(tmp_path, config={"pools": pools}, nodes=(real,), executor="local")
    Housekeeping(world.service, report=a_report, first_config=None).step()
    assert world.cluster.pools[PoolName("gpu")].isolation == "driver"
    assert world.cluster.pools[PoolName("gpu")].mps == MpsDaemon(pipe="/run/mps")


@pytest.mark.parametrize(
    ("mps", "word"),
    [
        ({}, "pipe"),
        ({"pipe": "run/mps"}, "pipe"),
        ({"pipe": "/run/mps", "version": 4}, "version"),
        ({"pipe": "/run/mps", "version": 3}, "server"),
        ({"pipe": "/run/mps", "version": 3, "server": "../x"}, "server"),
    ],
)
def test_a_daemon_that_could_not_be_found_is_refused(mps: dict[str, object], word: str) -> None:
    with pytest.raises(ValueError, match=word):
        models.PoolModel.model_validate({"name": "gpu", "mps": mps})


def test_an_agent_that_is_away_changes_nothing(world_of_demo: ServiceWorld) -> None:
    def away() -> NodeReport:
        raise AgentUnavailable

    before = world_of_demo.cluster.pools
    Housekeeping(world_of_demo.service, report=away, first_config=None).step()
    assert world_of_demo.cluster.pools == before


def entry(number: int, *, slice_id: str | None = None, event: str = "memory-kill") -> AuditEntry:
    return AuditEntry(
        number=number,
        key=f"key-{number}",
        at_ms=1000 + number,
        event=event,
        text="23.0 of 19.4 GiB on GPU-0: process 7 killed.",
        slice_id=None if slice_id is None else SliceId(slice_id),
        fields={"pid": 7},
    )


def test_what_an_agent_did_is_in_the_log_of_admins_once(world_of_demo: ServiceWorld) -> None:
    world = world_of_demo
    request = models.LeaseRequest(user="ann", milli_gpu=500)
    held = done(leases.acquire(world.service, world.hub_service, request, key=None)).slice
    assert held is not None
    record = [entry(1, slice_id=held.slice_id), entry(2, event="limit-refused")]

    def after(number: int) -> list[AuditEntry]:
        return [one for one in record if one.number > number]

    def housekeeping() -> Housekeeping:
        return Housekeeping(world.service, report=a_report, first_config=None, record=after)

    first = housekeeping()
    first.step()
    first.step()
    record.append(entry(3))
    # A scheduler that was killed asks again for what it may have missed.
    housekeeping().step()
    again = housekeeping()
    again._noted = 0
    again.step()
    found = [one.event for one in world.store.events(kinds=AGENT_EVENTS)]
    assert [one.data["number"] for one in found] == [1, 2, 3]
    assert (found[0].by, found[0].team, found[0].kind) == ("agent of n1", "vision", "memory-kill")
    assert found[0].text == "23.0 of 19.4 GiB on GPU-0: process 7 killed."
    assert (found[0].data["pid"], found[0].data["at_ms"]) == (7, 1001)
    assert found[1].workload_id is None


@pytest.fixture
def world_of_demo(tmp_path: Path) -> ServiceWorld:
    return ServiceWorld(tmp_path)
