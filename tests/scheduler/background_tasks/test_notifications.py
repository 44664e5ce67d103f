"""Who wants to be told is told: of what is their own, at least once, under an id that says which it is."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from service_world import ServiceWorld, a_request, done

from gpucommons.scheduler import models
from gpucommons.scheduler.background_tasks.housekeeping import OPERATOR
from gpucommons.scheduler.background_tasks.notification_delivery import Delivery
from gpucommons.scheduler.background_tasks.notifications import Notifications
from gpucommons.scheduler.core.model.going_on import KeptKernels
from gpucommons.scheduler.core.model.intents import NoteKept
from gpucommons.scheduler.core.model.types import Millis, UserName, WorkloadId
from gpucommons.scheduler.errors import TooManyRequests, Unavailable
from gpucommons.scheduler.executors.fake import Script
from gpucommons.scheduler.models.notifications import NotificationRequest
from gpucommons.scheduler.notifications import smtp, webhook
from gpucommons.scheduler.notifications.preferences import (
    MOST_MAILS,
    MOST_WAITING,
    About,
    Channel,
    Fate,
    Notification,
    Telling,
    notification,
)
from gpucommons.scheduler.notifications.retries import MOST_TRIES
from gpucommons.scheduler.notifications.settings import NotificationSettings
from gpucommons.scheduler.service import idle, leases
from gpucommons.scheduler.service.jobs import jobs
from gpucommons.scheduler.service.notifications import preferences
from gpucommons.scheduler.store.base import LedgerRow

SECOND, HOUR, DAY = 1000, 3_600_000, 86_400_000
ALL = ["idle", "start", "preempt", "finish", "week"]
SETTINGS = NotificationSettings.model_validate(
    {
        "mail": {
            "host": "smtp.invalid",
            "sender": "gpu@example.org",
            "domains": ["example.org"],
            "address": "{username}@example.org",
        },
        "webhooks": {},
    }
)


class Outside:
    """Takes what is sent, or does not."""

    def __init__(self) -> None:
        self.mails: list[tuple[str, Notification]] = []
        self.posts: list[tuple[str, str, Notification]] = []
        self.away: Exception | None = None

    def mail(self, _settings: Any, message: Notification, address: str) -> None:
        if self.away is not None:
            raise self.away
        self.mails.append((address, message))

    def post(
        self, _settings: Any, message: Notification, choice: Any, key: str, _now_s: int
    ) -> None:
        if self.away is not None:
            raise self.away
        self.posts.append((choice.url, key, message))

    def said(self) -> list[tuple[str, str]]:
        return [(one.telling.about.value, one.telling.subject) for _, one in self.mails]


@pytest.fixture
def outside(monkeypatch: pytest.MonkeyPatch) -> Outside:
    found = Outside()
    monkeypatch.setattr(smtp, "send", found.mail)
    monkeypatch.setattr(webhook, "send", found.post)
    return found


@pytest.fixture
def world(tmp_path: Path) -> ServiceWorld:
    made = ServiceWorld(tmp_path)
    object.__setattr__(made.service, "notifications", SETTINGS)
    object.__setattr__(made.service, "webhook_key", lambda user, number: f"key-{user}-{number}")
    return made


Tell = Callable[[], None]


@pytest.fixture
def tell(world: ServiceWorld, outside: Outside) -> Tell:
    """A scheduler that looks and sends once; a new one each time, as after a restart."""

    def step() -> None:
        epoch = lambda: world.loop.epoch  # noqa: E731
        Notifications(world.service, epoch=epoch).step()
        delivery = Delivery(world.service, epoch=epoch, start=lambda work: work())
        while True:
            before = len(world.store.notifications.due(world.now_ms, limit=1000))
            delivery.step()
            if len(world.store.notifications.due(world.now_ms, limit=1000)) in (0, before):
                return

    step()
    return step


def choose(world: ServiceWorld, user: str = "ann", **request: Any) -> Any:
    asked = NotificationRequest.model_validate(request)
    return preferences.set_notifications(world.service, world.principal(user), asked)


def submit(world: ServiceWorld, user: str = "ann", **changes: Any) -> models.JobView:
    view = jobs.submit(world.service, world.principal(user), a_request(**changes), key=None)
    world.pass_time(SECOND)
    return view


def newest(world: ServiceWorld, user: str = "ann") -> list[Any]:
    return preferences.notifications(world.service, world.principal(user)).newest


def test_a_job_tells_its_owner_alone_that_it_started_and_how_it_ended(
    world: ServiceWorld, tell: Tell, outside: Outside
) -> None:
    for user in ("ann", "ada"):
        choose(world, user, mail=["start", "finish"])
    world.script = Script(run_ms=60 * SECOND)
    submit(world, role={"milli_gpu": 1000})
    world.pass_time(61 * SECOND)
    world.script = Script(run_ms=10, exit_code=3)
    submit(world, name="bad")
    world.pass_time(SECOND)
    world.pass_time(SECOND)
    tell()
    assert [to for to, _ in outside.mails] == ["ann@example.org"] * 4
    assert outside.said() == [
        ("start", "digits-1 started"),
        ("finish", "digits-1 finished"),
        ("start", "bad-1 started"),
        ("finish", "bad-1 failed"),
    ]
    texts = [one.telling.text for _, one in outside.mails]
    assert "It holds 1 GPU." in texts[0]
    assert "held 0.02 GPU-hours" in texts[1]
    assert "failed: It ended with exit status 3" in texts[3]
    tell()
    assert len(outside.mails) == 4


def test_nobody_is_told_of_what_they_did_not_choose_or_what_was_before(
    world: ServiceWorld, tell: Tell, outside: Outside
) -> None:
    world.script = Script(run_ms=10)
    submit(world)
    world.pass_time(SECOND)
    tell()
    choose(world, mail=["preempt"])
    submit(world)
    world.pass_time(SECOND)
    tell()
    assert outside.mails == []


def test_a_stop_for_others_says_how_the_job_goes_on(
    world: ServiceWorld, tell: Tell, outside: Outside
) -> None:
    choose(world, mail=["preempt"])
    world.script = Script(run_ms=HOUR)
    for _ in range(4):
        submit(world, role={"milli_gpu": 1000})
    world.pass_time(HOUR // 2)
    ask = models.LeaseRequest(milli_gpu=1000)
    done(leases.wait_in_line(world.service, world.principal("bob"), ask, key=None))
    for _ in range(30):
        world.pass_time(SECOND)
    tell()
    ((about, subject),) = outside.said()
    assert about == "preempt"
    assert subject.endswith(" was stopped")
    what, goes_on = outside.mails[0][1].telling.text.splitlines()
    assert "was stopped for nlp" in what
    assert goes_on.startswith("It starts its command anew")


def test_a_notebook_tells_that_it_is_idle_and_that_its_gpu_went(
    world: ServiceWorld, tell: Tell, outside: Outside
) -> None:
    choose(world, mail=["idle"])
    ask = models.LeaseRequest(user="ann", milli_gpu=500)
    lease = done(leases.acquire(world.service, world.hub_service, ask, key=None))
    done(leases.started(world.service, world.hub_service, lease.id, models.StartedReport()))
    report = models.IdleReport(
        idle_since_ms=world.now_ms - HOUR, returns_ms=world.now_ms + 10 * SECOND
    )
    idle.report_idle(world.service, world.culler, lease.id, report)
    world.pass_time(SECOND)
    tell()
    assert outside.said() == [("idle", "Your notebook is idle")]
    assert "Its GPU will be returned at" in outside.mails[0][1].telling.text


def test_saved_kernels_warn_two_days_before_they_end_and_once(
    world: ServiceWorld, tell: Tell, outside: Outside
) -> None:
    choose(world, mail=["idle"])
    ask = models.LeaseRequest(user="ann", milli_gpu=500)
    lease = done(leases.acquire(world.service, world.hub_service, ask, key=None))
    done(leases.started(world.service, world.hub_service, lease.id, models.StartedReport()))
    kept = KeptKernels(
        kernels=2,
        kernel_bytes=1,
        variables=0,
        variable_bytes=0,
        variables_lost=0,
        until_ms=world.now_ms + 5 * DAY,
    )
    lease_id = WorkloadId(lease.id)
    world.service.ask(OPERATOR, NoteKept(workload_id=lease_id, kept=kept))
    for why, by in (("culled", world.culler), ("stopped", world.hub_service)):
        end = models.EndReport(why=why)  # type: ignore[arg-type] # of those that there are
        done(leases.end_lease(world.service, by, lease.id, end))
        world.pass_time(SECOND)
    tell()
    assert world.cluster.workloads[lease_id].state.value == "hibernated"
    assert outside.said() == [
        ("idle", "Your notebook: its GPU is returned"),
        ("idle", "Your notebook was stopped, and its kernels are kept"),
    ]
    first, kept_until = (one.telling.text for _, one in outside.mails)
    assert first == "Stopped because it was idle."
    assert "Its 2 kernels are kept until" in kept_until
    world.pass_time(3 * DAY + SECOND)
    tell()
    tell()
    assert outside.said()[2:] == [("idle", "Your notebook: kept kernels end soon")]


def test_what_was_read_is_told_though_the_scheduler_dies_between_any_two_steps(
    world: ServiceWorld, tell: Tell, outside: Outside, monkeypatch: pytest.MonkeyPatch
) -> None:
    choose(world, mail=["finish"], webhook=["finish"], url="https://example.org/x")
    world.script = Script(run_ms=10)
    submit(world)
    world.pass_time(SECOND)
    store = world.store.notifications

    def dies(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as killed:
        killed.setattr(store, "read", dies)
        with pytest.raises(KeyboardInterrupt):
            tell()
    assert outside.mails == []
    with monkeypatch.context() as killed:
        killed.setattr(store, "settle", dies)  # sent, and nobody has noted it
        with pytest.raises(KeyboardInterrupt):
            tell()
    assert len(outside.mails) == 1
    tell()
    tell()
    # Told again, as the same message: a receiver drops it by its id.
    assert len(outside.mails) == 2
    assert len({one.notification_id for _, one in outside.mails}) == 1
    assert len(outside.posts) == 1
    assert outside.posts[0][1] == "key-ann-1"
    assert outside.posts[0][2].notification_id != outside.mails[0][1].notification_id


def test_what_was_settled_while_it_was_read_is_sent_once(
    world: ServiceWorld, tell: Tell, outside: Outside, monkeypatch: pytest.MonkeyPatch
) -> None:
    choose(world, mail=["finish"])
    world.script = Script(run_ms=10)
    submit(world)
    world.pass_time(SECOND)
    epoch = lambda: world.loop.epoch  # noqa: E731
    Notifications(world.service, epoch=epoch).step()
    begun: list[Callable[[], None]] = []
    delivery = Delivery(world.service, epoch=epoch, start=begun.append)
    delivery.step()
    due = world.store.notifications.due

    def and_then_it_is_sent(*args: Any, **options: Any) -> Any:
        found = due(*args, **options)
        begun.pop()()
        return found

    monkeypatch.setattr(world.store.notifications, "due", and_then_it_is_sent)
    delivery.step()
    assert begun == []
    assert len(outside.mails) == 1


def test_an_event_is_told_with_what_it_left_behind_also_before_that_is_shown(
    world: ServiceWorld, tell: Tell, outside: Outside, monkeypatch: pytest.MonkeyPatch
) -> None:
    choose(world, mail=["finish"])
    world.script = Script(run_ms=60 * SECOND)
    submit(world, role={"milli_gpu": 1000})
    world.pass_time(30 * SECOND)
    before = world.loop.cluster
    world.pass_time(31 * SECOND)
    after = world.loop.cluster
    monkeypatch.setattr(world.loop, "_cluster", before)
    monkeypatch.setattr(world.loop, "catch_up", lambda: setattr(world.loop, "_cluster", after))
    tell()
    assert "held 0.02 GPU-hours" in outside.mails[0][1].telling.text


def test_a_receiver_that_is_away_is_asked_less_and_less_and_in_the_end_given_up(
    world: ServiceWorld, tell: Tell, outside: Outside
) -> None:
    choose(world, mail=["finish"])
    world.script = Script(run_ms=10)
    submit(world)
    world.pass_time(SECOND)
    outside.away = Unavailable("The mail server could not be used: TimeoutError")
    waits = []
    delivery = Delivery(world.service, epoch=lambda: world.loop.epoch, start=lambda work: work())
    Notifications(world.service, epoch=lambda: world.loop.epoch).step()
    while (one := newest(world)[0]).fate == "waiting":
        before = world.now_ms
        delivery.step()
        while newest(world)[0].tries == one.tries:
            world.now_ms = Millis(world.now_ms + 30 * SECOND)
            delivery.step()
        waits.append((world.now_ms - before) // SECOND)
    assert waits[1:5] == [30, 60, 120, 240]
    assert max(waits) == 3600
    assert (newest(world)[0].tries, len(waits)) == (MOST_TRIES, MOST_TRIES)
    assert newest(world)[0].fate == "failed"
    assert newest(world)[0].said == "The mail server could not be used: TimeoutError"
    assert delivery.fates() == {("mail", "failed"): 1}


def test_one_who_is_away_keeps_nobody_else_waiting_and_no_more_than_so_many_wait(
    world: ServiceWorld, outside: Outside, tell: Tell
) -> None:
    choose(world, webhook=["finish"], url="https://example.org/x")
    choose(world, "ada", mail=["finish"])
    world.script = Script(run_ms=10)
    for number in range(MOST_WAITING + 5):
        submit(world, name=f"j{number}")
    submit(world, "ada", name="hers")
    world.pass_time(SECOND)

    def post(*_: Any) -> None:
        raise Unavailable("example.org did not take it: TimeoutError")

    outside.post = post  # type: ignore[method-assign]
    webhook.send = post  # type: ignore[assignment] # put back by the fixture
    tell()
    assert outside.said() == [("finish", "hers-1 finished")]
    fates = [one.fate for one in world.store.notifications.newest(UserName("ann"), limit=1000)]
    assert fates.count(Fate.DROPPED) == 5
    assert fates.count(Fate.WAITING) == MOST_WAITING


def test_a_week_is_summed_up_from_the_report_each_monday_once(
    world: ServiceWorld, tell: Tell, outside: Outside
) -> None:
    choose(world, mail=["week"])
    begun = world.now_ms
    monday = begun - (begun - 4 * DAY) % (7 * DAY) + 7 * DAY
    row = LedgerRow(
        workload_id=WorkloadId("w"),
        minute_ms=Millis(monday - DAY),
        team="vision",
        pool="gpu",
        owner=UserName("ann"),
        kind="training",
        hold_class="guaranteed",
        held_milli_gpu_ms=1000 * 60_000 * 90,
        parked_milli_gpu_ms=1000 * 60_000 * 30,
        compute_percent_mean=50,
    )  # type: ignore[arg-type] # as its strings are
    world.store.add_ledger(world.loop.epoch, [row])
    world.now_ms = Millis(monday - DAY)
    world.script = Script(run_ms=10)
    submit(world)
    world.pass_time(SECOND)
    world.now_ms = Millis(monday + 6 * HOUR)
    tell()
    assert outside.mails == []
    world.now_ms = Millis(monday + 7 * HOUR)
    tell()
    tell()
    ((to, sent),) = outside.mails
    assert to == "ann@example.org"
    assert sent.telling.subject.startswith("your week, ")
    assert "GPU-hours: held 1.500, of these used 0.750" in sent.telling.text
    assert " Parked, for others to have: 0.500." in sent.telling.text
    assert "Jobs: 1 finished, 0 failed, 0 cancelled." in sent.telling.text
    preview = preferences.notifications_week(world.service, world.principal("ann"))
    assert preview.text == sent.telling.text
    assert "Simulated" not in preview.text
    pools = {name: replace(pool, simulated=True) for name, pool in world.cluster.pools.items()}
    world.loop._cluster = replace(world.cluster, pools=pools)
    without_gpus = preferences.notifications_week(world.service, world.principal("ann"))
    assert "Simulated: the GPUs of gpu have no hardware" in without_gpus.text
    nobody = preferences.notifications_week(world.service, world.principal("alf")).text
    assert "You held no GPU." in nobody


def test_a_choice_is_whole_or_refused_and_its_key_is_shown_once(
    world: ServiceWorld, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    first = choose(world, webhook=["finish"], url="https://example.org/x?token=hidden")
    assert first.key == "key-ann-1"
    assert choose(world, webhook=ALL, url="https://example.org/y").key is None
    assert choose(world, webhook=ALL, url="https://example.org/y", new_key=True).key == "key-ann-2"
    answer = preferences.notifications(world.service, world.principal("ann"))
    assert "key-ann" not in answer.model_dump_json()
    assert "hidden" not in caplog.text
    for request, why in (
        ({"webhook": ["finish"]}, "Name the address that messages are to be posted to"),
        ({"webhook": ["finish"], "url": "https://10.0.0.1/"}, "inside of this site's own network"),
        ({"mail": ["finish"], "address": "ann@other.org"}, "Allowed: example.org."),
    ):
        with pytest.raises(Exception, match=why):
            choose(world, **request)
    assert preferences.notifications(world.service, world.principal("ann")) == answer
    object.__setattr__(world.service, "notifications", NotificationSettings())
    off = preferences.notifications(world.service, world.principal("ann"))
    assert off.mail.why_not == "This installation sends no mail: an admin can name a mail server."
    with pytest.raises(Exception, match="sends no mail"):
        choose(world, mail=["finish"])
    with pytest.raises(Exception, match=r"^Nothing can be sent here\. This installation sends no"):
        preferences.test_notifications(world.service, world.principal("ann"))


def test_a_test_goes_every_chosen_way_and_not_many_times(
    world: ServiceWorld, tell: Tell, outside: Outside
) -> None:
    ann = world.principal("ann")
    with pytest.raises(Exception, match="Nothing is chosen"):
        preferences.test_notifications(world.service, ann)
    choose(world, mail=["week"], webhook=["week"], url="https://example.org/x")
    preferences.test_notifications(world.service, ann)
    with pytest.raises(Exception, match="The last test is on its way"):
        preferences.test_notifications(world.service, ann)
    tell()
    assert outside.said() == [("test", "a test")]
    assert json.loads(webhook.body_of(outside.posts[0][2]))["text"].startswith("ann asked for this")
    assert {one.fate for one in newest(world)} == {"sent"}


def test_a_test_is_tried_at_once_and_once_also_where_a_receiver_rests(
    world: ServiceWorld, tell: Tell, outside: Outside
) -> None:
    choose(world, webhook=["finish"], url="https://example.org/x")
    delivery = Delivery(world.service, epoch=lambda: world.loop.epoch, start=lambda work: work())
    outside.away = Unavailable("example.org answered with status 503")
    for number in range(3):
        preferences.test_notifications(world.service, world.principal("ann"))
        delivery.step()
        assert newest(world)[0].fate == "failed", number
        assert newest(world)[0].said == "example.org answered with status 503"
        world.pass_time(11 * SECOND)
    outside.away = None
    preferences.test_notifications(world.service, world.principal("ann"))
    delivery.step()
    assert newest(world)[0].fate == "sent"


def test_nobody_is_flooded_with_mail(world: ServiceWorld, tell: Tell, outside: Outside) -> None:
    choose(world, mail=["finish"], address="ann@example.org")
    world.script = Script(run_ms=10)
    for number in range(MOST_MAILS + 3):
        submit(world, name=f"j{number}")
    world.pass_time(SECOND)
    tell()
    assert len(outside.mails) == MOST_MAILS
    with pytest.raises(TooManyRequests, match="within an hour"):
        preferences.test_notifications(world.service, world.principal("ann"))
    world.pass_time(HOUR + SECOND)
    preferences.test_notifications(world.service, world.principal("ann"))
    tell()
    assert len(outside.mails) == MOST_MAILS + 1


def test_what_waits_behind_slow_receivers_keeps_nobody_elses_out_of_sight(
    world: ServiceWorld, outside: Outside
) -> None:
    for user in ("ann", "ada", "leo"):
        choose(world, user, webhook=["finish"], url="https://example.org/x")
    many = [(user, number) for user in ("ann", "ada") for number in range(100)]
    world.store.notifications.add(
        [
            notification(
                Telling(
                    owner=UserName(user),
                    about=About.FINISH,
                    source=f"{user} {number}",
                    at_ms=Millis(world.now_ms - (0 if user == "leo" else 5)),
                    subject="s",
                    text="t",
                ),
                Channel.WEBHOOK,
                world.now_ms,
            )
            for user, number in [*many, ("leo", 0)]
        ]
    )
    slow: list[Callable[[], None]] = []
    delivery = Delivery(world.service, epoch=lambda: world.loop.epoch, start=slow.append)
    delivery.step()
    assert len(slow) == 2
    delivery.step()
    assert len(slow) == 3
    slow[-1]()
    assert [one.telling.owner for _, _, one in outside.posts] == ["leo"]
