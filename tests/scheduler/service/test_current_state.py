"""Where a workload stands is said in words, whatever its state."""

from __future__ import annotations

from dataclasses import replace

from builders import World, a_job, a_node, a_team

from gpucommons.scheduler.core.model.types import State, WorkloadId
from gpucommons.scheduler.service.current_state import in_words


def said(world: World, workload_id: WorkloadId) -> str:
    return in_words(world.cluster.workloads[workload_id])


def test_why_speaks_of_waiting_running_stopping_and_ended_work() -> None:
    world = World(a_node(gpus=1), teams=[a_team(), a_team("nlp", guaranteed_milli_gpu=1000)])
    running = world.run(a_job("d-1"))
    assert said(world, running) == (
        "d-1 is running on n1 (borrowed). It borrows: the owners of these GPUs can take them back."
    )
    waiting = world.submit(a_job("d-2"))
    assert said(world, waiting) == "Needs 1 GPU; none is free."
    world.submit(a_job("bert", team="nlp"))
    assert said(world, running).endswith("It is being stopped for nlp (its guarantee).")
    ended = replace(world.get(waiting), state=State.CANCELLED, ended_text="by ann")
    assert in_words(ended) == "d-2 was cancelled: by ann."
    assert in_words(replace(ended, state=State.SUCCEEDED)) == "d-2 has finished."
