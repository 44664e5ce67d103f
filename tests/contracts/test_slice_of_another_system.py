"""From the setting of a pool to the notebook's pod: who makes a slice is said once, by the admin."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
from builders import a_node
from cluster_objects import Discovery
from service_world import CONFIG, NODES, ServiceWorld, a_request, done

from gpucommons.gpu.providers.cluster.hami import REGISTERED
from gpucommons.scheduler import models
from gpucommons.scheduler.core.model.resources import Pool
from gpucommons.scheduler.core.model.state import Cluster
from gpucommons.scheduler.core.model.types import PoolName, State
from gpucommons.scheduler.errors import InvalidTransition, Misconfigured
from gpucommons.scheduler.executors.kubernetes.api_server.connection import Connection
from gpucommons.scheduler.executors.kubernetes.api_server.orders import Orders
from gpucommons.scheduler.executors.kubernetes.cluster_state.cluster_view import ClusterView, Hears
from gpucommons.scheduler.executors.kubernetes.cluster_state.offered_nodes import Offer, offer_of
from gpucommons.scheduler.executors.kubernetes.cluster_state.scheduler_callbacks import Around
from gpucommons.scheduler.executors.kubernetes.objects.observed_objects import NodeSeen
from gpucommons.scheduler.executors.kubernetes.settings import KubernetesSettings
from gpucommons.scheduler.on_idle import ON_IDLE
from gpucommons.scheduler.service import job_quote, leases, notebook_offers, why
from gpucommons.scheduler.service.in_memory.slices import Slices
from gpucommons.scheduler.service.jobs import jobs, profiles
from gpucommons.spawner.pods.slice_injection import SliceMakers, slice_injection

GPU = PoolName("gpu")
NODE = NodeSeen(
    name="n1",
    labels={"gpucommons.io/pool": "gpu"},
    ready=True,
    ready_changed_s=0,
    cordoned=False,
    allocatable={"nvidia.com/gpu": 4},
    cpu_milli=8000,
    memory_mib=16_000,
    registered=frozenset({REGISTERED}),
)


def an_offer(world: ServiceWorld, place: dict[str, Any], node: NodeSeen = NODE) -> Offer:
    """What an executor with these settings says of the world's pool."""
    settings = KubernetesSettings.model_validate({"pools": {GPU: place}})
    hears = Hears(
        changed=lambda _id: None, warned=lambda _id, _why: None, nodes_changed=lambda: None
    )
    api = cast("Connection", Discovery())
    view = ClusterView(api, settings, threading.RLock(), hears)
    view.nodes["n1"] = node
    around = Around(pool_of_node=lambda _node: world.cluster.pools[GPU])
    offer = offer_of(api, settings, around, view, cast("Orders", None))
    offer.open()
    return offer


def with_place(
    world: ServiceWorld,
    place: dict[str, Any],
    node: NodeSeen = NODE,
    on_idle: tuple[str, ...] = ON_IDLE,
) -> ServiceWorld:
    """The same world, whose pool ``gpu`` is set so."""
    offer = an_offer(world, place, node)

    def cluster() -> Cluster:
        pools = world.loop.cluster.pools
        return replace(
            world.loop.cluster, pools={**pools, GPU: replace(pools[GPU], on_idle=on_idle)}
        )

    def why_not(pool: PoolName, milli_gpu: int) -> str | None:
        known: Pool = world.cluster.pools[pool]
        return offer.why_not(known, milli_gpu)

    slices = Slices(
        world.agent,
        cluster=cluster,
        observe=world.loop.observe,
        bound_to=offer.bound_to,
    )
    world.service = replace(world.service, slices=slices, why_not=why_not)
    return world


@pytest.fixture
def world(tmp_path: Path) -> ServiceWorld:
    return ServiceWorld(tmp_path)


def acquired(world: ServiceWorld, milli_gpu: int = 500) -> models.LeaseView:
    request = models.LeaseRequest(user="ann", milli_gpu=milli_gpu)
    found: models.LeaseView = done(
        leases.acquire(world.service, world.hub_service, request, key=None)
    )
    return found


@pytest.mark.parametrize(
    ("place", "isolation"),
    [
        ({"provider": "kai"}, "none"),
        ({"provider": "hami"}, "cooperative"),
        ({"provider": "dra", "shared_memory": True}, "none"),
    ],
)
def test_the_pools_setting_reaches_the_notebooks_pod(
    world: ServiceWorld, place: dict[str, Any], isolation: str
) -> None:
    lease = acquired(with_place(world, place))
    assert lease.slice is not None
    assert (lease.slice.provider, lease.slice.isolation) == (place["provider"], isolation)
    assert (lease.slice.visible_devices, lease.slice.plugin_devices) == ([], 0)
    parts = slice_injection(lease, lease.slice, SliceMakers()).pod
    said = {
        "kai": parts.annotations.get("gpu-memory"),
        "hami": parts.limits.get("nvidia.com/gpumem"),
        "dra": parts.objects and parts.objects[0]["kind"],
    }[place["provider"]]
    assert said in ("19866", "ResourceClaim")
    # No agent is told of it: its folder would never come, and the pod would wait for ever.
    assert parts.volumes == ()
    assert world.agent.opened == {}


def test_a_whole_gpu_is_kept_apart_by_hardware_whoever_makes_it(world: ServiceWorld) -> None:
    lease = acquired(with_place(world, {"provider": "kai"}), 1000)
    assert lease.slice is not None
    assert lease.slice.isolation == "hardware"


def test_a_pool_of_ours_names_nobody_else(world: ServiceWorld) -> None:
    lease = acquired(with_place(world, {}), 1000)
    assert lease.slice is not None
    assert (lease.slice.provider, lease.slice.plugin_devices) == ("", 1)
    assert len(world.agent.opened) == 1


def test_kernels_are_saved_where_node_and_pool_allow_it(tmp_path: Path) -> None:
    saves = replace(NODE, allocatable={**NODE.allocatable, "gpucommons.io/hibernate": 512})
    for number, (node, on_idle, can) in enumerate(
        [(saves, ON_IDLE, True), (NODE, ON_IDLE, False), (saves, ("release", "cull"), False)]
    ):
        folder = tmp_path / str(number)
        folder.mkdir()
        lease = acquired(with_place(ServiceWorld(folder), {}, node, on_idle), 1000)
        assert lease.slice is not None
        assert lease.slice.can_hibernate == can


def test_an_agents_silence_about_such_a_slice_keeps_nobody_waiting(world: ServiceWorld) -> None:
    lease = acquired(with_place(world, {"provider": "kai"}))
    done(leases.started(world.service, world.hub_service, lease.id, models.StartedReport(pid=7)))
    world.service.slices.step()
    done(leases.end_lease(world.service, world.hub_service, lease.id, models.EndReport()))
    assert leases.lease(world.service, world.admin, lease.id).state == State.ENDED


def test_only_sizes_that_are_made_there_are_offered(world: ServiceWorld) -> None:
    def offered() -> list[int]:
        (offer,) = notebook_offers.offers(world.service, world.principal("ann"), None, "").offers
        return [size.milli_gpu for size in offer.sizes]

    assert offered() == [250, 500, 1000]
    with_place(world, {"provider": "dra"})
    assert offered() == [1000]


def test_a_pool_that_is_not_seen_promises_what_it_did(world: ServiceWorld) -> None:
    offer = an_offer(world, {"provider": "hami"})
    pool = replace(world.cluster.pools[GPU], isolation="kernel")
    assert offer.isolation_of(pool) == "cooperative"
    unseen = replace(pool, name=PoolName("another"))
    assert an_offer(world, {}).isolation_of(unseen) is None
    offer._view.nodes.clear()
    assert offer.isolation_of(pool) == "kernel"


def test_its_limit_is_not_ours_to_change(world: ServiceWorld) -> None:
    lease = acquired(with_place(world, {"provider": "hami"}))
    request = models.ResizeRequest(memory_mib=8000)
    with pytest.raises(InvalidTransition, match="start the notebook again with another size"):
        leases.resize(world.service, world.admin, lease.id, request)


def test_a_size_that_is_not_made_there_is_refused_before_it_is_stored(world: ServiceWorld) -> None:
    with_place(world, {"provider": "dra"})
    with pytest.raises(Misconfigured, match="Pool gpu gives whole GPUs only"):
        acquired(world)
    waiting = models.LeaseRequest(milli_gpu=500)
    ann = world.principal("ann")
    with pytest.raises(Misconfigured, match="Ask for whole GPUs"):
        leases.wait_in_line(world.service, ann, waiting, key=None)
    for asked in (
        a_request(role={"milli_gpu": 500}),
        a_request(role={"milli_gpu": 500}, pools=["gpu"]),
    ):
        with pytest.raises(Misconfigured, match="slices are made by dra"):
            jobs.submit(world.service, ann, asked, key=None)
    assert world.cluster.workloads == {}
    whole = jobs.submit(world.service, ann, a_request(role={"milli_gpu": 1000}), key=None)
    assert whole.state != "failed"


def test_a_job_that_names_no_pool_goes_where_its_size_is_made(tmp_path: Path) -> None:
    quota = {"guaranteed_milli_gpu": 1000}
    teams = [{"name": "vision", "members": ["ann"], "quotas": {"gpu": quota, "other": quota}}]
    pools = [*CONFIG["pools"], {"name": "other", "executor": "fake"}]
    nodes = (*NODES, a_node("o1", 4, pool="other"))
    made = ServiceWorld(tmp_path, config={"pools": pools, "teams": teams}, nodes=nodes)
    world = with_place(made, {"provider": "dra"})
    ann = world.principal("ann")
    job = jobs.submit(world.service, ann, a_request(role={"milli_gpu": 500}), key=None)
    assert job.request is not None
    assert job.request.pools == ["other"]
    named = a_request(role={"milli_gpu": 500}, pools=["gpu", "other"])
    with pytest.raises(Misconfigured, match="Pool gpu gives whole GPUs only"):
        jobs.submit(world.service, ann, named, key=None)


def test_memory_finds_the_smallest_size_that_is_made_there(world: ServiceWorld) -> None:
    with_place(world, {"provider": "dra"})
    ann = world.principal("ann")
    # Half a GPU would have it.
    notebook = models.LeaseRequest(user="ann", gpu_memory_mib=12 * 1024)
    held = done(leases.acquire(world.service, world.hub_service, notebook, key=None))
    job = jobs.submit(world.service, ann, a_request(role={"gpu_memory_mib": 12 * 1024}), key=None)

    assert (held.milli_gpu, job.milli_gpu) == (1000, 1000)


def test_why_proposes_no_size_that_is_not_made_there(world: ServiceWorld) -> None:
    with_place(world, {"provider": "dra"})
    ann = world.principal("ann")
    jobs.submit(world.service, ann, a_request(role={"milli_gpu": 1000}), key=None)
    world.pass_time(0)
    gang = a_request(role={"milli_gpu": 1000, "count": 4})
    waits = jobs.submit(world.service, ann, gang, key=None)
    world.pass_time(0)
    found = done(why.why_job(world.service, ann, waits.id))
    assert [way.text for way in found.ways] == ["Would start now with 3 workers."]
    assert found.reason is not None
    seen = jobs.job(world.service, ann, waits.id).reason
    assert seen is not None
    for told in (found.reason, seen):
        assert (told.unblock, told.startable_milli_gpu) == (None, None)


def test_a_quote_names_no_size_that_is_not_made_there(world: ServiceWorld) -> None:
    with_place(world, {"provider": "dra"})
    ann = world.principal("ann")
    jobs.submit(world.service, ann, a_request(role={"milli_gpu": 1000}), key=None)
    world.pass_time(0)
    gang = a_request(role={"milli_gpu": 1000, "count": 4})
    quoted = job_quote.quote_job(world.service, ann, gang)
    assert not quoted.starts_now
    assert "½" not in quoted.text
    assert quoted.reason is not None
    assert (quoted.reason.unblock, quoted.reason.startable_milli_gpu) == (None, None)


def test_a_ticket_reads_of_no_size_that_is_not_made_there(world: ServiceWorld) -> None:
    acquired(world)
    ada = world.principal("ada")
    asked = models.LeaseRequest(milli_gpu=1000)
    ticket = done(leases.wait_in_line(world.service, ada, asked, key=None))
    world.pass_time(0)

    def proposed() -> tuple[str | None, int | None]:
        told = leases.lease(world.service, ada, ticket.id).reason
        assert told is not None
        return told.unblock, told.startable_milli_gpu

    assert proposed() == ("Would start now with ½ GPU.", 500)
    with_place(world, {"provider": "dra"})
    assert proposed() == (None, None)


def test_another_size_for_memory_is_at_least_one_that_is_made_there(world: ServiceWorld) -> None:
    with_place(world, {"provider": "dra"})
    ann = world.principal("ann")
    jobs.submit(world.service, ann, a_request(role={"milli_gpu": 4000}), key=None)
    asked = a_request(role={"gpu_memory_mib": 12 * 1024, "milli_gpu": 2000})
    waits = jobs.submit(world.service, ann, asked, key=None)
    world.pass_time(0)
    with pytest.raises(Misconfigured, match="1 GPU is the smallest slice that has it"):
        jobs.resize(world.service, ann, waits.id, models.JobSize(milli_gpu=500))


def test_no_profile_is_published_whose_size_is_not_made_there(world: ServiceWorld) -> None:
    with_place(world, {"provider": "dra"})
    half = models.ProfileRequest.model_validate({"job": {"milli_gpu": 500}})
    with pytest.raises(Misconfigured, match="Pool gpu gives whole GPUs only"):
        profiles.put_profile(world.service, world.principal("ada"), "vision", "half", half)
    whole = models.ProfileRequest.model_validate({"job": {"milli_gpu": 1000}})
    made = profiles.put_profile(world.service, world.principal("ada"), "vision", "whole", whole)
    assert made.name == "whole"
