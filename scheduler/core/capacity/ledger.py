"""The ledger of what is held back on the nodes of a capacity: hold back, give up, look up.

Whoever decides says which :class:`HoldBack` there should be; only what differs from before is
changed on the nodes, so that whoever remembers a node looks again only where there is a reason.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain

from gpucommons.scheduler.core.capacity.hold_back import (
    BORROWERS,
    EVERYONE,
    HoldBack,
    HoldBackKey,
    HoldBackReason,
)
from gpucommons.scheduler.core.capacity.node_capacity import NodeCapacity
from gpucommons.scheduler.core.model.types import HoldClass, NodeId, WorkloadId


class HoldBackLedger:
    """All that is held back, by reason and for whom."""

    __slots__ = ("_held", "_nodes", "borrower_changes", "freed")

    def __init__(self, nodes: Mapping[NodeId, NodeCapacity]) -> None:
        """Hold nothing back on these nodes."""
        self._nodes = nodes
        self._held: dict[HoldBackReason, dict[WorkloadId, tuple[HoldBack, ...]]] = {
            reason: {} for reason in HoldBackReason
        }
        #: How often something was given up that was not only held back from borrowers.
        self.freed = 0
        #: How often what is held back from borrowers has changed.
        self.borrower_changes = 0

    def hold_back(self, key: HoldBackKey, wanted: Iterable[HoldBack]) -> None:
        """Hold back just this under a key, and nothing of what was held back under it before."""
        held = self._held[key.reason]
        after, before = tuple(wanted), held.pop(key.workload_id, ())
        if after:
            held[key.workload_id] = after
        if after == before:
            return
        if key.reason.held_from is BORROWERS:
            self.borrower_changes += 1
        else:
            self.freed += bool(before)
        # Mostly one of them is empty: somebody gets a place, or loses it.
        both = bool(before and after)
        for one in (Counter(before) - Counter(after)).elements() if both else before:
            self._nodes[one.node_id].give_up(one)
        for one in (Counter(after) - Counter(before)).elements() if both else after:
            self._nodes[one.node_id].hold_back(one)

    def give_up(self, key: HoldBackKey) -> None:
        """Hold back nothing under this key any more."""
        self.hold_back(key, ())

    def give_up_all(self, reason: HoldBackReason) -> None:
        """Hold back nothing for this reason any more."""
        for one in tuple(self._held[reason]):
            self.give_up(HoldBackKey(reason, one))

    def under(self, key: HoldBackKey) -> tuple[HoldBack, ...]:
        """What is held back under a key."""
        return self._held[key.reason].get(key.workload_id, ())

    def held_for(self, reason: HoldBackReason) -> Mapping[WorkloadId, tuple[HoldBack, ...]]:
        """All that is held back for a reason, by workload."""
        return self._held[reason]

    def held_from(self, hold_class: HoldClass) -> Iterator[HoldBack]:
        """What work of this class may not have, and others may."""
        for reason, held in self._held.items():
            if hold_class in reason.held_from and reason.held_from is not EVERYONE:
                yield from chain.from_iterable(held.values())

    @contextmanager
    def without(self, key: HoldBackKey) -> Iterator[None]:
        """Look as if it were not held back: what is one's own is not in one's way."""
        found = self.under(key)
        self.give_up(key)
        try:
            yield
        finally:
            self.hold_back(key, found)

    @contextmanager
    def with_also(self, also: Sequence[HoldBack]) -> Iterator[None]:
        """Look as if this were held back, too."""
        for one in also:
            self._nodes[one.node_id].hold_back(one)
        try:
            yield
        finally:
            for one in also:
                self._nodes[one.node_id].give_up(one)
