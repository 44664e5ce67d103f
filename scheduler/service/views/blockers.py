"""What alone keeps somebody waiting, in words for who reads it, with what they can do."""

from __future__ import annotations

from collections.abc import Sequence

from gpucommons.gpu.slices.slices import format_gpus
from gpucommons.scheduler import models
from gpucommons.scheduler.core.explain.blockers import BlockerKind
from gpucommons.scheduler.core.model.demand import milli_gpu, must_have
from gpucommons.scheduler.core.model.state import Cluster
from gpucommons.scheduler.core.model.types import Workload
from gpucommons.scheduler.core.whatif.counterfactuals import Counterfactual
from gpucommons.scheduler.principal import Principal
from gpucommons.scheduler.service.views.visible_names import shows_names

_ACTIONS = {
    BlockerKind.IDLE_NOTEBOOK: "release",
    BlockerKind.TICKET: "leave",
    BlockerKind.JOB: "pause",
}
#: Notebooks are checked each minute: one that works again may still count as idle.
_WORDS = {
    BlockerKind.IDLE_NOTEBOOK: "own notebook{name}, idle when last checked, holds {held}",
    BlockerKind.TICKET: "own notebook{name}, which has not started, is granted {held}",
    BlockerKind.JOB: "own job {job} of lower priority holds {held}",
}
#: What to do about it stands beside, as a button or command.
_WITHOUT = "without that this would start now."


def blocker_view(
    waiting: Workload, ways: Sequence[Counterfactual], principal: Principal, cluster: Cluster
) -> models.BlockerView | None:
    """The blocker that a trial cycle found, while it is still there."""
    found = next((way.blocker for way in ways if way.blocker is not None), None)
    holder = None if found is None else cluster.workloads.get(found.holder)
    if found is None or holder is None or holder.current is None:
        return None
    held = format_gpus(milli_gpu(must_have(holder.spec)))
    mine = principal.name == waiting.spec.owner
    if found.kind is BlockerKind.TEAM_NOTEBOOK:
        whose = (
            f"{holder.spec.owner}'s" if shows_names(principal, holder, cluster) else "A team-mate's"
        )
        text = (
            f"{whose} notebook, idle when last checked, holds {held}:"
            f" {_WITHOUT} Ask whether it is still needed."
        )
        return models.BlockerView(kind=found.kind, text=text, id=holder.workload_id)
    name = f" “{holder.spec.server_name}”" if holder.spec.server_name else ""
    words = _WORDS[found.kind].format(name=name, held=held, job=holder.spec.name)
    return models.BlockerView(
        kind=found.kind,
        text=f"{'Your' if mine else f'{waiting.spec.owner}’s'} {words}: {_WITHOUT}",
        action=_ACTIONS[found.kind] if mine else None,
        id=holder.workload_id,
        command=_command(found.kind, holder) if mine else "",
    )


def _command(kind: BlockerKind, holder: Workload) -> str:
    if kind is BlockerKind.JOB:
        return f"gpucommons pause {holder.spec.name}"
    return f"gpucommons release {holder.workload_id}"
