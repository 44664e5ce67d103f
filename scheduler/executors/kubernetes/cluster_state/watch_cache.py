"""What one watch has seen last of its objects, by their keys."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

from gpucommons.scheduler.executors.kubernetes.objects.attempt_cache import DELETED

T = TypeVar("T")


class WatchCache(Generic[T]):
    """Takes what a :class:`~.api_server.watching.Watch` tells; ``changed`` is called with the lock held."""

    def __init__(
        self, *, key: Callable[[T], str], lock: threading.RLock, changed: Callable[[], None]
    ) -> None:
        self._key = key
        self._lock = lock
        self._changed = changed
        #: To be read under the lock.
        self.known: dict[str, T] = {}

    def reset(self, found: list[T]) -> None:
        """See :class:`~.api_server.watching.Sink`."""
        with self._lock:
            self.known = {self._key(one): one for one in found}
            self._changed()

    def event(self, kind: str, found: T) -> None:
        """See :class:`~.api_server.watching.Sink`."""
        with self._lock:
            key = self._key(found)
            if kind == DELETED:
                self.known.pop(key, None)
            elif self.known.get(key) == found:
                return
            else:
                self.known[key] = found
            self._changed()

    def all(self) -> tuple[T, ...]:
        """All there are."""
        with self._lock:
            return tuple(self.known.values())
