"""Who makes room where there are too many: the oldest of the peer that has most.

A peer is an address, an account, or whatever an endpoint can tell people apart by. Where it cannot, all
are one crowd, and age alone decides: whoever only waits grows old, whoever asks is soon gone.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)


class Crowds(Generic[K]):
    """Members with their peer, oldest first; at most so many."""

    def __init__(self, most: int) -> None:
        self._most = max(1, most)
        #: In the order in which they came.
        self._since: dict[K, tuple[Hashable, float]] = {}
        self._of_peer: dict[Hashable, dict[K, None]] = {}

    def __len__(self) -> int:
        return len(self._since)

    def __contains__(self, member: K) -> bool:
        return member in self._since

    def __iter__(self) -> Iterator[K]:
        return iter(tuple(self._since))

    def add(self, member: K, peer: Hashable, *, now_s: float) -> K | None:
        """Take one in; returns who makes room for it, who is no member any more."""
        goes = self._least_missed() if len(self) >= self._most else None
        if goes is not None:
            self.remove(goes)
        self._since[member] = (peer, now_s)
        self._of_peer.setdefault(peer, {})[member] = None
        return goes

    def remove(self, member: K) -> None:
        """It left; whoever is no member is none afterwards either."""
        found = self._since.pop(member, None)
        if found is None:
            return
        peer, _ = found
        crowd = self._of_peer[peer]
        del crowd[member]
        if not crowd:
            del self._of_peer[peer]

    def since(self, before_s: float) -> list[K]:
        """Those who came before then, oldest first."""
        found = []
        for member, (_, came_s) in self._since.items():
            if came_s >= before_s:
                break
            found.append(member)
        return found

    def _least_missed(self) -> K:
        largest = max(self._of_peer, key=lambda peer: len(self._of_peer[peer]))
        return next(iter(self._of_peer[largest]))
