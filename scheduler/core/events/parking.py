"""Parking: a notebook lives on while its GPU memory is on the host, and its GPU is others'.

``active → parking``: its server is asked, and holds the GPU. ``parking → parked``: the server said that
its memory is on the host, and then its node saw none of its processes there. ``parked → waiting →
active``: it waits in line as any notebook does, for the devices that it came from, and goes on with its
turn; nothing is started for that. Each step is derived from the state alone, and a report that comes
twice or late changes nothing.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from gpucommons.scheduler.core.cycle_state.cycle_state import CycleState
from gpucommons.scheduler.core.lending import lending_pause
from gpucommons.scheduler.core.model.intents import NoteParked, Park, Unpark
from gpucommons.scheduler.core.model.lifecycle import move, with_attempt
from gpucommons.scheduler.core.model.state_words import state_words
from gpucommons.scheduler.core.model.types import (
    Attempt,
    AttemptState,
    HoldClass,
    Idleness,
    NodeId,
    Parked,
    State,
    WorkerPlacement,
    Workload,
)
from gpucommons.scheduler.core.queue import reclaim_cooldown
from gpucommons.scheduler.errors import InvalidTransition

#: A server that has not parked by then is not waited for, nor a node that still sees its processes.
WITHIN_MS = 300_000

_RUNS = frozenset({State.ACTIVE, State.WARNED})


def park(cycle: CycleState, lease: Workload, action: Park, by: str) -> None:
    """Its server is asked to move its GPU memory to the host."""
    if lease.state in {State.PARKING, State.PARKED}:
        return
    attempt = lease.current
    if lease.state not in _RUNS or attempt is None or attempt.stop is not None:
        message = f"This notebook is {state_words(lease.state)}: only a running one is parked."
        raise InvalidTransition(message)
    lease = cycle.put(move(lease, State.PARKING, cycle.now_ms, parked=None))
    cycle.tell("parking", action.text or "Its GPU memory goes to the host.", lease, by=by)


def note_parked(cycle: CycleState, lease: Workload, action: NoteParked, _by: str) -> None:
    """Its server says that it is done, or why not."""
    attempt = lease.current
    if lease.state is not State.PARKING or attempt is None or lease.parked is not None:
        return
    if action.because:
        _stays(cycle, lease, action.because)
        return
    # Its server is its user's: what it says takes no more of the node than its GPUs can hold.
    rest = _rest(attempt, min(action.host_mib, _gpu_memory_mib(cycle, attempt.placements[0])))
    parked = Parked(place=attempt.placements[0], rest=rest, since_ms=cycle.now_ms)
    cycle.put(replace(lease, parked=parked))


def _gpu_memory_mib(cycle: CycleState, place: WorkerPlacement) -> int:
    node = cycle.nodes.get(place.node_id)
    devices = () if node is None else node.all_devices
    return sum(one.memory_mib for one in devices if one.device_id in place.device_ids)


def _rest(attempt: Attempt, host_mib: int) -> Attempt:
    """The server lives on: its processor and memory stay taken, and what it took for its GPU's."""
    place = attempt.placements[0]
    host = replace(
        place,
        device_ids=(),
        milli_gpu=0,
        offset=0,
        slice_id=None,
        extra_offset=0,
        extra_milli=0,
        memory_mib=place.memory_mib + host_mib,
    )
    return replace(
        attempt, state=AttemptState.ENDED, hold_class=HoldClass.FIXED, placements=(host,)
    )


def cleared(cycle: CycleState, lease: Workload) -> None:
    """Its node sees none of its processes on the devices: they are free."""
    attempt, parked = lease.current, lease.parked
    if lease.state is not State.PARKING or parked is None or attempt is None or attempt.stop:
        return  # it was taken back meanwhile, or its server ends
    ended = replace(
        attempt,
        state=AttemptState.ENDED,
        ended_ms=cycle.now_ms,
        ended_text="It was parked",
        parked=True,
    )
    lease = with_attempt(lease, ended)
    lending_pause.begin(cycle, lease, ended)
    lease = cycle.put(move(lease, State.PARKED, cycle.now_ms, idleness=None))
    text = "Its GPU memory is on the host, and its GPU is free."
    cycle.tell("parked", text, lease, attempt_id=attempt.attempt_id)


def unpark(cycle: CycleState, lease: Workload, action: Unpark, by: str) -> None:
    """It wants its GPU back, or waits no longer for it."""
    if not action.waits:
        leave_line(cycle, lease, by)
    elif lease.state is State.PARKING:
        attempt = lease.current
        if attempt is not None and attempt.stop is None:
            _goes_on(cycle, lease, "It is used again before its GPU was free.", by=by)
    elif lease.state is State.PARKED and lease.parked is not None:
        # In line from now on: while it was parked it waited for nothing.
        lease = move(lease, State.WAITING, cycle.now_ms, submitted_ms=cycle.now_ms, reason=None)
        cycle.put(lease)
        cycle.tell("submitted", "A parked notebook asks for its GPU.", lease, by=by)


def leave_line(cycle: CycleState, lease: Workload, by: str) -> None:
    """It waits no longer, and stays parked."""
    if lease.parked is None or lease.state is not State.WAITING:
        return
    lease = reclaim_cooldown.noted(cycle, lease)
    lease = move(lease, State.PARKED, cycle.now_ms, nomination=None, reason=None)
    cycle.put(lease)
    cycle.tell("left-line", "It stays parked, and waits no longer.", lease, by=by)


def given_up_ms(lease: Workload) -> int:
    """When nobody waits any longer for a server to park, or a node to see it; far away where it does not."""
    if lease.state is not State.PARKING or (lease.current and lease.current.stop):
        return 1 << 62
    since = lease.since_ms if lease.parked is None else lease.parked.since_ms
    return since + WITHIN_MS


def give_up(cycle: CycleState, lease: Workload) -> None:
    """Nothing came of it in time: it keeps its GPU, and the culler takes the next weaker way."""
    because = "its server did not park it in time"
    if lease.parked is not None:
        because = "something of it still holds the GPU"
    _stays(cycle, lease, because)


def _stays(cycle: CycleState, lease: Workload, because: str) -> None:
    idleness = replace(lease.idleness or Idleness(), not_parked=because)
    lease = replace(lease, idleness=idleness)
    _goes_on(cycle, lease, f"It was not parked: {because.rstrip('.')}.", kind="not-parked")


def _goes_on(
    cycle: CycleState, lease: Workload, text: str, *, kind: str = "unparked", by: str = "scheduler"
) -> None:
    lease = cycle.put(move(lease, State.ACTIVE, cycle.now_ms, parked=None))
    cycle.tell(kind, text, lease, by=by)


def end_on(cycle: CycleState, fenced: Collection[NodeId]) -> None:
    """An admin has stated that nothing runs on these nodes: what was parked there is gone."""
    for lease in cycle.among(cycle.index.parked):
        if lease.parked is None or lease.current is not None:
            continue
        node = lease.parked.place.node_id
        if node in fenced:
            text = f"Its node {node} was lost and fenced, and with it what was parked there"
            ended = cycle.put(move(lease, State.ENDED, cycle.now_ms, ended_text=text))
            cycle.tell("lease-ended", text, ended, data={"why": "lost"})
