"""How a job goes on when it is stopped, and whether that was seen, on the wire."""

from __future__ import annotations

from typing import Literal

from gpucommons.scheduler import models
from gpucommons.scheduler.core.going_on import badges, drill_verdict, words
from gpucommons.scheduler.core.going_on.image_places import hindered_since, most_mib_saved_of
from gpucommons.scheduler.core.going_on.ways import way_to_go_on
from gpucommons.scheduler.core.going_on.words import spent
from gpucommons.scheduler.core.model.eviction_cause import StopCause, stop_cause
from gpucommons.scheduler.core.model.going_on import OFF, ON, Drill
from gpucommons.scheduler.core.model.lifecycle import is_final, is_lease
from gpucommons.scheduler.core.model.resources import policies_of
from gpucommons.scheduler.core.model.state import Cluster
from gpucommons.scheduler.core.model.types import HoldClass, Spec, State, Workload


def way_view(workload: Workload, cluster: Cluster, now_ms: int) -> models.WayToGoOnView | None:
    """What becomes of its work when it is stopped; None of what ends, or is being ended, for good."""
    is_ending = workload.state is State.CANCELLING or (
        stop_cause(workload.current) == StopCause.MAX_RUN
    )
    if is_ending or is_final(workload) or is_lease(workload):
        return None
    places = cluster.pools, cluster.nodes
    way = way_to_go_on(
        workload, hindered_since(workload, *places), most_mib_saved_of(workload, *places)
    )
    if way is None:
        return None
    return models.WayToGoOnView(
        way=way.way.value,
        text=words.goes_on(way),
        step=way.step,
        stop_text=words.before_a_pause(way, now_ms),
        repeats_ms=None if way.since_ms is None else max(0, now_ms - way.since_ms),
        began_anew=way.began_anew,
        began_anew_text=words.began_anew(way),
        in_reason=workload.reason is not None and words.is_told(workload.reason.text, way),
    )


def drill_view(workload: Workload) -> models.DrillView | None:
    """What its last stop has shown, or the one that it is in is to show."""
    drill = workload.drill
    if stop_cause(workload.current) == StopCause.DRILL:
        return models.DrillView(
            state="testing", text="Testing that this job can be stopped.", on_purpose=True
        )
    if drill is None:
        return None
    return models.DrillView(
        state=_state(drill),
        text=drill_verdict.told(drill, runs=workload.state is State.RUNNING),
        on_purpose=drill.on_purpose,
        step=drill.step,
        unit=drill.unit,
        went_on_step=drill.went_on_step,
        took_ms=drill.took_ms,
    )


def _state(drill: Drill) -> Literal["testing", "passed", "failed", "untold"]:
    if drill.failed:
        return "failed"
    if drill.untold:
        return "untold"
    return "passed" if drill.passed else "testing"


def drill_text(spec: Spec, hold_class: str, cluster: Cluster) -> str:
    """What is known of such a job before it begins; empty where nothing is, and nothing will be done."""
    key = badges.badge_key(spec)
    badge = None if key is None else cluster.badges.get(key)
    if badge is not None:
        return f"Safe to borrow: {badge.job}, of the same code, was stopped and went on ({spent(badge.took_ms)})."
    pools = [cluster.pools[name] for name in spec.pools if name in cluster.pools]
    tested = hold_class == HoldClass.OVER_QUOTA and any(pool.drills == ON for pool in pools)
    if not tested or any(
        one.drills == OFF for one in policies_of(spec.team, cluster.teams, cluster.policy)
    ):
        return ""
    return "It is stopped once after its first save, while nobody waits, to see that it goes on."
