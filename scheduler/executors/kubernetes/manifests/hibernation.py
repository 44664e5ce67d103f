"""A job's pod that saves its processes before it ends, and wakes what was saved: pure.

Its node gives it what that needs (``gpu.hibernation.containers``), and what stands above its command
does it (``in_pod.tree``). It counts as started when it is on record what became of a wake.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any

from gpucommons.gpu.hibernation.containers import PROFILE, RESOURCE
from gpucommons.scheduler.core.going_on.hibernating import hibernation_at_start, kept_image
from gpucommons.scheduler.core.model.going_on import MAX_IMAGE_BYTES
from gpucommons.scheduler.core.model.resources import Node, Pool
from gpucommons.scheduler.executors.base import Launch
from gpucommons.scheduler.executors.kubernetes.manifests.pod_files import NOTICE_FILE
from gpucommons.scheduler.executors.kubernetes.objects.names import PYTHON
from gpucommons.scheduler.in_pod.tree import BEGUN

Document = dict[str, Any]

#: So long a wake may take, looked at once a second.
_WAKE_S = 600
_HAS_BEGUN = (
    f"import os,sys;sys.exit(not os.path.exists({NOTICE_FILE.rpartition('/')[0]!r}+'/{BEGUN}'))"
)


@dataclass(frozen=True, kw_only=True, slots=True)
class TreePlan:
    """What a pod is told of its processes."""

    #: Of the attempt.
    number: int
    #: From SIGTERM to SIGKILL.
    grace_s: float
    #: Why they cannot be saved; empty = they can be.
    hindrance: str = ""
    cost_ms: int = 0
    #: Checksum of the description of the image that is to be woken; empty = of none.
    promised: str = ""
    #: Of all jobs of its user together.
    max_bytes: int = MAX_IMAGE_BYTES

    def written(self) -> str:
        """As the pod reads it."""
        return json.dumps(asdict(self), separators=(",", ":"))


def tree_plan(launch: Launch, pool: Pool, node: Node | None) -> TreePlan | None:
    """What is to be told to an attempt's pod; None where nobody has looked whether it can be saved."""
    known = hibernation_at_start(launch.workload, launch.attempt, pool, node)
    if known is None:
        return None
    kept = kept_image(launch.workload)
    return TreePlan(
        number=launch.attempt.number,
        grace_s=max(1.0, pool.grace_ms / 1000),
        hindrance=known.hindrance,
        cost_ms=known.cost_ms,
        promised="" if kept is None else kept[1].sha256,
    )


def allow(container: Document, plan: TreePlan | None) -> None:
    """Let a container save and wake its processes, where that is planned."""
    if plan is None:
        return
    if not plan.hindrance:
        container["resources"]["limits"][RESOURCE] = "1"
        profile = {"type": "Localhost", "localhostProfile": PROFILE}
        container["securityContext"]["seccompProfile"] = profile
    if plan.promised:
        container["startupProbe"] = {
            "exec": {"command": [PYTHON, "-I", "-S", "-c", _HAS_BEGUN]},
            "periodSeconds": 1,
            "timeoutSeconds": 5,
            "failureThreshold": _WAKE_S,
        }
