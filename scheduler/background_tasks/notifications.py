"""Reads the feed of events for those who want to be told, and sends what there is to tell.

How far was read and the messages are written in one transaction, and a message goes out before it is
written that it did: a scheduler that is killed anywhere sends one twice at worst, under the same id.
"""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from gpucommons.scheduler.core.model.types import Kind, Millis, State, UserName, Workload
from gpucommons.scheduler.core.queue import back_off
from gpucommons.scheduler.errors import BadRequest, SchedulerError
from gpucommons.scheduler.notifications import confirming, message_texts, smtp, webhook
from gpucommons.scheduler.notifications.preferences import (
    FIRST_WAIT_MS,
    HOUR_MS,
    KEPT_MS,
    LONGEST_WAIT_MS,
    MOST_MAILS,
    MOST_TRIES,
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
from gpucommons.scheduler.notifications.settings import default_address
from gpucommons.scheduler.service.notifications import week
from gpucommons.scheduler.service.service import Service
from gpucommons.scheduler.store.base import Epoch, StoredEvent, WorkloadFilter
from gpucommons.scheduler.store.stored_jobs import stored_workloads

_LOG = logging.getLogger(__name__)

_PAGE = 500
#: Nobody is told of what is older: the scheduler was away, or told nobody until now.
_OLD_MS = 86_400_000
#: Between two looks at what is kept, and at what is old.
_SELDOM_MS = 600_000
#: After Monday began, UTC: the last minutes are in the ledger by then.
_WEEK_LATER_MS = 7 * 3_600_000
#: Messages that are looked at and sent at once.
_DUE, _AT_ONCE = 200, 4
_NOTEBOOKS, _HIBERNATED = frozenset({Kind.NOTEBOOK}), frozenset({State.HIBERNATED})
_TOO_MANY = f"{MOST_WAITING} messages waited already"
_MANY_MAILS = f"{MOST_MAILS} mails of yours were made within an hour already"
_UNFORESEEN = "The scheduler failed at it; its log says why"
_NOT_CONFIRMED = "Its address is not confirmed"
_NOT_CHOSEN = "It was chosen otherwise meanwhile"

Line = tuple[UserName, Channel]


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


@dataclass(frozen=True, kw_only=True, slots=True)
class _Rest:
    """A line whose last message was not taken."""

    tries: int
    until_ms: Millis


class Sending:
    """Sends messages whose time has come, a few at once and one of each user and channel.

    Each is sent in a thread of its own, which a slow receiver keeps for seconds: nothing waits for it.
    A test is tried at once and once: its owner looks what became of it, and has changed something, perhaps.
    """

    def __init__(
        self,
        service: Service,
        *,
        epoch: Callable[[], Epoch],
        start: Callable[[Callable[[], None]], None] | None = None,
    ) -> None:
        self._service = service
        self._epoch = epoch
        self._start = start or _in_a_thread
        self._lock = threading.Lock()
        self._under_way: set[Line] = set()
        self._resting: dict[Line, _Rest] = {}
        self._fates: Counter[tuple[str, str]] = Counter()

    def fates(self) -> Mapping[tuple[str, str], int]:
        """What became of messages since the start, by channel and fate."""
        with self._lock:
            return Counter(self._fates)

    def step(self) -> None:
        """Begin with what is due and may be sent now."""
        settings = self._service.notifications
        if settings.mail is None and settings.webhooks is None:
            return
        now_ms, epoch = self._service.now_ms(), self._epoch()
        with self._lock:
            # Their messages may be settled after they were read here, and must not be sent again for
            # it; and what waits behind a slow receiver keeps no others' out of sight.
            busy = frozenset(self._under_way)
        postponed = []
        for message in self._service.store.notifications.due(now_ms, limit=_DUE, besides=busy):
            line = (message.telling.owner, message.channel)
            with self._lock:
                if line in self._under_way:
                    continue
                rest = self._resting.get(line)
                is_test = message.telling.about is About.TEST
                if rest is not None and rest.until_ms > now_ms and not is_test:
                    # So that those behind it come into sight.
                    postponed.append(replace(message, next_ms=rest.until_ms))
                    continue
                if len(self._under_way) >= _AT_ONCE:
                    continue
                self._under_way.add(line)
            self._start(lambda message=message: self._deliver(epoch, message))  # type: ignore[misc]
        if postponed:
            self._service.store.notifications.settle(epoch, postponed)

    def _deliver(self, epoch: Epoch, message: Notification) -> None:
        line = (message.telling.owner, message.channel)
        try:
            after = self._tried(message)
            self._service.store.notifications.settle(epoch, [after])
            with self._lock:
                if after.fate is not Fate.WAITING:
                    self._fates[after.channel.value, after.fate.value] += 1
        except SchedulerError as error:
            # Another leads now, say: it sends it again.
            _LOG.info("what became of a message is not on record: %s", error)
        finally:
            with self._lock:
                self._under_way.discard(line)

    def _tried(self, message: Notification) -> Notification:
        """What became of it; a line that took nothing rests, each time for longer."""
        line = (message.telling.owner, message.channel)
        mail = self._service.notifications.mail
        choice = self._service.store.notifications.choice(message.telling.owner)
        if choice is None or not choice.wants(message.channel, message.telling.about):
            return replace(message, fate=Fate.DROPPED, next_ms=None, said=_NOT_CHOSEN)
        if message.telling.about is About.CONFIRM:
            if message.telling.source != confirming.source(choice):
                return replace(message, fate=Fate.DROPPED, next_ms=None, said=_NOT_CHOSEN)
        elif message.channel is Channel.MAIL and confirming.must_confirm(mail, choice):
            return replace(message, fate=Fate.DROPPED, next_ms=None, said=_NOT_CONFIRMED)
        message = replace(message, tries=message.tries + 1)
        try:
            self._send(message, choice)
        except Exception as error:  # noqa: BLE001 - tried again and again at once, it would keep all others
            if not isinstance(error, SchedulerError):
                _LOG.error("message %s failed", message.notification_id, exc_info=error)
            why = str(error) if isinstance(error, SchedulerError) else _UNFORESEEN
            now_ms = self._service.now_ms()
            with self._lock:
                rest = self._resting.get(line)
                tries = 1 if rest is None else rest.tries + 1
                wait_ms = back_off.doubling(FIRST_WAIT_MS, tries, longest_ms=LONGEST_WAIT_MS)
                until_ms = Millis(now_ms + wait_ms)
                self._resting[line] = _Rest(tries=tries, until_ms=until_ms)
            over = isinstance(error, BadRequest) or message.tries >= MOST_TRIES
            if over or message.telling.about is About.TEST:
                return replace(message, fate=Fate.FAILED, next_ms=None, said=why)
            return replace(message, next_ms=until_ms, said=why)
        with self._lock:
            self._resting.pop(line, None)
        return replace(message, fate=Fate.SENT, next_ms=None, said="")

    def _send(self, message: Notification, choice: Choice) -> None:
        settings = self._service.notifications
        if message.channel is Channel.MAIL:
            if settings.mail is None:
                raise BadRequest("This installation sends no mail any more.")
            address = choice.address or default_address(settings.mail, choice.owner)
            smtp.send(settings.mail, self._with_code(message, choice), address)
            return
        if settings.webhooks is None:
            raise BadRequest("This installation posts to no webhook any more.")
        key = self._service.webhook_key(choice.owner, choice.key_number)
        webhook.send(settings.webhooks, message, choice, key, self._service.now_ms() // 1000)

    def _with_code(self, message: Notification, choice: Choice) -> Notification:
        """With the code in it, where it brings one: it is stored nowhere."""
        telling = message.telling
        if telling.about is not About.CONFIRM:
            return message
        pages = self._service.settings.pages_url
        page_url = f"{pages}notifications" if pages else ""
        key = self._service.webhook_key(choice.owner, 0)
        text = confirming.text(choice, key, page_url)
        return replace(message, telling=replace(telling, text=text))


def _in_a_thread(work: Callable[[], None]) -> None:
    """Nobody waits for it, also at the end: what was not noted as sent is sent again."""
    threading.Thread(target=work, name="sends-a-message", daemon=True).start()
