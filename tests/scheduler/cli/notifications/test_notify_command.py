"""What one is told, chosen from a terminal."""

from __future__ import annotations

from typing import Any

import pytest
from command_line import Cli, WatchedWorld

from gpucommons.scheduler.client import report_calls
from gpucommons.scheduler.notifications import confirming
from gpucommons.scheduler.notifications.settings import NotificationSettings
from gpucommons.scheduler.service.notifications import preferences

SETTINGS = {
    "mail": {"host": "smtp", "sender": "gpu@example.org", "domains": ["example.org"]},
    "webhooks": {},
}


def test_what_is_not_named_stays_and_what_is_not_possible_is_said(
    cli: Cli, world: WatchedWorld
) -> None:
    off = cli("notify", "show").out
    assert "mail: off. This installation sends no mail" in off
    settings = NotificationSettings.model_validate(SETTINGS)
    object.__setattr__(world.service, "notifications", settings)
    nowhere = cli("notify", "set", "--mail", "finish")
    assert (nowhere.code, "Name the address that mail is to go to." in nowhere.err) == (2, True)
    cli("notify", "set", "--mail", "finish,idle", "--address", "ann@example.org")
    hook = cli("notify", "set", "--webhook", "all", "--to", "https://example.org/x").out
    assert "mail: idle, finish, to ann@example.org" in hook
    assert "webhook: idle, start, preempt, finish, week, to https://example.org/x" in hook
    assert "Webhooks are signed with this key, which is not shown again:" in hook
    assert "signed with this key" not in cli("notify", "show").out
    assert "mail: nothing is chosen" in cli("notify", "set", "--mail", "none").out
    unsaid = cli("notify", "show").out
    assert "No mail goes there before you enter the code" not in unsaid
    assert "A test is on its way." in cli("notify", "test").out
    assert "waiting" in cli("notify", "show").out
    assert "You held no GPU." in cli("notify", "week").out
    assert "Say what to change" in cli("notify", "set").err
    unknown = cli("notify", "set", "--mail", "all,x")
    assert unknown.code == 2
    assert "'all' is none of idle, start, preempt, finish, week, all, none." in unknown.err


def test_an_address_is_confirmed_by_its_code_and_admins_alone_forget_a_user(
    cli: Cli, world: WatchedWorld
) -> None:
    settings = NotificationSettings.model_validate(SETTINGS)
    object.__setattr__(world.service, "notifications", settings)
    said = cli("notify", "set", "--mail", "finish", "--address", "ann@example.org").out
    assert "No mail goes there before you enter the code that is mailed to it." in said
    wrong = cli("notify", "confirm", "AAAA")
    assert (wrong.code, "That is not the code that was sent last" in wrong.err) == (2, True)
    choice = next(one for one in world.store.notifications.choices())
    code = confirming.code(choice, world.service.webhook_key(choice.owner, 0))
    assert "Confirmed: mail goes to ann@example.org." in cli("notify", "confirm", code).out
    gone = cli("users", "forget", choice.owner)
    assert (gone.code, "Only admins may forget what a user has chosen" in gone.err) == (5, True)


def test_an_older_scheduler_is_told_no_version_which_it_would_refuse(
    cli: Cli, world: WatchedWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = NotificationSettings.model_validate(SETTINGS)
    object.__setattr__(world.service, "notifications", settings)
    bodies, call = list[dict[str, Any]](), report_calls.set_notifications

    def kept(request: Any) -> Any:
        bodies.append(request.model_dump(exclude_unset=True))
        return call(request)

    monkeypatch.setattr(report_calls, "set_notifications", kept)
    choose = ("notify", "set", "--mail", "none")
    assert cli(*choose).code == 0
    monkeypatch.setattr(preferences, "version", lambda _choice: "")
    assert cli(*choose).code == 0
    assert ["seen" in one for one in bodies] == [True, False]
