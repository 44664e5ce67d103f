"""What would happen if …: the real cycle run on the last committed cluster, and thrown away.

So a preview cannot disagree with the decision that follows it, but for what happens in between.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

from gpucommons.scheduler.core.advance import advance
from gpucommons.scheduler.core.model.intents import Action, Intent, Verdict
from gpucommons.scheduler.core.model.state import Cluster, Outcome
from gpucommons.scheduler.core.model.types import IntentId, Millis, UserName

_NOBODY = UserName("preview")


def what_if(
    cluster: Cluster, actions: Sequence[Action], now_ms: Millis
) -> tuple[Cluster, tuple[Verdict, ...]]:
    """The cluster after these actions in one cycle, and what became of each, in order."""
    outcome, verdicts = _played(cluster, actions, now_ms)
    return outcome.cluster, verdicts


def told_if(cluster: Cluster, action: Action, now_ms: Millis) -> tuple[tuple[str, ...], Verdict]:
    """What the audit would say of this action, and what became of it."""
    outcome, (verdict,) = _played(cluster, [action], now_ms)
    events = outcome.changes.events
    return tuple(event.text for event in events if event.by == _NOBODY), verdict


def _played(
    cluster: Cluster, actions: Sequence[Action], now_ms: Millis
) -> tuple[Outcome, tuple[Verdict, ...]]:
    intents = [
        Intent(intent_id=IntentId(f"preview-{n}"), action=action, by=_NOBODY, at_ms=now_ms)
        for n, action in enumerate(actions)
    ]
    outcome = advance(cluster.apart(), intents, (), now_ms=now_ms, new_ids=_ids())
    by_id = {verdict.intent_id: verdict for verdict in outcome.changes.verdicts}
    return outcome, tuple(by_id[intent.intent_id] for intent in intents)


def _ids() -> Iterator[str]:
    return (f"00000000-0000-7000-8000-{n:012x}" for n in itertools.count())
