"""Which nodes are slower than others like them, by the step times of jobs that ran on several.

Only what is the same is compared: the same files, command, variables and environment, on as many whole
GPUs of the same kind under the same driver, on one node. So a job, or what was submitted again
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
from dataclasses import dataclass
from statistics import median

from gpucommons.gpu.devices.devices import WHOLE_MILLI_GPU
from gpucommons.scheduler.core.model.resources import Node, SlowNode
from gpucommons.scheduler.core.model.types import Attempt, Millis, NodeId, Spec, Workload

_DAY_MS = 86_400_000
#: Older runs are of another time.
COUNTED_MS = 14 * _DAY_MS
#: A node is avoided for so long after the last run there of a job that is slow there: then it is tried again.
AVOIDED_MS = 7 * _DAY_MS
#: Fewer runs of a job on a node, or on all others, say nothing.
LEAST_RUNS = 5
#: Runs differ by a tenth anyway.
SLOW_PERCENT = 15
#: Steps told for less time, or fewer of them, are of a start.
_LEAST_MS, _LEAST_STEPS = 60_000, 20


@dataclass(frozen=True, kw_only=True, slots=True)
class StepTime:
    """What one attempt told of its steps."""

    #: The same where the same work ran.
    signature: str
    node_id: NodeId
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
        found = {one.node_id for one in attempt.placements}
        node = nodes.get(next(iter(found))) if len(found) == 1 else None
        step_s = _step_s(attempt)
        # What a node ran with another driver than it has now says nothing of it any more.
        if node is None or step_s is None or attempt.drivers != (node.driver,):
            continue
        held = {device_id for one in attempt.placements for device_id in one.device_ids}
        kinds = {d.kind for d in node.all_devices if d.device_id in held and not d.simulated}
        whole = all(one.milli_gpu == WHOLE_MILLI_GPU for one in attempt.placements)
        if len(kinds) == 1 and whole and held:
            yield StepTime(
                signature=_signature(workload.spec, attempt, (*kinds, node.driver, *counted)),
                node_id=node.node_id,
                step_s=step_s,
                at_ms=attempt.ended_ms or workload.since_ms,
            )


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
    times: Iterable[StepTime], nodes: Mapping[NodeId, Node], now_ms: Millis
) -> dict[NodeId, SlowNode]:
    """Nodes whose steps take longer than the same steps elsewhere, as of now."""
    alike: defaultdict[str, list[StepTime]] = defaultdict(list)
    for one in times:
        if now_ms - COUNTED_MS < one.at_ms <= now_ms and one.step_s > 0:
            alike[one.signature].append(one)
    longer: defaultdict[NodeId, list[tuple[float, list[StepTime]]]] = defaultdict(list)
    for runs in alike.values():
        for node_id in {one.node_id for one in runs}:
            here = [one for one in runs if one.node_id == node_id]
            ratio = _ratio(here, [one for one in runs if one.node_id != node_id])
            if ratio is not None:
                longer[node_id].append((ratio, here))
    found = {
        node_id: _slow(nodes[node_id], told, now_ms)
        for node_id, told in longer.items()
        if node_id in nodes
    }
    return {node_id: slow for node_id, slow in sorted(found.items()) if slow is not None}


def _ratio(here: Sequence[StepTime], elsewhere: Sequence[StepTime]) -> float | None:
    """How many times longer steps take; None where too few ran. Each other node has one voice."""
    if min(len(here), len(elsewhere)) < LEAST_RUNS:
        return None
    others: defaultdict[NodeId, list[float]] = defaultdict(list)
    for one in elsewhere:
        others[one.node_id].append(one.step_s)
    return median(one.step_s for one in here) / median(map(median, others.values()))


def _percent(ratio: float) -> int:
    return round(100 * (ratio - 1))


def _slow(
    node: Node, told: Sequence[tuple[float, Sequence[StepTime]]], now_ms: Millis
) -> SlowNode | None:
    percent = _percent(median(ratio for ratio, _ in told))
    if percent < SLOW_PERCENT:
        return None
    # Jobs that are as fast there as elsewhere keep no node avoided: it is tried again all the same.
    slower = [one for ratio, here in told if _percent(ratio) >= SLOW_PERCENT for one in here]
    until_ms = Millis(max(one.at_ms for one in slower) + AVOIDED_MS)
    if until_ms <= now_ms:
        return None
    return SlowNode(
        percent=percent,
        runs=sum(len(here) for _, here in told),
        jobs=len(told),
        since_ms=now_ms if node.slow is None else node.slow.since_ms,
        until_ms=until_ms,
    )
