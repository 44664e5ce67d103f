"""What ails a cluster reaches the admins' log once, whoever leads and however often it is seen."""

from __future__ import annotations

from pathlib import Path

from service_world import ServiceWorld, a_request

from gpucommons.scheduler.cluster.cluster_troubles import REFUSED, TROUBLE, ClusterTroubles
from gpucommons.scheduler.core.model.types import WorkloadId
from gpucommons.scheduler.pages.present.evictions import BY_AGENTS
from gpucommons.scheduler.service.jobs import jobs


def test_a_trouble_is_said_once_however_often_it_is_seen_and_by_whom(tmp_path: Path) -> None:
    world = ServiceWorld(tmp_path)
    found = {"n1/gpu-0": "The reservation of n1/gpu-0 was made anew."}
    troubles = ClusterTroubles(world.service, lambda: found)
    troubles.step()
    troubles.step()
    # Another replica leads, and sees the same.
    ClusterTroubles(world.service, lambda: found).step()
    found["n1/hub/jupyter-ann"] = "The pod jupyter-ann outlived its lease."
    troubles.step()
    world.pass_time(1000)
    events = [one.event for one in world.store.events(kinds={TROUBLE})]
    assert [(event.by, event.data["about"], event.text) for event in events] == [
        ("scheduler", about, text) for about, text in found.items()
    ]


def test_a_trouble_that_comes_back_is_said_again(tmp_path: Path) -> None:
    world = ServiceWorld(tmp_path)
    found: dict[str, str] = {}
    troubles = ClusterTroubles(world.service, lambda: found)
    for _ in range(2):
        troubles.step()
        found["n1"] = "A right is missing."
        troubles.step()
        world.pass_time(60_000)
        found.clear()
    assert len(world.store.events(kinds={TROUBLE})) == 2


def test_what_is_refused_for_a_job_is_in_its_own_history_and_not_said_again(tmp_path: Path) -> None:
    world = ServiceWorld(tmp_path)
    view = jobs.submit(world.service, world.principal("ann"), a_request(), key=None)
    job = WorkloadId(view.id)
    refusals = {job: "It cannot be ended."}
    troubles = ClusterTroubles(world.service, dict, lambda: refusals)
    for _ in range(3):
        troubles.step()
    world.pass_time(1000)
    events = [one.event for one in world.store.events(kinds={REFUSED})]
    assert [(event.workload_id, event.text) for event in events] == [(job, "It cannot be ended.")]


def test_admins_see_it_on_their_page() -> None:
    assert TROUBLE in BY_AGENTS
