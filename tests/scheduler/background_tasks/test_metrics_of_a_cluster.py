"""How much the scheduler asks of a cluster's API server can be scraped."""

from __future__ import annotations

from dataclasses import dataclass, field

from prometheus_client import generate_latest

from gpucommons.scheduler.background_tasks.metrics import Metrics
from gpucommons.scheduler.core.model.state import Cluster
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
