"""Questions about jobs that nobody submitted: a few a round, owners in turn, none that nobody waits for."""

from __future__ import annotations

from typing import Any

import pytest
from builders import a_job

from gpucommons.scheduler.core.model.state import Cluster
from gpucommons.scheduler.core.model.types import (
    Millis,
    State,
    UserName,
    Workload,
    WorkloadId,
)
from gpucommons.scheduler.forecast import hypothetical_jobs
from gpucommons.scheduler.forecast.forecast import Forecast
from gpucommons.scheduler.forecast.hypothetical_jobs import Supposed

SAID = Forecast(made_ms=Millis(0))


@pytest.fixture
def played(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Whose questions were played, in order."""
    found: list[str] = []

    def said(_cluster: Cluster, job: Any, _playing: Any) -> Forecast:
        found.append(job.spec.owner)
        return SAID

    monkeypatch.setattr(hypothetical_jobs, "_said", said)
    return found


def test_one_owner_with_many_questions_keeps_no_other_from_an_answer(played: list[str]) -> None:
    asked = Supposed()

    def ask(owner: str, number: int, now_ms: int = 0) -> Forecast | None:
        job = Workload(
            workload_id=WorkloadId("j"),
            spec=a_job(owner=UserName(owner)),
            state=State.QUEUED,
            submitted_ms=Millis(0),
            since_ms=Millis(0),
        )
        return asked.answer(f"{owner}/{number}", job, Millis(now_ms))

    def work(now_ms: int = 0) -> None:
        asked.work(Cluster(), None, Millis(now_ms))  # type: ignore[arg-type] # nothing is played

    assert ask("bob", 0) is None
    for number in range(200):
        assert ask("ann", number) is None
    work()
    assert played == ["bob", "ann", "ann", "ann"]
    assert ask("bob", 0) is SAID
    # Of her own questions the oldest gave way; the rest is answered in the rounds that follow.
    assert ask("ann", 192) is SAID
    work()
    work()
    assert played.count("ann") == 8
    assert not asked.pending

    assert ask("ann", 7, now_ms=1000) is None
    work(now_ms=1000 + 16_000)
    assert not asked.pending
    assert len(played) == 9
