"""Which nodes, and pairs of nodes, are slower than others like them, by the step times of jobs that ran on several.

Only what is the same is compared: the same files, command, variables and environment, on as many whole
GPUs of the same kind under the same driver, on one node or spread alike over two. So a job, or what was submitted again
unchanged, is what tells nodes apart; trials of a sweep differ, and tell nothing. Each such job speaks
with one voice, the median of its runs there, and a node is as slow as the median of these voices: one
bad run makes no node slow, and a job that runs often counts no more than another. Where few jobs ran,
they decide; where one did, it does alone. What is told are the scripts' own reports of their steps: a
hint, and no measurement of the node.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median

from gpucommons.gpu.devices.devices import WHOLE_MILLI_GPU
from gpucommons.scheduler.core.model.resources import Node, SlowNode, SlowPair
from gpucommons.scheduler.core.model.types import Attempt, Millis, NodeId, Spec, Workload

_DAY_MS = 86_400_000
#: Runs so much older than the last one at a place are of another time.
COUNTED_MS = 14 * _DAY_MS
#: Unless set otherwise a place is avoided for so long after the last run there of a job that is slow there:
#: then it is tried again.
AVOIDED_MS = 7 * _DAY_MS
#: Fewer runs of a job on a node, or on all others, say nothing.
LEAST_RUNS = 5
#: Runs differ by a tenth anyway.
SLOW_PERCENT = 15
#: What is told apart: one node, or two that ran a job together.
Place = frozenset[NodeId]
_MOST_NODES = 2
#: Steps told for less time, or fewer of them, are of a start.
_LEAST_MS, _LEAST_STEPS = 60_000, 20


@dataclass(frozen=True, kw_only=True, slots=True)
class StepTime:
    """What one attempt told of its steps."""

    #: The same where the same work ran.
    signature: str
    place: Place
    step_s: float
    at_ms: Millis


def step_times(workload: Workload, nodes: Mapping[NodeId, Node]) -> Iterator[StepTime]:
    """How long a step took in each attempt that can be compared with others.

    Without a snapshot or environment it is not known which code ran: nothing can be compared.
    """
    progress = workload.progress
    if progress is None or (workload.spec.snapshot is None and not workload.spec.environment):
        return
    # A step of a progress bar is not a step of a log line: only steps of one origin are compared.
    counted = (progress.source, progress.unit)
    for attempt in workload.attempts:
        place = frozenset(one.node_id for one in attempt.placements)
        step_s = _step_s(attempt)
        if step_s is None or not place <= nodes.keys() or not 1 <= len(place) <= _MOST_NODES:
            continue
        held = _held(attempt, [nodes[one] for one in sorted(place)])
        if held:
            yield StepTime(
                signature=_signature(workload.spec, attempt, (*held, *counted)),
                place=place,
                step_s=step_s,
                at_ms=attempt.ended_ms or workload.since_ms,
            )


def _held(attempt: Attempt, nodes: Sequence[Node]) -> tuple[str, ...]:
    """Kind, driver and how the workers are spread; none where the GPUs cannot be compared with others.

    What a node ran with another driver than it has now says nothing of it any more.
    """
    drivers = {node.driver for node in nodes}
    if len(drivers) != 1 or set(attempt.drivers) != drivers:
        return ()
    ids = {device_id for one in attempt.placements for device_id in one.device_ids}
    devices = [d for node in nodes for d in node.all_devices if d.device_id in ids]
    kinds = {d.kind for d in devices if not d.simulated}
    whole = all(one.milli_gpu == WHOLE_MILLI_GPU for one in attempt.placements)
    if len(kinds) != 1 or not whole:
        return ()
    spread = sorted(
        sum(one.node_id == node.node_id for one in attempt.placements) for node in nodes
    )
    return (*kinds, *drivers, *map(str, spread[1:] and spread))


def _step_s(attempt: Attempt) -> float | None:
    pace = attempt.pace
    if pace is None:
        return None
    told_ms, steps = pace.at_ms - pace.from_ms, pace.step - pace.from_step
    return told_ms / 1000 / steps if told_ms >= _LEAST_MS and steps >= _LEAST_STEPS else None


def _signature(spec: Spec, attempt: Attempt, also: tuple[str, ...]) -> str:
    workers = sorted((one.role, len(one.device_ids)) for one in attempt.placements)
    commands = [(role.name, role.command) for role in spec.roles]
    said = (spec.team, spec.snapshot, spec.working_dir, commands, sorted(spec.env.items()))
    of = (*said, spec.environment, spec.launcher, workers, also)
    return hashlib.sha256(repr(of).encode()).hexdigest()


def slow_nodes(
    times: Iterable[StepTime],
    nodes: Mapping[NodeId, Node],
    now_ms: Millis,
    avoided_ms: int = AVOIDED_MS,
) -> dict[NodeId, SlowNode]:
    """Nodes whose steps take longer than the same steps elsewhere, as of now."""
    found = _slow_places((one for one in times if len(one.place) == 1), now_ms, avoided_ms)
    slow: dict[NodeId, SlowNode] = {}
    for place, told in found.items():
        (node_id,) = place
        if node_id in nodes:
            before = nodes[node_id].slow
            since_ms = now_ms if before is None else before.since_ms
            slow[node_id] = replace(told, since_ms=since_ms)
    return dict(sorted(slow.items()))


def slow_pairs(
    times: Iterable[StepTime],
    nodes: Mapping[NodeId, Node],
    now_ms: Millis,
    avoided_ms: int = AVOIDED_MS,
) -> dict[NodeId, tuple[SlowPair, ...]]:
    """Pairs of nodes on which steps take longer than the same steps on other pairs, at both of their nodes."""
    found = _slow_places((one for one in times if len(one.place) > 1), now_ms, avoided_ms)
    pairs: defaultdict[NodeId, list[SlowPair]] = defaultdict(list)
    for place, told in sorted(found.items(), key=lambda one: sorted(one[0])):
        if not place <= nodes.keys():
            continue
        first, second = sorted(place)
        known = [one.slow.since_ms for one in nodes[first].slow_pairs if one.other == second]
        slow = replace(told, since_ms=min([now_ms, *known]))
        pairs[first].append(SlowPair(other=second, slow=slow))
        pairs[second].append(SlowPair(other=first, slow=slow))
    return {node_id: tuple(told) for node_id, told in sorted(pairs.items())}


def _slow_places(
    times: Iterable[StepTime], now_ms: Millis, avoided_ms: int
) -> dict[Place, SlowNode]:
    """What jobs say of each place, as if that were first known now."""
    alike: defaultdict[str, list[StepTime]] = defaultdict(list)
    last_ms: dict[Place, Millis] = {}
    for one in times:
        if one.at_ms <= now_ms and one.step_s > 0:
            alike[one.signature].append(one)
            last_ms[one.place] = max(one.at_ms, last_ms.get(one.place, one.at_ms))
    longer: defaultdict[Place, list[tuple[float, list[StepTime]]]] = defaultdict(list)
    for runs in alike.values():
        for place in {one.place for one in runs}:
            # Back from the last run there: what is avoided gets no new ones, and was said to be for so long.
            counted = [one for one in runs if one.at_ms > last_ms[place] - COUNTED_MS]
            here = [one for one in counted if one.place == place]
            ratio = _ratio(here, [one for one in counted if one.place != place])
            if ratio is not None:
                longer[place].append((ratio, here))
    found = {place: _judged(told, now_ms, avoided_ms) for place, told in longer.items()}
    return {place: slow for place, slow in found.items() if slow is not None}


def _ratio(here: Sequence[StepTime], elsewhere: Sequence[StepTime]) -> float | None:
    """How many times longer steps take; None where too few ran. Each other place has one voice."""
    if min(len(here), len(elsewhere)) < LEAST_RUNS:
        return None
    others: defaultdict[Place, list[float]] = defaultdict(list)
    for one in elsewhere:
        others[one.place].append(one.step_s)
    return median(one.step_s for one in here) / median(map(median, others.values()))


def _percent(ratio: float) -> int:
    return round(100 * (ratio - 1))


def _judged(
    told: Sequence[tuple[float, Sequence[StepTime]]], now_ms: Millis, avoided_ms: int
) -> SlowNode | None:
    percent = _percent(median(ratio for ratio, _ in told))
    if percent < SLOW_PERCENT:
        return None
    # Jobs that are as fast there as elsewhere keep no place avoided: it is tried again all the same.
    slower = [one for ratio, here in told if _percent(ratio) >= SLOW_PERCENT for one in here]
    until_ms = Millis(max(one.at_ms for one in slower) + avoided_ms)
    if until_ms <= now_ms:
        return None
    runs = sum(len(here) for _, here in told)
    return SlowNode(percent=percent, runs=runs, jobs=len(told), since_ms=now_ms, until_ms=until_ms)
