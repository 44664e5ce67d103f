"""Whoever guesses tokens is turned away for a while; the right token passes all the same."""

from __future__ import annotations

import threading
from collections import OrderedDict, deque
from collections.abc import Callable

#: So many wrong tokens within so long.
MAX_WRONG = 10
WINDOW_S = 60.0
#: Addresses remembered; the one that was quiet for longest is forgotten first.
_MAX_ADDRESSES = 1024


class BadTokens:
    """Counts wrong tokens by address. Safe from any thread."""

    def __init__(self, now_s: Callable[[], float]) -> None:
        self._now_s = now_s
        self._wrong: OrderedDict[str, deque[float]] = OrderedDict()
        self._lock = threading.Lock()

    def is_blocked(self, address: str) -> bool:
        """Whether this address has to wait."""
        with self._lock:
            return self._is_blocked(address)

    def note(self, address: str) -> bool:
        """Count one more; True when it was the one too many."""
        with self._lock:
            times = self._wrong.setdefault(address, deque(maxlen=MAX_WRONG))
            self._wrong.move_to_end(address)
            times.append(self._now_s())
            while len(self._wrong) > _MAX_ADDRESSES:
                self._wrong.popitem(last=False)
            return self._is_blocked(address)

    def _is_blocked(self, address: str) -> bool:
        times = self._wrong.get(address)
        if times is None or len(times) < MAX_WRONG:
            return False
        return self._now_s() - times[0] < WINDOW_S
