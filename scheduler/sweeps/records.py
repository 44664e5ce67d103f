"""What is put on record of a sweep or a map: people read it later, and notifications are made of it."""

from __future__ import annotations

from gpucommons.scheduler.core.model.intents import NoteSchedule
from gpucommons.scheduler.sweeps.sweep import Sweep


def note(sweep: Sweep, change: str, why: str = "") -> NoteSchedule:
    """What people change: on record first, as all of that is; and bounded as all that they ask for."""
    text = f"{sweep.kind.value} {sweep.name} of {sweep.owner} was {change}{why}"
    return on_record(sweep, change.replace(" ", "-"), text)


def on_record(sweep: Sweep, change: str, text: str, *, failed: int = 0) -> NoteSchedule:
    """``ref`` is how its page is asked for."""
    data = {
        "owner": sweep.owner,
        "name": sweep.name,
        "ref": sweep.sweep_id,
        "failed": failed,
        "stopped": sweep.stopped,
    }
    return NoteSchedule(kind=f"{sweep.kind.value}-{change}", text=text, team=sweep.team, data=data)
