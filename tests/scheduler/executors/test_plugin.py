"""An executor of another package that fails and comes back harms nothing but its own pools."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from launches import a_launch

from gpucommons.scheduler.core.model.state import AttemptEnded, Observation
from gpucommons.scheduler.core.model.types import Attempt, AttemptState
from gpucommons.scheduler.executors.base import Live
from gpucommons.scheduler.executors.fake import FakeExecutor
from gpucommons.scheduler.executors.plugin import Guest


class Away(FakeExecutor):
    """Cannot be reached, and later has only one of its attempts."""

    is_away = True

    def adopt(self, known: Sequence[Attempt]) -> tuple[Live, ...]:
        if self.is_away:
            raise OSError
        return tuple(Live(attempt_id=one.attempt_id, running=True) for one in known[:1])

    def observe(self) -> tuple[Observation, ...]:
        return ()

    def forget(self, attempt_id: object) -> None:
        pass


def test_what_is_gone_when_it_comes_back_has_ended_until_that_is_committed() -> None:
    running, gone, starting = (
        replace(a_launch("true", number=number).attempt, state=state)
        for number, state in enumerate(
            (AttemptState.RUNNING, AttemptState.STOPPING, AttemptState.STARTING), start=1
        )
    )
    away = Away.__new__(Away)
    guest = Guest("away", away, "")
    assert len(guest.adopt((running, gone, starting))) == 3
    away.is_away = False
    for _ in range(2):
        (seen,) = guest.observe()
        assert isinstance(seen, AttemptEnded)
        assert (seen.attempt_id, seen.exit_code) == (gone.attempt_id, None)
    guest.forget(gone.attempt_id)
    assert guest.observe() == ()
