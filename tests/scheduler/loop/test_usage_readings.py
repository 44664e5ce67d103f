"""Decisions do not wait until every agent has said what it measured."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence

import pytest
from launches import until

from gpucommons.gpu.slices.slices import SliceId
from gpucommons.gpu.slices.usage import UsageMinute
from gpucommons.scheduler.core.model.types import Millis
from gpucommons.scheduler.errors import Unavailable
from gpucommons.scheduler.loop.loop import Loop, Surroundings
from gpucommons.scheduler.loop.usage_ledger import MINUTE_MS, USAGE_DELAY_MS
from gpucommons.scheduler.loop.usage_readings import PATIENCE_S, Gathering
from gpucommons.scheduler.store.memory import MemoryStore

MINUTE = UsageMinute(
    slice_id=SliceId("s"),
    minute_ms=0,
    samples=60,
    compute_percent_mean=40,
    compute_percent_max=40,
    memory_used_mib_max=7,
)


class Agents:
    """Silent until they are told to speak."""

    def __init__(self) -> None:
        self.speak, self.woken = threading.Event(), threading.Event()
        self.asked: list[int] = []
        self.error: Exception | None = None
        self.now_s = 0.0
        self.gathering = Gathering(self.minutes, wake=self.woken.set, now_s=lambda: self.now_s)

    def minutes(self, after_ms: Millis) -> Sequence[UsageMinute]:
        self.asked.append(after_ms)
        self.speak.wait(60)
        if self.error is not None:
            raise self.error
        return [MINUTE]

    def answer(self, after_ms: int) -> Sequence[UsageMinute] | None:
        return self.gathering.after(Millis(after_ms))


@pytest.fixture
def agents() -> Iterator[Agents]:
    made = Agents()
    yield made
    made.speak.set()


def test_the_loop_turns_while_agents_are_silent_and_is_woken_when_they_speak(
    agents: Agents,
) -> None:
    now_ms = MINUTE_MS

    def now() -> Millis:
        return Millis(now_ms)

    loop = Loop(
        Surroundings(
            store=MemoryStore(),
            executors={},
            now=now,
            new_ids=iter(()),
            token_of=str,
            api_url="",
            usage=agents.gathering.after,
        )
    )
    loop.open()
    now_ms += MINUTE_MS + USAGE_DELAY_MS
    for _ in range(3):
        assert loop.cycle() > 0, "who asks again at once keeps a core busy"
    until(lambda: agents.asked)
    agents.speak.set()
    assert agents.woken.wait(60)
    loop.cycle()
    assert len(agents.asked) == 1


def test_each_round_is_asked_once_and_answers_once(agents: Agents) -> None:
    assert agents.answer(1) is None
    assert agents.answer(1) is None
    agents.speak.set()
    assert agents.woken.wait(60)
    assert agents.answer(1) == [MINUTE]
    agents.answer(2)
    until(lambda: agents.asked == [1, 2])


def test_rows_do_not_wait_for_ever_and_a_round_that_hangs_has_no_second_beside_it(
    agents: Agents,
) -> None:
    agents.answer(1)
    agents.now_s = PATIENCE_S
    assert agents.answer(1) == ()
    assert agents.answer(2) == ()
    agents.speak.set()
    assert agents.woken.wait(60)
    agents.speak.clear()
    assert agents.answer(2) is None, "what came late was of an older minute"
    until(lambda: agents.asked == [1, 2])


def test_what_asking_raises_is_the_answer(agents: Agents) -> None:
    agents.error = Unavailable("No agent answers.")
    agents.answer(1)
    agents.speak.set()
    assert agents.woken.wait(60)
    with pytest.raises(Unavailable, match="No agent"):
        agents.answer(1)
