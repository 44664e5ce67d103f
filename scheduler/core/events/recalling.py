"""What a new job runs after may be over by now: the cluster has forgotten it, who keeps all has not.

A request is promised when it is durable, and decided a moment later. What it names may end in
between, or have ended long before; with it the cluster is what it would be had it ended afterwards.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from gpucommons.scheduler.core.model.state import Cluster, Intent, Submit
from gpucommons.scheduler.core.model.types import Workload, WorkloadId

Find = Callable[[WorkloadId], Workload | None]


def recalled(cluster: Cluster, intents: Sequence[Intent], find: Find) -> Cluster:
    """The cluster, and what new jobs run after that it knows no more; what nobody finds stays out."""
    submits = [one.action for one in intents if isinstance(one.action, Submit)]
    named = {before for submit in submits for before in submit.spec.after}
    missing = named - cluster.workloads.keys() - {submit.workload_id for submit in submits}
    found = {workload_id: find(workload_id) for workload_id in sorted(missing)}
    over = {workload_id: one for workload_id, one in found.items() if one is not None}
    return replace(cluster, workloads={**cluster.workloads, **over}) if over else cluster
