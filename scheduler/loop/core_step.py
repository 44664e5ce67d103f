"""One step of the core, and what to do when a request or a report breaks it.

A request that raised an error in the core is durable, so it would break every cycle to come, also
after a restart. It is found, left out and answered; everyone else goes on.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from gpucommons.scheduler.core.model.intents import Intent, Verdict
from gpucommons.scheduler.core.model.state import Cluster, Observation, Outcome
from gpucommons.scheduler.core.model.types import Millis
from gpucommons.scheduler.errors import SchedulerError
from gpucommons.scheduler.threads import garbage

_LOG = logging.getLogger(__name__)


class Advance(Protocol):
    """The core's one step: pure."""

    def __call__(
        self,
        cluster: Cluster,
        intents: Sequence[Intent],
        observations: Sequence[Observation],
        *,
        now_ms: Millis,
        new_ids: Iterator[str],
    ) -> Outcome:
        """Decide, without side effects."""
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class Step:
    """One step that is about to be taken."""

    advance: Advance
    cluster: Cluster
    now_ms: Millis
    new_ids: Iterator[str]

    def take(self, intents: Sequence[Intent], seen: Sequence[Observation]) -> Outcome:
        """Take the step with these."""
        with garbage.left_for_later():
            return self.advance(
                self.cluster, intents, seen, now_ms=self.now_ms, new_ids=self.new_ids
            )

    def take_what_is_sound(
        self,
        intents: Sequence[Intent],
        seen: Sequence[Observation],
        *,
        refused: Sequence[Verdict] = (),
    ) -> Outcome:
        """Take it without what breaks it; ``refused`` were answered before.

        Raises
        ------
        Exception
            Whatever the core raises where nothing that was asked or seen is to blame.
        """
        for verdict in refused:
            _LOG.error("Request %s is refused: %s", verdict.intent_id, verdict.text)
        try:
            return _answering(self.take(intents, seen), refused)
        except Exception:
            if not intents and not seen:
                raise
            _LOG.exception("The core failed; looking for the request or report that did it.")
        sound = [one for one in seen if not self._breaks((), (one,))]
        broken = [one for one in intents if self._breaks((one,), ())]
        outcome = self.take([one for one in intents if one not in broken], sound)
        return _answering(outcome, (*refused, *map(_apology, broken)))

    def _breaks(self, intents: Sequence[Intent], seen: Sequence[Observation]) -> bool:
        try:
            self.take(intents, seen)
        except Exception as error:  # noqa: BLE001 - whatever it is, it must not come again
            _LOG.error("Left out, because of %r: %s", error, (*intents, *seen))
            return True
        return False


def _answering(outcome: Outcome, more: Sequence[Verdict]) -> Outcome:
    verdicts = (*outcome.changes.verdicts, *more)
    return replace(outcome, changes=replace(outcome.changes, verdicts=verdicts))


def _apology(intent: Intent) -> Verdict:
    return Verdict(
        intent_id=intent.intent_id,
        error=SchedulerError().code,
        text="The scheduler failed on this request and left everything as it was; its log says why.",
    )
