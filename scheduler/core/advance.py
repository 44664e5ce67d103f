"""One step of the scheduler as a pure function: cluster, intents, observations, time → outcome."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from gpucommons.scheduler.core import deadlines
from gpucommons.scheduler.core.cycle import decide
from gpucommons.scheduler.core.cycle_state.cycle_state import CycleState
from gpucommons.scheduler.core.cycle_state.outcome import finish
from gpucommons.scheduler.core.events import applied_intents, due_actions
from gpucommons.scheduler.core.events import observations as observed
from gpucommons.scheduler.core.eviction.policies import may_be_stopped
from gpucommons.scheduler.core.model.intents import Intent, Submit, Verdict
from gpucommons.scheduler.core.model.lifecycle import is_final
from gpucommons.scheduler.core.model.state import (
    AttemptSignalled,
    AttemptStarted,
    Cluster,
    Observation,
    Outcome,
    ProgressReported,
)
from gpucommons.scheduler.core.model.types import (
    AttemptState,
    IntentId,
    Millis,
    State,
    Workload,
    WorkloadId,
)
from gpucommons.scheduler.errors import NoFreeSlice

#: Reports after which nothing is free that was not, and nobody asks for more than before.
_QUIET = (AttemptStarted, AttemptSignalled, ProgressReported)


def advance(  # noqa: PLR0913 - one step is these things and no fewer
    cluster: Cluster,
    intents: Sequence[Intent],
    observations: Sequence[Observation],
    *,
    now_ms: Millis,
    new_ids: Iterator[str],
    explain: bool = True,
) -> Outcome:
    """Apply what was seen and asked, decide, and say what to write and to do.

    The same arguments give the same outcome. Nothing new and no deadline passed: nothing to write.
    Where all that came is that something runs, and no deadline passed, nothing is decided.
    Without ``explain`` reasons and places in line stay as they were; the decisions are the same.
    """
    refused: dict[IntentId, str] = {}
    cycle = CycleState.of(cluster, now_ms, new_ids)
    while True:
        for observation in observations:
            observed.observe(cycle, observation)
        for intent in intents:
            if intent.intent_id not in refused:
                applied_intents.apply(cycle, intent)
        if observations and not intents and cycle.settled and _are_quiet(cycle, observations):
            cycle.count_uses()
        else:
            decide(cycle, explain=explain)
        unmet = _unmet(cycle, intents)
        if not unmet:
            break
        # A start that got no slice must leave no trace, not even of what it would have replaced:
        # the step is decided again without it.
        refused.update(unmet)
        cycle = cycle.again()
    cycle.told.verdicts.extend(
        Verdict(intent_id=intent_id, error=NoFreeSlice().code, text=text)
        for intent_id, text in refused.items()
    )
    wake = deadlines.next_deadline(cycle)
    after, changes = finish(cycle, wake)
    return Outcome(
        cluster=after,
        changes=changes,
        actions=due_actions.due(cycle.among(cycle.index.acting), cycle.now_ms),
        wake_ms=wake,
    )


def _are_quiet(cycle: CycleState, observations: Sequence[Observation]) -> bool:
    return all(isinstance(one, _QUIET) and not _is_awaited(cycle, one) for one in observations)


def _is_awaited(cycle: CycleState, observation: Observation) -> bool:
    """A job that may be stopped, or grow, as soon as it runs: somebody may have waited for that."""
    if not isinstance(observation, AttemptStarted):
        return False
    workload = cycle.holder_of(observation.attempt_id)
    return workload is not None and (
        may_be_stopped(cycle, workload) or workload.workload_id in cycle.index.growable
    )


def _unmet(cycle: CycleState, intents: Sequence[Intent]) -> dict[IntentId, str]:
    """Starts that were to have a slice in this cycle and have none, with the reason."""
    unmet: dict[IntentId, str] = {}
    answers = {verdict.intent_id: verdict for verdict in cycle.told.verdicts}
    for intent in intents:
        verdict = answers.get(intent.intent_id)
        if not isinstance(intent.action, Submit) or not intent.action.redeem or verdict is None:
            continue
        if verdict.workload_id is None:
            continue
        workload = cycle.workloads[verdict.workload_id]
        attempt = workload.current
        redeemed = attempt is not None and attempt.state is not AttemptState.RESERVED
        if is_final(workload) or workload.state is State.WAITING or not redeemed:
            reason = workload.reason
            text = "No slice is free right now." if reason is None else reason.text
            hint = (
                " Wait in line, take a smaller size, or start without a GPU."
                if reason is None or reason.unblock is None
                else f" {reason.unblock}"
            )
            unmet[intent.intent_id] = text + hint
    return unmet


def recalled(
    cluster: Cluster, intents: Sequence[Intent], find: Callable[[WorkloadId], Workload | None]
) -> Cluster:
    """The cluster, and what new jobs run after that it knows no more; what nobody finds stays out.

    A request is promised when it is durable, and decided a moment later. What it names may end in
    between, or have ended long before; with it the cluster is what it would be had it ended afterwards.
    """
    submits = [one.action for one in intents if isinstance(one.action, Submit)]
    named = {before for submit in submits for before in submit.spec.after}
    missing = named - cluster.workloads.keys() - {submit.workload_id for submit in submits}
    found = {workload_id: find(workload_id) for workload_id in sorted(missing)}
    over = {workload_id: one for workload_id, one in found.items() if one is not None}
    return replace(cluster, workloads={**cluster.workloads, **over}) if over else cluster
