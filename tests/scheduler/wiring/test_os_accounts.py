"""Whose account a user's jobs run under, where accounts are called otherwise than users."""

from __future__ import annotations

import pwd
from pathlib import Path

import pytest

from gpucommons.scheduler.errors import Misconfigured
from gpucommons.scheduler.wiring.options import SchedulerSettings, read_settings
from gpucommons.scheduler.wiring.os_accounts import accounts, home_of

UID, GROUP = 4711, 4712


@pytest.fixture(autouse=True)
def _machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine with one account."""
    known = {
        "jupyter-ann": pwd.struct_passwd(("jupyter-ann", "x", UID, GROUP, "", "/home/of-ann", "sh"))
    }
    monkeypatch.setattr("pwd.getpwnam", known.__getitem__)
    monkeypatch.setattr("os.getgrouplist", lambda _name, group: [group])


def settings(state: Path, template: str) -> SchedulerSettings:
    words = ["--state", str(state), "--account-template", template]
    return read_settings(words, {})


def test_jobs_and_homes_are_those_of_the_account_that_the_template_names(tmp_path: Path) -> None:
    found = settings(tmp_path, "jupyter-{username}")
    account_of = accounts(found, 0)
    assert account_of is not None
    assert (account_of("ann").uid, account_of("ann").gid) == (UID, GROUP)
    assert home_of(found, "ann") == Path("/home/of-ann")
    with pytest.raises(Misconfigured, match="bob has no account on this machine"):
        account_of("bob")


def test_a_user_of_the_accounts_name_is_somebody_else(tmp_path: Path) -> None:
    """On the hub she is ann; one who is called as her account gets another one."""
    account_of = accounts(settings(tmp_path, "jupyter-{username}"), 0)
    assert account_of is not None
    with pytest.raises(Misconfigured):
        account_of("jupyter-ann")


def test_a_template_for_all_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SystemExit):
        settings(tmp_path, "everybody")
