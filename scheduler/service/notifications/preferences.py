"""Use cases of one's own notifications: look, choose, test, and see a week's summary."""

from __future__ import annotations

from dataclasses import replace

from gpucommons.scheduler.core.model.types import Millis, UserName
from gpucommons.scheduler.errors import BadRequest, ChosenMeanwhile, TooManyRequests
from gpucommons.scheduler.models.notifications import (
    AboutName,
    ChannelView,
    ConfirmRequest,
    ForgottenView,
    MessagePreview,
    NotificationRequest,
    NotificationsView,
    NotificationView,
)
from gpucommons.scheduler.notifications import confirming
from gpucommons.scheduler.notifications.addresses import read_target
from gpucommons.scheduler.notifications.preferences import (
    CHOICES,
    HOUR_MS,
    MOST_MAILS,
    About,
    Channel,
    Choice,
    Fate,
    Notification,
    Telling,
    notification,
    version,
)
from gpucommons.scheduler.notifications.settings import (
    NotificationSettings,
    default_address,
    refusal,
)
from gpucommons.scheduler.principal import Principal
from gpucommons.scheduler.service import authorization
from gpucommons.scheduler.service.notifications import week
from gpucommons.scheduler.service.service import Service

#: Messages in one answer.
_NEWEST = 20
#: Messages of one user that are looked through for codes.
_MOST_KEPT = 1000
_DAY_MS = 86_400_000
#: Between two tests of one user.
_TEST_MS = 10_000
_NO_MAIL = "This installation sends no mail: an admin can name a mail server."
_NO_WEBHOOKS = "This installation posts to no webhook: an admin can allow them."


def notifications(service: Service, principal: Principal) -> NotificationsView:
    """What the caller is told, and what became of the newest messages."""
    authorization.notifications.notifications(principal)
    return _view(service, _choice(service, principal.name))


def set_notifications(
    service: Service, principal: Principal, request: NotificationRequest
) -> NotificationsView:
    """Choose anew. Nothing is sent for it but a code to an address that is to be confirmed.

    The same again, whose answer was lost, is answered again with the key that it made.
    """
    authorization.notifications.set_notifications(principal)
    before = _choice(service, principal.name)
    is_new = request.new_key or (bool(request.url) and before.key_number == 0)
    choice = Choice(
        owner=principal.name,
        mail=frozenset(map(About, request.mail)),
        address=request.address,
        webhook=frozenset(map(About, request.webhook)),
        url=request.url,
        key_number=before.key_number + is_new,
    )
    if request.seen and request.seen != version(before):
        if version(replace(choice, key_number=before.key_number)) != version(before):
            raise ChosenMeanwhile
        has_key = bool(request.url) and before.key_number > 0
        key = service.webhook_key(before.owner, before.key_number) if has_key else None
        return _view(service, before, key=key)
    _check(service.notifications, choice)
    now_ms = service.now_ms()
    service.orders.take(principal.name, 0, now_ms=now_ms)
    choice = confirming.asking(before, choice, service.notifications.mail, now_ms)
    asks = choice.asked_ms == now_ms and confirming.must_confirm(service.notifications.mail, choice)
    made = []
    if asks:
        # Counted after ``before`` was read: who asks at the same moment is refused by the store.
        _check_codes(service, choice, now_ms)
        made = [notification(confirming.telling(choice), Channel.MAIL, now_ms)]
    service.store.notifications.choose(choice, before=before, messages=made)
    key = service.webhook_key(choice.owner, choice.key_number) if is_new else None
    return _view(service, choice, key=key)


def confirm_address(
    service: Service, principal: Principal, request: ConfirmRequest
) -> NotificationsView:
    """Take the code that was sent to the caller's own address: mail goes there from now on."""
    authorization.notifications.confirm_address(principal)
    choice, now_ms = _choice(service, principal.name), service.now_ms()
    service.orders.take(principal.name, 0, now_ms=now_ms)
    if not confirming.must_confirm(service.notifications.mail, choice):
        raise BadRequest("No address of yours waits to be confirmed.")
    key = service.webhook_key(choice.owner, 0)
    why_not = confirming.why_not(choice, key, request.code, now_ms)
    if why_not is not None:
        raise BadRequest(why_not)
    confirmed = replace(choice, confirmed=True)
    service.store.notifications.choose(confirmed, before=choice)
    return _view(service, confirmed)


def forget_user(service: Service, principal: Principal, user: UserName) -> ForgottenView:
    """Forget what a user has chosen and was told: the next of that name is another person.

    The number of the signing key stays, so that no earlier key signs again.
    """
    authorization.notifications.forget_user(principal)
    before = _choice(service, user)
    nothing = Choice(owner=user, key_number=before.key_number)
    service.store.notifications.choose(nothing, before=before)
    messages = service.store.notifications.forget(user)
    return ForgottenView(user=user, chose=bool(before.mail or before.webhook), messages=messages)


def test_notifications(service: Service, principal: Principal) -> NotificationsView:
    """Send a message by every way that is chosen."""
    authorization.notifications.test_notifications(principal)
    choice, now_ms = _choice(service, principal.name), service.now_ms()
    off = _off(service.notifications)
    ways = [way for way in Channel if way not in off and choice.wants(way, About.TEST)]
    if Channel.MAIL in ways and confirming.must_confirm(service.notifications.mail, choice):
        raise BadRequest(confirming.waits(choice, now_ms))
    if not ways:
        if len(off) == len(Channel):
            raise BadRequest(" ".join(("Nothing can be sent here.", *off.values())))
        raise BadRequest("Nothing is chosen: choose first, with `gpucommons notify set`.")
    newest = service.store.notifications.newest(choice.owner, limit=_NEWEST)
    tests = [one for one in newest if one.telling.about is About.TEST]
    if any(one.made_ms > now_ms - _TEST_MS or one.fate is Fate.WAITING for one in tests):
        raise TooManyRequests("The last test is on its way: look in ten seconds what became of it.")
    made = service.store.notifications.made(Millis(now_ms - HOUR_MS))
    if Channel.MAIL in ways and made.get((choice.owner, Channel.MAIL), 0) >= MOST_MAILS:
        message = (
            f"{MOST_MAILS} mails of yours were made within an hour: wait until there are fewer."
        )
        raise TooManyRequests(message)
    service.orders.take(principal.name, 0, now_ms=now_ms)
    telling = Telling(
        owner=choice.owner,
        about=About.TEST,
        # Asked for twice at once, it is one.
        source=f"test {now_ms // _TEST_MS}",
        at_ms=now_ms,
        subject="a test",
        text=f"{choice.owner} asked for this test. Messages come this way.",
    )
    service.store.notifications.add([notification(telling, way, now_ms) for way in ways])
    return _view(service, choice)


def notifications_week(service: Service, principal: Principal) -> MessagePreview:
    """The summary of the last week that is over, as it would be sent."""
    authorization.notifications.notifications_week(principal)
    end_ms = week.monday(service.now_ms())
    sums = week.sums(service, end_ms)
    telling = week.telling(service, principal.name, sums, end_ms)
    return MessagePreview(subject=telling.subject, text=telling.text)


def _choice(service: Service, owner: UserName) -> Choice:
    return service.store.notifications.choice(owner) or Choice(owner=owner)


def _check_codes(service: Service, choice: Choice, now_ms: Millis) -> None:
    """An address is whatever somebody types: not many strangers get mail for it."""
    newest = service.store.notifications.newest(choice.owner, limit=_MOST_KEPT)
    lately = [
        one
        for one in newest
        if one.telling.about is About.CONFIRM and one.made_ms > now_ms - _DAY_MS
    ]
    if len(lately) >= confirming.MOST_CODES:
        message = (
            f"{confirming.MOST_CODES} codes were made for you within a day: wait until tomorrow."
        )
        raise TooManyRequests(message)


def _off(settings: NotificationSettings) -> dict[Channel, str]:
    """Ways that cannot be chosen here, and why."""
    found = {Channel.MAIL: _NO_MAIL} if settings.mail is None else {}
    return found | ({Channel.WEBHOOK: _NO_WEBHOOKS} if settings.webhooks is None else {})


def _check(settings: NotificationSettings, choice: Choice) -> None:
    if choice.mail or choice.address:
        if settings.mail is None:
            raise BadRequest(_NO_MAIL)
        address = choice.address or default_address(settings.mail, choice.owner)
        if not address:
            raise BadRequest("Name the address that mail is to go to.")
        why_not = refusal(settings.mail, address)
        if why_not is not None:
            raise BadRequest(why_not)
    if choice.webhook or choice.url:
        if settings.webhooks is None:
            raise BadRequest(_NO_WEBHOOKS)
        if not choice.url:
            raise BadRequest("Name the address that messages are to be posted to.")
        read_target(choice.url, settings.webhooks)


def _view(service: Service, choice: Choice, *, key: str | None = None) -> NotificationsView:
    settings, pages = service.notifications, service.settings.pages_url
    by_rule = "" if settings.mail is None else default_address(settings.mail, choice.owner)
    newest = service.store.notifications.newest(choice.owner, limit=_NEWEST)
    waits = confirming.must_confirm(settings.mail, choice)
    return NotificationsView(
        mail=ChannelView(
            about=_names(choice.mail),
            to=choice.address or by_rule,
            waits=confirming.waits(choice, service.now_ms()) if waits else "",
            why_not=_off(settings).get(Channel.MAIL, ""),
        ),
        default_address=by_rule,
        domains=[] if settings.mail is None else list(settings.mail.domains),
        webhook=ChannelView(
            about=_names(choice.webhook),
            to=choice.url,
            why_not=_off(settings).get(Channel.WEBHOOK, ""),
        ),
        key=key,
        newest=[_message(one) for one in newest],
        version=version(choice),
        page_url=f"{pages}notifications" if pages else "",
    )


def _names(about: frozenset[About]) -> list[AboutName]:
    return [one.value for one in CHOICES if one in about]  # type: ignore[misc] # no test is chosen


def _message(one: Notification) -> NotificationView:
    return NotificationView(
        id=one.notification_id,
        channel=one.channel.value,
        about=one.telling.about.value,
        subject=one.telling.subject,
        made_ms=one.made_ms,
        fate=one.fate.value,
        tries=one.tries,
        said=one.said,
    )
