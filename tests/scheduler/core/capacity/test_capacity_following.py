"""A room that follows changes is the room that would be made anew, in whatever order they come."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations

from builders import World, a_job, a_node, a_team

from gpucommons.scheduler.core.capacity.capacity import Capacity
from gpucommons.scheduler.core.model.lifecycle import with_attempt
from gpucommons.scheduler.core.model.types import AttemptId, Workload, WorkloadId

NODE = a_node("n1", 1)


def _running(name: str, milli_gpu: int) -> Workload:
    world = World(NODE, teams=[a_team(guaranteed_milli_gpu=1000)])
    job = world.get(world.submit(a_job(name, milli_gpu)))
    assert job.current is not None
    attempt = replace(job.current, attempt_id=AttemptId(f"attempt-of-{name}"))
    return with_attempt(replace(job, workload_id=WorkloadId(name)), attempt)


def test_a_place_passes_on_whether_the_newcomer_or_the_leaver_is_looked_at_first() -> None:
    leaver, newcomer = _running("leaver", 1000), _running("newcomer", 250)
    for order in permutations([leaver.workload_id, newcomer.workload_id]):
        capacity = Capacity.of([NODE], [leaver], ())
        capacity.update({newcomer.workload_id: newcomer}, order, ())
        assert [device.held for device in capacity.nodes[NODE.node_id].devices.values()] == [
            (1 << 250) - 1
        ]
