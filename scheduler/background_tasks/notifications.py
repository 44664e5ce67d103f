"""Reads the feed of events for those who want to be told, and makes the messages.

How far was read and the messages are written in one transaction. :mod:`.notification_delivery` sends them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from gpucommons.scheduler.core.model.types import Kind, Millis, State, Workload
from gpucommons.scheduler.notifications import confirming, message_texts
from gpucommons.scheduler.notifications.preferences import (
    HOUR_MS,
    KEPT_MS,
    MOST_MAILS,
    MOST_WAITING,
    About,
    Channel,
    Choice,
    Fate,
    Notification,
    Reading,
    Telling,
    notification,
)
from gpucommons.scheduler.service.notifications import week
from gpucommons.scheduler.service.service import Service
from gpucommons.scheduler.store.base import Epoch, StoredEvent, WorkloadFilter
from gpucommons.scheduler.store.stored_jobs import stored_workloads

_PAGE = 500
#: Nobody is told of what is older: the scheduler was away, or told nobody until now.
_OLD_MS = 86_400_000
#: Between two looks at what is kept, and at what is old.
_SELDOM_MS = 600_000
#: After Monday began, UTC: the last minutes are in the ledger by then.
_WEEK_LATER_MS = 7 * 3_600_000
_NOTEBOOKS, _HIBERNATED = frozenset({Kind.NOTEBOOK}), frozenset({State.HIBERNATED})
_TOO_MANY = f"{MOST_WAITING} messages waited already"
_MANY_MAILS = f"{MOST_MAILS} mails of yours were made within an hour already"


class Notifications:
    """One look after the other at what happened, from one thread of the leader."""

    def __init__(self, service: Service, *, epoch: Callable[[], Epoch]) -> None:
        self._service = service
        self._epoch = epoch
        self._seldom_ms = 0

    def step(self) -> None:
        """Turn what happened since the last look into messages."""
        settings, store = self._service.notifications, self._service.store
        if settings.mail is None and settings.webhooks is None:
            return
        epoch, now_ms = self._epoch(), self._service.now_ms()
        reading = store.notifications.reading()
        if reading is None:
            # Nobody is told of what was before there was anybody to tell.
            first = Reading(event=store.last_event_number(), week_ms=week.monday(now_ms))
            store.notifications.read(epoch, first, ())
            return
        after, events = self._new_events(reading)
        tellings = list(self._of_events(events, now_ms))
        if now_ms >= self._seldom_ms:
            self._seldom_ms = now_ms + _SELDOM_MS
            store.notifications.drop(epoch, before_ms=Millis(now_ms - KEPT_MS))
            tellings += message_texts.of_kept(self._hibernated(), now_ms)
        choices = store.notifications.choices() if tellings else ()
        begun_ms = week.monday(now_ms)
        if reading.week_ms < begun_ms and now_ms >= begun_ms + _WEEK_LATER_MS:
            choices = store.notifications.choices()
            tellings += self._of_week(choices, begun_ms)
            after = replace(after, week_ms=begun_ms)
        if tellings or after != reading:
            store.notifications.read(epoch, after, self._messages(tellings, choices, now_ms))

    def _new_events(self, reading: Reading) -> tuple[Reading, tuple[StoredEvent, ...]]:
        store = self._service.store
        end = store.last_event_number()
        if end == reading.event:
            return reading, ()
        page = store.events(after=reading.event, kinds=message_texts.KINDS, limit=_PAGE)
        # What they left behind is shown a moment after they can be read.
        self._service.loop.catch_up()
        # What came in between is in the page as far as it is of these kinds.
        last = page[-1].number if len(page) == _PAGE else max([end, *(p.number for p in page[-1:])])
        return replace(reading, event=last), page

    def _of_events(self, events: Iterable[StoredEvent], now_ms: Millis) -> Iterator[Telling]:
        for stored in events:
            event = stored.event
            if event.at_ms < now_ms - _OLD_MS:
                continue
            found = event.workload_id
            known = self._service.loop.cluster.workloads.get(found) if found else None
            workload = self._service.store.workload(found) if found and known is None else known
            told = message_texts.of_event(stored.number, event, workload)
            if told is not None:
                yield told

    def _hibernated(self) -> Iterator[Workload]:
        """From the store: the loop forgets them long before what they keep is gone."""
        return stored_workloads(
            self._service.store, WorkloadFilter(kinds=_NOTEBOOKS, states=_HIBERNATED)
        )

    def _of_week(self, choices: Iterable[Choice], end_ms: Millis) -> list[Telling]:
        owners = [one.owner for one in choices if About.WEEK in one.mail | one.webhook]
        if not owners:
            return []
        sums = week.sums(self._service, end_ms)
        return [week.telling(self._service, owner, sums, end_ms) for owner in owners]

    def _messages(
        self, tellings: Iterable[Telling], choices: Iterable[Choice], now_ms: Millis
    ) -> list[Notification]:
        of = {one.owner: one for one in choices}
        waiting = Counter(self._service.store.notifications.waiting())
        lately = Counter(self._service.store.notifications.made(Millis(now_ms - HOUR_MS)))
        found = []
        for told in tellings:
            choice = of.get(told.owner)
            for way in Channel if choice is not None else ():
                if choice is None or not choice.wants(way, told.about):
                    continue
                if way is Channel.MAIL and confirming.must_confirm(
                    self._service.notifications.mail, choice
                ):
                    continue
                made = notification(told, way, now_ms)
                line = (told.owner, way)
                if waiting[line] >= MOST_WAITING:
                    made = replace(made, fate=Fate.DROPPED, next_ms=None, said=_TOO_MANY)
                elif way is Channel.MAIL and lately[line] >= MOST_MAILS:
                    made = replace(made, fate=Fate.DROPPED, next_ms=None, said=_MANY_MAILS)
                else:
                    waiting[line] += 1
                    lately[line] += 1
                found.append(made)
        return found
