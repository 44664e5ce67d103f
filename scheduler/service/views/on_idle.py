"""What becomes of a notebook that is idle for too long, in sentences for all screens. Pure.

Only what is known is promised: what a server keeps of its kernels, it has said itself, and which of them
can be saved shows when that is tried.
"""

from __future__ import annotations

from gpucommons.scheduler import models

#: While it is being parked, too: its page says so there.
_CAN_PARK = ("active", "warned", "parking")
_PARKED = (
    "Its kernels live on and others have its GPU; its next cell waits in line for it, and goes on."
)
_KEPT = {
    "kernels": "Kernels that can be saved are kept and go on {then}.",
    "variables": "Variables that can be stored are kept; all else of its kernels is lost.",
    "nothing": "Nothing of its kernels is kept.",
    "": "Its server has not said yet what it keeps of its kernels.",
}


def with_keeps(lease: models.LeaseView, keeps: str, *, parks: bool) -> models.LeaseView:
    """The same view with what its server says of itself: what it keeps, and whether it can be parked."""
    idle = lease.idle
    if idle is None or not (keeps or parks):
        return lease
    can_park = parks and not idle.not_parked
    told: dict[str, object] = {
        "parks": can_park and idle.on_idle == "park",
        "can_park": parks and lease.state in _CAN_PARK and "park" in idle.on_idle_allowed,
    }
    if keeps:
        told["keeps"] = keeps
    if keeps or can_park:
        told["on_idle_text"] = on_idle_text(idle.on_idle, keeps, parks=can_park)
    return lease.model_copy(update={"idle": idle.model_copy(update=told)})


def on_idle_text(on_idle: str, keeps: str, *, parks: bool) -> str:
    """What will happen, what is kept and what is lost.

    ``on_idle`` is one of ``ON_IDLE``; ``keeps`` what the server says that it keeps when it
    stops: ``kernels``, ``variables``, ``nothing``, or empty where it has not said anything yet.
    """
    if on_idle == "park" and parks:
        return _PARKED
    if on_idle == "cull":
        return f"Its server is stopped. {_KEPT['nothing']}"
    kept = _KEPT.get(keeps, _KEPT[""])
    if on_idle == "release":
        return f"Its server restarts without its GPU. {kept.format(then='there')}"
    return f"Its server is stopped. {kept.format(then='when it is started again')}"
