"""The Littlest JupyterHub on slices of GPUs: its users' accounts, made as its own spawner makes them.

Its spawner starts notebooks as units of systemd, ours as processes of the hub's; so what it sets for units
(limits of memory and processors) does not hold here.
"""

from __future__ import annotations

import asyncio
import logging
import os
import pwd
import subprocess
from http import HTTPStatus
from pathlib import Path
from typing import Any

from traitlets.config import Config

from gpucommons.gpu.account_names import USERNAME
from gpucommons.spawner.form.refusal import refusal
from gpucommons.spawner.hub_config import leave_out
from gpucommons.spawner.local import GpuLocalSpawner
from gpucommons.spawner.workstation import configure_beside

_PREFIX, _DEFAULT_PREFIX = "TLJH_INSTALL_PREFIX", "/opt/tljh"
_USERS, _ADMINS = "jupyterhub-users", "jupyterhub-admins"
_SPAWNER = "gpucommons.spawner.littlest.GpuLittlestSpawner"
#: As its own spawner calls them. Its users choose their passwords themselves: one who is called as another
#: account of the machine must not get that.
_ACCOUNTS = f"jupyter-{USERNAME}"
_OTHER_ACCOUNTS = (
    "GPU Commons is left out, and the hub starts without it: `gpucommons up` for %s gives notebooks and jobs"
    " other accounts than The Littlest JupyterHub. Start it as root with --account-template %s and without"
    " --trusted-users, then restart the hub."
)
#: It keeps so little of a digest that anybody finds a name which is cut to another one's account.
_CUT_OTHERWISE = (
    "A long name: this machine has an account {before} from before GPU Commons, which other long names are cut to"
    " as well. Nothing was started. If it is yours, your admin can hand it to you: usermod --login {account}"
    " --home /home/{account} --move-home {before}, then groupmod --new-name {account} {before}. If it is not,"
    " your admin can make yours: useradd --create-home {account}."
)

log = logging.getLogger("gpucommons.spawner")


class GpuLittlestSpawner(GpuLocalSpawner):
    """Notebooks in the accounts of The Littlest JupyterHub."""

    async def start(self) -> tuple[str, int]:
        """See :class:`GpuLocalSpawner`; a user who comes for the first time gets an account before."""
        try:
            await asyncio.to_thread(self._make_account)
        except (subprocess.CalledProcessError, OSError, KeyError) as error:
            message = (
                f"The account {self.account} could not be made ({error}). Nothing was started: tell your"
                " admin."
            )
            raise refusal(message, reason="no_account", status=503) from error
        return await super().start()

    def _make_account(self) -> None:
        """What ``tljh.user_creating_spawner`` does before a start."""
        from tljh import normalize, user  # noqa: PLC0415 - they are there on such a hub alone

        before = normalize.generate_system_username(_ACCOUNTS.replace(USERNAME, self.user.name))
        if before != self.account and _is_there(before) and not _is_there(self.account):
            message = _CUT_OTHERWISE.format(before=before, account=self.account)
            raise refusal(message, reason="no_account", status=HTTPStatus.CONFLICT)
        user.ensure_user(self.account)
        user.ensure_user_group(self.account, _USERS)
        change = user.ensure_user_group if self.user.admin else user.remove_user_group
        change(self.account, _ADMINS)
        # Its own `users.extra_user_groups`.
        for group, members in self.config.UserCreatingSpawner.get("user_groups", {}).items():
            if self.user.name in members:
                user.ensure_user_group(self.account, group)


def _is_there(account: str) -> bool:
    try:
        pwd.getpwnam(account)
    except KeyError:
        return False
    return True


def configure_littlest(c: Any, state_folder: str) -> None:
    """Configure The Littlest JupyterHub from what ``gpucommons up --beside-hub`` wrote.

    Its authenticator, proxy and settings stay, and its spawner where nothing was written yet. Its files of
    configuration begin empty and are merged: what is ours is added to lists that are not seen here.
    """
    own = Config()
    configure_beside(own, state_folder)
    is_connected = "account_template" in own.GpuLocalSpawner
    if is_connected and not _has_its_accounts(own):
        log.error(_OTHER_ACCOUNTS, state_folder, _ACCOUNTS)
        own, is_connected = Config(), False
        leave_out(own, spawner_class=_SPAWNER, why="")
    if is_connected:
        own.JupyterHub.spawner_class = _SPAWNER
        programs = Path(os.environ.get(_PREFIX, _DEFAULT_PREFIX)) / "user" / "bin"
        own.GpuLittlestSpawner.cmd = [str(programs / "python"), "-m", "jupyterhub.singleuser"]
        own.GpuLittlestSpawner.environments = {"The Littlest JupyterHub": str(programs / "python")}
    else:
        del own.JupyterHub["spawner_class"]
    for name, value in own.pop("JupyterHub").items():
        if isinstance(value, list):
            c.JupyterHub[name].extend(value)
        elif isinstance(value, dict | set):
            c.JupyterHub[name].update(value)
        else:
            c.JupyterHub[name] = value
    c.merge(own)


def _has_its_accounts(own: Config) -> bool:
    template = own.GpuLocalSpawner.account_template
    return template == _ACCOUNTS and not own.LeaseMixin.shared_account
