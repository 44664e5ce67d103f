"""Changes of an attempt are looked at soon, and together."""

from __future__ import annotations

import threading
from collections import Counter

from gpucommons.scheduler.core.model.types import AttemptId
from gpucommons.scheduler.executors.kubernetes.attempt_workqueue import AttemptWorkqueue

ONE, OTHER = AttemptId("one"), AttemptId("other")
_PATIENCE_S = 60


class Eye:
    """Looks, as slowly as it is told to."""

    def __init__(self) -> None:
        self.seen: Counter[AttemptId] = Counter()
        self.at_it, self.go_on = threading.Event(), threading.Event()
        self.last = threading.Event()

    def look(self, attempt_id: AttemptId) -> None:
        self.seen[attempt_id] += 1
        self.at_it.set()
        assert self.go_on.wait(_PATIENCE_S)
        if attempt_id == OTHER:
            self.last.set()
            raise RuntimeError("this one cannot be read")


def test_a_thousand_changes_during_a_look_are_one_more_look() -> None:
    eye = Eye()
    queue = AttemptWorkqueue(eye.look)
    queue.soon(ONE)
    assert eye.at_it.wait(_PATIENCE_S)
    for _ in range(1000):
        queue.soon(ONE)
    queue.soon(OTHER)
    eye.go_on.set()
    assert eye.last.wait(_PATIENCE_S)
    queue.close()
    assert eye.seen == {ONE: 2, OTHER: 1}


def test_an_attempt_that_cannot_be_looked_at_does_not_end_the_looks() -> None:
    eye = Eye()
    eye.go_on.set()
    queue = AttemptWorkqueue(eye.look)
    queue.soon(OTHER)
    assert eye.last.wait(_PATIENCE_S)
    eye.last.clear()
    queue.soon(OTHER)
    assert eye.last.wait(_PATIENCE_S)
    queue.close()


def test_nothing_is_looked_at_after_the_end() -> None:
    eye = Eye()
    queue = AttemptWorkqueue(eye.look)
    queue.close()
    queue.soon(ONE)
    assert not eye.seen
