"""No mail goes to an address that its user wrote before the code that was sent there has come back."""

from __future__ import annotations

import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from service_world import ADMIN, ServiceWorld, a_request, done

from gpucommons.scheduler.background_tasks.notification_delivery import Delivery
from gpucommons.scheduler.background_tasks.notifications import Notifications
from gpucommons.scheduler.core.model.types import Millis, UserName
from gpucommons.scheduler.errors import BadRequest, ChosenMeanwhile, Forbidden, TooManyRequests
from gpucommons.scheduler.models.notifications import ConfirmRequest, NotificationRequest
from gpucommons.scheduler.notifications import confirming, smtp
from gpucommons.scheduler.notifications.preferences import About, Channel, Choice, Notification
from gpucommons.scheduler.notifications.settings import NotificationSettings
from gpucommons.scheduler.service.jobs import jobs
from gpucommons.scheduler.service.notifications import preferences

SETTINGS = {
    "host": "smtp.invalid",
    "sender": "gpu@example.org",
    "domains": ["*"],
    "address": "{username}@example.org",
}
MINUTE, DAY = 60_000, 86_400_000
Tell = Callable[[], list[tuple[str, str, str]]]


@pytest.fixture
def world(tmp_path: Path) -> ServiceWorld:
    made = ServiceWorld(tmp_path)
    settings = NotificationSettings.model_validate({"mail": SETTINGS})
    object.__setattr__(made.service, "notifications", settings)
    object.__setattr__(made.service, "webhook_key", lambda user, number: f"key-{user}-{number}")
    return made


@pytest.fixture
def tell(world: ServiceWorld, monkeypatch: pytest.MonkeyPatch) -> Tell:
    """One look and its mails: address, what it is about, text."""
    mails: list[tuple[str, str, str]] = []

    def send(_settings: Any, message: Notification, address: str) -> None:
        mails.append((address, message.telling.about.value, message.telling.text))

    def step() -> list[tuple[str, str, str]]:
        mails.clear()
        Notifications(world.service, epoch=lambda: world.loop.epoch).step()
        delivery = Delivery(
            world.service, epoch=lambda: world.loop.epoch, start=lambda work: work()
        )
        while world.store.notifications.due(world.now_ms, limit=1):
            delivery.step()
        return list(mails)

    monkeypatch.setattr(smtp, "send", send)
    step()
    return step


def choose(world: ServiceWorld, address: str, user: str = "ann") -> None:
    request = NotificationRequest(mail=["finish"], address=address)
    preferences.set_notifications(world.service, world.principal(user), request)


def confirm(world: ServiceWorld, code: str, user: str = "ann") -> str:
    request = ConfirmRequest(code=code)
    return preferences.confirm_address(world.service, world.principal(user), request).mail.waits


def code_in(mails: list[tuple[str, str, str]]) -> str:
    ((_, about, text),) = mails
    assert about == "confirm"
    found = re.search(r"confirm ([A-Z2-7-]{19})\n", text)
    assert found
    return found[1]


def finish_a_job(world: ServiceWorld, user: str = "ann") -> None:
    who = world.principal(user)
    job = jobs.submit(world.service, who, a_request(role={"milli_gpu": 1000}), key=None)
    world.pass_time(1000)
    done(jobs.cancel(world.service, who, job.id))
    world.pass_time(MINUTE)


def test_mail_begins_with_the_code(world: ServiceWorld, tell: Tell) -> None:
    choose(world, "ann@home.example")
    code = code_in(tell())
    finish_a_job(world)
    assert tell() == []
    with pytest.raises(BadRequest, match="No mail goes there before you enter the code"):
        preferences.test_notifications(world.service, world.principal("ann"))
    assert preferences.notifications(world.service, world.principal("ann")).mail.waits
    assert confirm(world, f" {code.lower()} ") == ""
    finish_a_job(world)
    assert [(to, about) for to, about, _ in tell()] == [("ann@home.example", "finish")]
    # What else is chosen changes nothing of that.
    choose(world, "ann@home.example")
    assert tell() == []
    with pytest.raises(BadRequest, match="No address of yours waits"):
        confirm(world, code)


@pytest.mark.parametrize(
    ("page_url", "where"),
    [
        ("https://hub.example/gpucommons/notifications", "on https://hub.example/gpucommons/notif"),
        ("/services/gpucommons/notifications", "on the page Notifications of GPU Commons or"),
        ("", "code or in a terminal"),
    ],
)
def test_the_mail_names_no_address_that_a_mail_cannot_open(page_url: str, where: str) -> None:
    choice = Choice(owner=UserName("ann"), address="ann@home.example", asked_ms=Millis(1))

    assert where in confirming.text(choice, "key", page_url)


def test_an_address_by_the_admins_rule_needs_no_code(world: ServiceWorld, tell: Tell) -> None:
    for address in ("", "ann@example.org"):
        choose(world, address)
        assert tell() == []
        finish_a_job(world)
        assert [(to, about) for to, about, _ in tell()] == [("ann@example.org", "finish")]


def test_an_address_that_another_tab_saves_while_a_code_is_entered_is_not_confirmed_by_it(
    world: ServiceWorld, tell: Tell, monkeypatch: pytest.MonkeyPatch
) -> None:
    choose(world, "ann@home.example")
    code = code_in(tell())
    store, choose_in = world.store.notifications, world.store.notifications.choose

    def another_tab_first(choice: Choice, **more: Any) -> None:
        monkeypatch.setattr(store, "choose", choose_in)
        choose(world, "x@victim.example")
        choose_in(choice, **more)

    monkeypatch.setattr(store, "choose", another_tab_first)
    with pytest.raises(ChosenMeanwhile, match="changed meanwhile"):
        confirm(world, code)
    now = preferences.notifications(world.service, world.principal("ann")).mail
    assert (now.to, bool(now.waits)) == ("x@victim.example", True)


def test_a_tab_that_saves_long_after_another_is_told_so_and_changes_nothing(
    world: ServiceWorld,
) -> None:
    ann = world.principal("ann")
    seen = preferences.notifications(world.service, ann).version
    first = NotificationRequest(mail=["finish"], seen=seen)
    second = NotificationRequest(mail=["week"], seen=seen)
    after = preferences.set_notifications(world.service, ann, first)

    with pytest.raises(ChosenMeanwhile, match="look, and save again"):
        preferences.set_notifications(world.service, ann, second)

    assert preferences.notifications(world.service, ann).mail.about == ["finish"]
    again = second.model_copy(update={"seen": after.version})
    assert preferences.set_notifications(world.service, ann, again).mail.about == ["week"]
    # A program that looked at nothing says all that is to be.
    told = preferences.set_notifications(world.service, ann, NotificationRequest(mail=["idle"]))
    assert told.mail.about == ["idle"]


def test_a_choice_that_is_sent_again_after_a_lost_answer_is_answered_the_same(
    world: ServiceWorld, tell: Tell
) -> None:
    ann = world.principal("ann")
    seen = preferences.notifications(world.service, ann).version
    request = NotificationRequest(mail=["finish"], address="ann@home.example", seen=seen)
    lost = preferences.set_notifications(world.service, ann, request)

    assert preferences.set_notifications(world.service, ann, request) == lost
    # One code, not two.
    assert len(tell()) == 1


def test_who_confirms_an_address_has_chosen_nothing_else(world: ServiceWorld, tell: Tell) -> None:
    choose(world, "ann@home.example")
    ann = world.principal("ann")
    seen = preferences.notifications(world.service, ann).version
    confirm(world, code_in(tell()))

    request = NotificationRequest(mail=["week"], address="ann@home.example", seen=seen)
    assert not preferences.set_notifications(world.service, ann, request).mail.waits


def test_codes_asked_for_at_once_are_no_more_than_a_day_may_have(
    world: ServiceWorld, tell: Tell
) -> None:
    def asks(number: int) -> None:
        with suppress(ChosenMeanwhile, TooManyRequests):
            choose(world, f"{number}@victim.example")

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(asks, range(40)))
    made = world.store.notifications.newest(UserName("ann"), limit=99)
    assert 1 <= len(made) <= confirming.MOST_CODES


def test_no_other_code_confirms(world: ServiceWorld, tell: Tell) -> None:
    choose(world, "x@victim.example", user="bob")
    foreign = code_in(tell())
    choose(world, "x@victim.example")
    own = code_in(tell())
    for wrong in (foreign, "AAAA-AAAA-AAAA-AAAA", "ü"):
        with pytest.raises(BadRequest, match="not the code that was sent last"):
            confirm(world, wrong)
    # Of this address, but of an asking before.
    choose(world, "y@victim.example")
    with pytest.raises(BadRequest, match="not the code"):
        confirm(world, own)
    world.pass_time(MINUTE)
    choose(world, "x@victim.example")
    tell()
    with pytest.raises(BadRequest, match="not the code"):
        confirm(world, own)


def test_a_confirmed_address_that_was_left_is_asked_again(world: ServiceWorld, tell: Tell) -> None:
    choose(world, "ann@home.example")
    code = code_in(tell())
    confirm(world, code)
    world.pass_time(MINUTE)
    choose(world, "")
    choose(world, "ann@home.example")
    with pytest.raises(BadRequest, match="not the code"):
        confirm(world, code)


def test_an_old_code_is_none_and_a_new_one_is_had_by_saving(
    world: ServiceWorld, tell: Tell
) -> None:
    choose(world, "ann@home.example")
    code = code_in(tell())
    world.pass_time(DAY + MINUTE)
    with pytest.raises(BadRequest, match="too old: save your choice once more"):
        confirm(world, code)
    choose(world, "ann@home.example")
    assert confirm(world, code_in(tell())) == ""


def test_few_strangers_get_a_code(world: ServiceWorld, tell: Tell) -> None:
    for number in range(confirming.MOST_CODES):
        world.pass_time(MINUTE)
        choose(world, f"{number}@victim.example")
        assert len(tell()) == 1
    world.pass_time(MINUTE)
    with pytest.raises(TooManyRequests, match="5 codes"):
        choose(world, "more@victim.example")
    # Saved again at once, the same address gets no second mail.
    choose(world, "4@victim.example")
    assert tell() == []


def test_the_code_is_stored_nowhere(world: ServiceWorld, tell: Tell) -> None:
    choose(world, "ann@home.example")
    code = code_in(tell())
    kept = world.store.notifications.newest(UserName("ann"), limit=9)
    assert [(one.telling.about, one.channel) for one in kept] == [(About.CONFIRM, Channel.MAIL)]
    assert code not in repr((kept, world.store.notifications.choice(UserName("ann"))))


def test_the_next_of_a_name_inherits_nothing(world: ServiceWorld, tell: Tell) -> None:
    choose(world, "ann@home.example")
    confirm(world, code_in(tell()))
    with pytest.raises(Forbidden, match="Only admins"):
        preferences.forget_user(world.service, world.principal("bob"), UserName("ann"))
    admin = world.principal("root", ADMIN)
    gone = preferences.forget_user(world.service, admin, UserName("ann"))
    assert (gone.chose, gone.messages) == (True, 1)
    view = preferences.notifications(world.service, world.principal("ann"))
    assert (view.mail.about, view.mail.to, view.newest) == ([], "ann@example.org", [])
    finish_a_job(world)
    assert tell() == []
