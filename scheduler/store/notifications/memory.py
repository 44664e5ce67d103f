"""Choices and messages without a disk: for tests, simulation and replays."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence

from gpucommons.scheduler.core.model.types import Millis, UserName
from gpucommons.scheduler.errors import ChosenMeanwhile
from gpucommons.scheduler.notifications.preferences import (
    Channel,
    Choice,
    Fate,
    Notification,
    Reading,
)
from gpucommons.scheduler.store.schedules.base import Epoch


class MemoryNotifications:
    """See :class:`.base.NotificationStore`. ``check_lead`` raises for an epoch that is over."""

    def __init__(self, check_lead: Callable[[Epoch], None]) -> None:
        self._check_lead = check_lead
        self._lock = threading.Lock()
        self._choices: dict[UserName, Choice] = {}
        self._reading: Reading | None = None
        self._messages: dict[str, Notification] = {}

    def choose(
        self, choice: Choice, *, before: Choice, messages: Sequence[Notification] = ()
    ) -> None:
        """In place of what was seen."""
        with self._lock:
            if self._choices.get(choice.owner, Choice(owner=choice.owner)) != before:
                raise ChosenMeanwhile
            self._choices[choice.owner] = choice
            self._add(messages)

    def choice(self, owner: UserName) -> Choice | None:
        """Of one user."""
        with self._lock:
            return self._choices.get(owner)

    def choices(self) -> tuple[Choice, ...]:
        """By name."""
        with self._lock:
            return tuple(self._choices[owner] for owner in sorted(self._choices))

    def reading(self) -> Reading | None:
        """How far was read."""
        return self._reading

    def add(self, messages: Sequence[Notification]) -> None:
        """Those that are not there yet."""
        with self._lock:
            self._add(messages)

    def read(self, epoch: Epoch, reading: Reading, messages: Sequence[Notification]) -> None:
        """Both at once."""
        with self._lock:
            self._check_lead(epoch)
            self._add(messages)
            self._reading = reading

    def due(
        self,
        now_ms: Millis,
        *,
        limit: int,
        besides: Collection[tuple[UserName, Channel]] = (),
    ) -> tuple[Notification, ...]:
        """Oldest first."""
        with self._lock:
            found = [
                (one.next_ms, one.notification_id, one)
                for one in self._messages.values()
                if one.next_ms is not None
                and one.next_ms <= now_ms
                and (one.telling.owner, one.channel) not in besides
            ]
        return tuple(one for *_, one in sorted(found, key=lambda item: item[:2])[:limit])

    def settle(self, epoch: Epoch, messages: Sequence[Notification]) -> None:
        """In place of what was known."""
        with self._lock:
            self._check_lead(epoch)
            for one in messages:
                if one.notification_id in self._messages:
                    self._messages[one.notification_id] = one

    def waiting(self) -> Mapping[tuple[UserName, Channel], int]:
        """By user and channel."""
        with self._lock:
            return Counter(
                (one.telling.owner, one.channel)
                for one in self._messages.values()
                if one.fate is Fate.WAITING
            )

    def made(self, since_ms: Millis) -> Mapping[tuple[UserName, Channel], int]:
        """By user and channel."""
        with self._lock:
            return Counter(
                (one.telling.owner, one.channel)
                for one in self._messages.values()
                if one.made_ms >= since_ms and one.fate is not Fate.DROPPED
            )

    def newest(self, owner: UserName, *, limit: int) -> tuple[Notification, ...]:
        """Newest first."""
        with self._lock:
            mine = [one for one in self._messages.values() if one.telling.owner == owner]
        mine.sort(key=lambda one: (one.made_ms, one.notification_id), reverse=True)
        return tuple(mine[:limit])

    def forget(self, owner: UserName) -> int:
        """All of one user."""
        with self._lock:
            mine = [key for key, one in self._messages.items() if one.telling.owner == owner]
            for key in mine:
                del self._messages[key]
        return len(mine)

    def drop(self, epoch: Epoch, *, before_ms: Millis) -> int:
        """Those that are older."""
        with self._lock:
            self._check_lead(epoch)
            old = [key for key, one in self._messages.items() if one.made_ms < before_ms]
            for key in old:
                del self._messages[key]
            return len(old)

    def _add(self, messages: Sequence[Notification]) -> None:
        for one in messages:
            self._messages.setdefault(one.notification_id, one)
