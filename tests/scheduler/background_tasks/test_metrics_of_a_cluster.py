"""How much the scheduler asks of a cluster's API server can be scraped."""

from __future__ import annotations

from dataclasses import dataclass, field

from builders import World, a_node, a_notebook, a_team
from prometheus_client import generate_latest

from gpucommons.scheduler.background_tasks.metrics import Metrics
from gpucommons.scheduler.core.model.intents import NoteParked, Park, Started, Unpark
from gpucommons.scheduler.core.model.state import Cluster, SliceCleared
from gpucommons.scheduler.threads.pulse import Pulse


@dataclass
class Loop:
    cluster: Cluster
    pulse: Pulse = field(default_factory=lambda: Pulse(lambda: 0.0))


def test_requests_are_counted_by_verb_and_resource() -> None:
    made = {("post", "jobs"): 3, ("patch", "pods"): 5}
    text = generate_latest(Metrics(Loop(Cluster()), cluster_requests=lambda: made).registry)
    assert b'gpucommons_kubernetes_requests_total{resource="jobs",verb="post"} 3.0' in text
    assert b'gpucommons_kubernetes_requests_total{resource="pods",verb="patch"} 5.0' in text


def test_a_scheduler_of_one_machine_has_no_such_counter() -> None:
    assert b"kubernetes" not in generate_latest(Metrics(Loop(Cluster())).registry)


def test_parked_notebooks_are_what_they_held_until_they_have_it_again() -> None:
    world = World(a_node("n1", 1), teams=(a_team(fixed_milli_gpu=1000),))
    lease = world.submit(a_notebook("ann", 1000), redeem=True)
    world.ask(Started(workload_id=lease), "hub")

    def parked() -> bytes:
        text = generate_latest(Metrics(Loop(world.cluster)).registry)
        lines = [one for one in text.splitlines() if b"gpucommons_parked_milli_gpu{" in one]
        return b"".join(lines)

    assert parked() == b""
    world.ask(Park(workload_id=lease))
    assert parked() == b""  # its node has not seen it gone
    world.ask(NoteParked(workload_id=lease, host_mib=2048))
    world.step(SliceCleared(attempt_id=world.attempt_id(lease)))
    assert parked().endswith(b" 1000.0")
    world.ask(Unpark(workload_id=lease))
    assert parked() == b""
