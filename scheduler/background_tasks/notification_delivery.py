"""Sends the messages that :mod:`.notifications` has made, and tries again what nobody took.

A message goes out before it is written that it did: a scheduler that is killed anywhere sends one twice
at worst, under the same id.
"""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace

from gpucommons.scheduler.core.model.types import UserName
from gpucommons.scheduler.errors import BadRequest, SchedulerError
from gpucommons.scheduler.notifications import confirming, retries, smtp, webhook
from gpucommons.scheduler.notifications.preferences import (
    About,
    Channel,
    Choice,
    Fate,
    Notification,
)
from gpucommons.scheduler.notifications.settings import default_address
from gpucommons.scheduler.service.service import Service
from gpucommons.scheduler.store.base import Epoch

_LOG = logging.getLogger(__name__)

#: Messages that are looked at and sent at once.
_DUE, _AT_ONCE = 200, 4
_UNFORESEEN = "The scheduler failed at it; its log says why"
_NOT_CONFIRMED = "Its address is not confirmed"
_NOT_CHOSEN = "It was chosen otherwise meanwhile"

Line = tuple[UserName, Channel]


class Delivery:
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
        self._pauses: dict[Line, retries.Pause] = {}
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
                pause = self._pauses.get(line)
                is_test = message.telling.about is About.TEST
                if pause is not None and pause.until_ms > now_ms and not is_test:
                    # So that those behind it come into sight.
                    postponed.append(replace(message, next_ms=pause.until_ms))
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
        """What became of it. How often and how long after it is tried again: :mod:`..notifications.retries`."""
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
            with self._lock:
                pause = retries.longer(self._pauses.get(line), self._service.now_ms())
                self._pauses[line] = pause
            for_good = isinstance(error, BadRequest)
            return retries.after_failure(message, pause, why, for_good=for_good)
        with self._lock:
            self._pauses.pop(line, None)
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
