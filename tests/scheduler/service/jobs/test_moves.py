"""A move through the whole scheduler in virtual time: decided, committed, stopped, begun elsewhere."""

from __future__ import annotations

from pathlib import Path

from builders import a_node
from service_world import PAUSES, ServiceWorld, a_request

from gpucommons.scheduler.core.model.types import AttemptState, Workload
from gpucommons.scheduler.service.jobs import jobs

CONFIG = {
    "pools": [{"name": "gpu", "executor": "fake", **PAUSES}],
    "teams": [{"name": "vision", "members": ["ann"], "leads": ["ann"], "quotas": {"gpu": {}}}],
}


def by_name(world: ServiceWorld) -> dict[str, Workload]:
    return {one.spec.name: one for one in world.cluster.workloads.values()}


def place_of(job: Workload) -> tuple[str, ...]:
    assert job.current is not None, job
    return job.current.placements[0].device_ids


def test_a_half_job_moves_for_a_whole_one_and_both_run(tmp_path: Path) -> None:
    world = ServiceWorld(tmp_path, config=CONFIG, nodes=[a_node("n1", 2, pool="gpu")])
    ann = world.principal("ann")
    for name in ("a", "b", "c", "d"):
        request = a_request(name=name, role={"milli_gpu": 500})
        jobs.submit(world.service, ann, request, key=None)
        world.pass_time(100)
    places = {name: place_of(job) for name, job in by_name(world).items()}
    first, second = (
        next(name for name in sorted(places) if places[name] == place)
        for place in sorted(set(places.values()))
    )
    for name in sorted(places.keys() - {first, second}):
        jobs.cancel(world.service, ann, by_name(world)[name].workload_id)
    world.pass_time(1000)
    whole = jobs.submit(
        world.service, ann, a_request(name="whole", role={"milli_gpu": 1000}), key=None
    )
    assert whole.reason is not None
    assert whole.reason.text == "Needs 1 GPU; 2 half-free GPUs, none whole."
    world.pass_time(60_000)
    moving = [n for n, job in by_name(world).items() if job.current and job.current.stop]
    assert len(moving) == 1
    (mover,) = moving
    reason = by_name(world)[whole.name].reason
    assert reason is not None
    assert reason.text == f"2 half-free GPUs, none whole; moving {mover} frees one."
    for _ in range(4):
        world.pass_time(5_000)
    after = by_name(world)
    stays = first if mover == second else second
    assert place_of(after[mover]) == place_of(after[stays]) == places[stays]
    assert place_of(after[whole.name]) == places[mover]
    assert all(
        job.current is not None and job.current.state is AttemptState.RUNNING
        for job in after.values()
    )
    kinds = [one.event.kind for one in world.store.events(limit=1000)]
    assert kinds.count("moved") == 1
    assert "evicted" not in kinds
