"""Whose operating-system account a user's jobs run under, and where their home is."""

from __future__ import annotations

import os
import pwd
from collections.abc import Callable
from functools import partial
from pathlib import Path

from gpucommons.gpu.account_names import USERNAME, account_name
from gpucommons.scheduler.errors import Misconfigured
from gpucommons.scheduler.executors.local.attempt.plan import Account
from gpucommons.scheduler.executors.local.launch_plan import refuse_home_name
from gpucommons.scheduler.wiring.options import SchedulerSettings

#: Accounts below belong to the system.
_FIRST_USER_UID = 1000


def account_of(user: str, *, template: str = USERNAME) -> Account:
    """The user's own account.

    Raises
    ------
    Misconfigured
        When there is none, or it belongs to the system.
    """
    try:
        found = pwd.getpwnam(account_name(template, user))
    except KeyError:
        message = f"{user} has no account on this machine: jobs run under their owner's account."
        raise Misconfigured(message) from None
    if found.pw_uid < _FIRST_USER_UID:
        message = f"{user} is an account of the system (uid {found.pw_uid}): jobs do not run as it."
        raise Misconfigured(message)
    groups = os.getgrouplist(found.pw_name, found.pw_gid)
    return Account(uid=found.pw_uid, gid=found.pw_gid, groups=tuple(groups))


def accounts(settings: SchedulerSettings, euid: int) -> Callable[[str], Account] | None:
    """How jobs change their account: only root can, and not where all share one."""
    if euid != 0 or settings.shared_account:
        return None
    return partial(account_of, template=settings.account_template)


def home_of(settings: SchedulerSettings, user: str) -> Path:
    """The user's home folder.

    Raises
    ------
    Misconfigured
        When there is none, or the name would lead out of the homes' folder.
    """
    if settings.home_template is not None:
        refuse_home_name(user)
        home = Path(settings.home_template.replace("{username}", user))
        # Who runs the demo submits from a terminal, beside the hub's users.
        return Path.home() if _is_ours(user) and not home.exists() else home
    try:
        return Path(pwd.getpwnam(account_name(settings.account_template, user)).pw_dir)
    except KeyError:
        if settings.shared_account:
            return Path.home()
        message = f"{user} has no account on this machine, so no home folder."
        raise Misconfigured(message) from None


def _is_ours(user: str) -> bool:
    """Whether this is the account that the service itself runs under."""
    try:
        return pwd.getpwuid(os.geteuid()).pw_name == user
    except KeyError:
        return False
