"""What the executor of a cluster would have people know, brought into the event log.

A slot that is lost for now, a notebook's pod that nobody ends, a right that is missing: each is said to
admins once when it begins, and by the log of every replica that leads. What is refused for a job is
also said in the job's own history.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Mapping

from gpucommons.scheduler.background_tasks.housekeeping import OPERATOR
from gpucommons.scheduler.core.model.intents import NoteAgent
from gpucommons.scheduler.core.model.types import WorkloadId
from gpucommons.scheduler.service.service import Service

log = logging.getLogger("gpucommons.scheduler.cluster.cluster_troubles")


_DAY_MS = 24 * 3600 * 1000
#: Kind of the events.
TROUBLE = "trouble"
#: Of those in a job's own history.
REFUSED = "refused-by-cluster"


class ClusterTroubles:
    """One pass after the other, from the thread of the housekeeping."""

    def __init__(
        self,
        service: Service,
        troubles: Callable[[], Mapping[str, str]],
        refusals: Callable[[], Mapping[WorkloadId, str]] = dict,
    ) -> None:
        """``troubles`` are sentences by what they are about, ``refusals`` by job."""
        self._service = service
        self._troubles = troubles
        self._refusals = refusals
        #: What was seen before the first pass may have been said by another replica today.
        self._seen_before = True
        self._said: dict[str, str] = {}
        self._said_of_jobs: dict[WorkloadId, str] = {}

    def step(self) -> None:
        """One pass."""
        self._of_the_cluster()
        self._of_jobs()
        self._seen_before = False

    def _of_jobs(self) -> None:
        found = self._refusals()
        for workload_id, text in found.items():
            if self._said_of_jobs.get(workload_id) != text:
                self._note(workload_id, text, kind=REFUSED, workload_id=workload_id)
        self._said_of_jobs = dict(found)

    def _of_the_cluster(self) -> None:
        found = self._troubles()
        for about, text in found.items():
            if self._said.get(about) != text:
                log.warning("%s", text)
                self._note(about, text)
        self._said = dict(found)

    def _note(
        self, about: str, text: str, *, kind: str = TROUBLE, workload_id: WorkloadId | None = None
    ) -> None:
        now_ms = self._service.loop.cluster.now_ms
        action = NoteAgent(
            node="",
            at_ms=now_ms,
            kind=kind,
            text=text,
            workload_id=workload_id,
            data={"about": about},
        )
        # Replicas that lead one after the other say the same of the same, once a day; what has
        # begun under the eyes of this one is said whenever it begins.
        began_ms = now_ms - now_ms % _DAY_MS if self._seen_before else now_ms
        key = hashlib.sha256(f"{began_ms} {about} {text}".encode()).hexdigest()[:32]
        self._service.ask(OPERATOR, action, key=f"trouble-{key}")
