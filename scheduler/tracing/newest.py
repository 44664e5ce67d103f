"""What is remembered of what is under way, within bounds."""

from __future__ import annotations

from collections import OrderedDict
from typing import Generic, TypeVar

#: Of so many workloads; who has more of them knows less of the oldest.
_MOST = 20_000

K = TypeVar("K")
V = TypeVar("V")


class Newest(OrderedDict[K, V], Generic[K, V]):
    """Forgets what was put longest ago."""

    def __setitem__(self, key: K, value: V) -> None:
        super().__setitem__(key, value)
        self.move_to_end(key)
        if len(self) > _MOST:
            self.popitem(last=False)
