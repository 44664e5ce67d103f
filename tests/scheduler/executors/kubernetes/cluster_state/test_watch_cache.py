"""What one watch has seen last is what there is, and who asked is told of changes alone."""

from __future__ import annotations

import threading

from gpucommons.scheduler.executors.kubernetes.cluster_state.watch_cache import WatchCache


class Told:
    """Objects are pairs of a key and a value."""

    def __init__(self) -> None:
        self.times = 0
        self.cache: WatchCache[tuple[str, int]] = WatchCache(
            key=lambda one: one[0], lock=threading.RLock(), changed=self._changed
        )

    def _changed(self) -> None:
        self.times += 1


def test_events_and_lists_leave_what_is_there_now() -> None:
    cache = Told().cache
    cache.event("ADDED", ("a", 1))
    cache.event("ADDED", ("b", 1))
    cache.event("MODIFIED", ("a", 2))
    assert cache.all() == (("a", 2), ("b", 1))

    cache.event("DELETED", ("a", 3))
    assert cache.all() == (("b", 1),)

    cache.reset([("c", 1)])
    assert cache.all() == (("c", 1),), "what a list lacks is gone"


def test_an_event_that_says_nothing_new_wakes_nobody() -> None:
    told = Told()
    told.cache.event("ADDED", ("a", 1))
    told.cache.event("MODIFIED", ("a", 1))
    assert told.times == 1

    told.cache.event("DELETED", ("a", 1))
    assert told.times == 2
