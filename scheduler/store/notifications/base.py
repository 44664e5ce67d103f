"""The contract of stores with those who tell people, with a disk and without."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Protocol

from gpucommons.scheduler.core.model.types import Millis, UserName
from gpucommons.scheduler.notifications.preferences import (
    Channel,
    Choice,
    Notification,
    Reading,
)
from gpucommons.scheduler.store.schedules.base import Epoch


class NotificationStore(Protocol):
    """Durable memory of choices and messages. All methods may be called from any thread."""

    def choose(
        self, choice: Choice, *, before: Choice, messages: Sequence[Notification] = ()
    ) -> None:
        """Keep what somebody has chosen in place of what was, and messages with it (any replica).

        ``before`` is what the caller saw: of a user who never chose, a choice of nothing.

        Raises
        ------
        ChosenMeanwhile
            When it is another by now; nothing is changed then.
        """
        ...

    def choice(self, owner: UserName) -> Choice | None:
        """What somebody has chosen; None where nothing ever was."""
        ...

    def choices(self) -> tuple[Choice, ...]:
        """Of all users, by name."""
        ...

    def reading(self) -> Reading | None:
        """How far was read; None before the first time."""
        ...

    def add(self, messages: Sequence[Notification]) -> None:
        """Keep messages that are not there yet, by their ids (any replica)."""
        ...

    def read(self, epoch: Epoch, reading: Reading, messages: Sequence[Notification]) -> None:
        """Keep messages that are not there yet and how far was read, in one transaction (the leader).

        Raises
        ------
        LeaderLost
            When another leads.
        """
        ...

    def due(
        self,
        now_ms: Millis,
        *,
        limit: int,
        besides: Collection[tuple[UserName, Channel]] = (),
    ) -> tuple[Notification, ...]:
        """Those whose time to be sent has come, oldest first; none of these users and channels."""
        ...

    def settle(self, epoch: Epoch, messages: Sequence[Notification]) -> None:
        """Write what became of messages (the leader)."""
        ...

    def waiting(self) -> Mapping[tuple[UserName, Channel], int]:
        """How many wait, by user and channel."""
        ...

    def made(self, since_ms: Millis) -> Mapping[tuple[UserName, Channel], int]:
        """How many were made since then and not dropped, by user and channel."""
        ...

    def newest(self, owner: UserName, *, limit: int) -> tuple[Notification, ...]:
        """Messages of one user, newest first."""
        ...

    def forget(self, owner: UserName) -> int:
        """Remove all messages of one user; returns how many (any replica)."""
        ...

    def drop(self, epoch: Epoch, *, before_ms: Millis) -> int:
        """Forget messages that were made before; returns how many (the leader)."""
        ...
