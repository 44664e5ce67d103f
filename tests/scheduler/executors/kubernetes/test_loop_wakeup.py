"""The loop hears of changes, and time goes by, whatever became of the call before."""

from __future__ import annotations

import threading

from gpucommons.scheduler.executors.kubernetes.loop_wakeup import LoopWakeup

_PATIENCE_S = 90


class Fails:
    """Raises the first time that it is called."""

    def __init__(self) -> None:
        self.failed, self.again = threading.Event(), threading.Event()

    def __call__(self) -> None:
        if self.failed.is_set():
            self.again.set()
            return
        self.failed.set()
        raise RuntimeError("not this time")


def test_a_call_that_fails_is_not_the_last_one() -> None:
    change, beat = Fails(), Fails()
    wakeup = LoopWakeup(change, beat, beat_s=0.01)
    try:
        wakeup.touch()
        assert change.failed.wait(_PATIENCE_S)
        assert beat.again.wait(_PATIENCE_S)
        wakeup.touch()
        assert change.again.wait(_PATIENCE_S)
    finally:
        wakeup.close()


def test_a_beat_that_somebody_waits_for_does_not_wait_for_its_time() -> None:
    beaten = threading.Event()
    wakeup = LoopWakeup(lambda: None, beaten.set, beat_s=3600)
    try:
        wakeup.touch()
        assert not beaten.is_set()
        wakeup.beat()
        assert beaten.wait(_PATIENCE_S)
    finally:
        wakeup.close()
