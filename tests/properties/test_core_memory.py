"""What a cycle remembers saves work and changes nothing.

Every step of a random history is decided twice: by a cycle that keeps what it has worked out until one
of the facts changes that it rests on, and by one that keeps nothing at all.
"""

from __future__ import annotations

import os
from typing import Any

import builders
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from properties.histories import History, as_well_as, rough

from gpucommons.scheduler.core.advance import advance
from gpucommons.scheduler.core.cycle_state.memo import Memo
from gpucommons.scheduler.core.model.intents import Action, Intent, Verdict
from gpucommons.scheduler.core.model.state import Cluster, Outcome
from gpucommons.scheduler.core.model.types import IntentId, UserName

EXAMPLES = int(os.environ.get("GPUCOMMONS_EXAMPLES", "60"))
pytestmark = pytest.mark.timeout(max(300, 2 * EXAMPLES))


def _forgets(*_: object) -> None:
    """Nothing was kept."""


def _forgetful(cluster: Cluster, *asked: Any, **more: Any) -> Outcome:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Memo, "get", _forgets)
        return advance(cluster.apart(), *asked, **more)


class _Crowds(History):
    """A history in which many ask within one cycle: only there is something to remember."""

    def play_crowds(self, crowds: list[list[tuple[str, int, int, int, int]]]) -> None:
        """Play each list as one cycle, then let the machines report and some time pass."""
        asked: list[Intent] = []

        def ask(action: Action, by: str = "ann") -> Verdict:
            intent_id = IntentId(next(self.world.intents))
            asked.append(
                Intent(intent_id=intent_id, action=action, by=UserName(by), at_ms=self.world.now)
            )
            return Verdict(intent_id=intent_id)

        self.world.ask = ask  # type: ignore[method-assign]
        for crowd in crowds:
            for name, *numbers in crowd:
                getattr(self, f"_{name}")(*numbers)
            self.world.step(*self.reports(), intents=asked)
            asked.clear()
            self._committed()
            for wait in (1, 10_000, 30_000, 900_000):
                self.world.wait(wait)
                self._committed()
                self.world.step(*self.reports())
                self._committed()


small = st.integers(0, 7)
submit = st.tuples(st.just("submit"), small, small, small, small)
crowds = st.lists(
    st.lists(st.one_of(submit, submit, rough), min_size=6, max_size=16), min_size=3, max_size=6
)


@settings(
    max_examples=max(1, EXAMPLES // 2),  # each decides dozens of cycles, two ways
    deadline=None,
    derandomize=EXAMPLES <= 100,
    suppress_health_check=list(HealthCheck),
)
@given(
    crowds,
    st.sampled_from([0, 500, 1000]),
    st.sampled_from([64_000, 2000]),
    st.sampled_from([(60_000, 0, 0), (0, 0, 0), (0, 300_000, 0), (0, 300_000, 400)]),
)
def test_a_cycle_that_remembers_and_one_that_forgets_decide_the_same(
    crowds: Any, headroom: int, cpu_milli: int, pauses: tuple[int, int, int]
) -> None:
    min_run_ms, lend_after_ms, unlent_permille = pauses
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(builders, "advance", as_well_as(_forgetful))
        history = _Crowds(
            lambda _: None,
            headroom=headroom,
            cpu_milli=cpu_milli,
            min_run_ms=min_run_ms,
            lend_after_ms=lend_after_ms,
            unlent_permille=unlent_permille,
        )
        history.play_crowds(crowds)
