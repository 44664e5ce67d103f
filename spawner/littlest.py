"""The Littlest JupyterHub on slices of GPUs: its users' accounts, made as its own spawner makes them.

Its spawner starts notebooks as units of systemd, ours as processes of the hub's; so what it sets for units
(limits of memory and processors) does not hold here.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
from pathlib import Path
from typing import Any

from traitlets.config import Config

from gpucommons.spawner.form.refusal import refusal
from gpucommons.spawner.local import GpuLocalSpawner
from gpucommons.spawner.workstation import configure_beside

_PREFIX, _DEFAULT_PREFIX = "TLJH_INSTALL_PREFIX", "/opt/tljh"
_USERS, _ADMINS = "jupyterhub-users", "jupyterhub-admins"
_SPAWNER = "gpucommons.spawner.littlest.GpuLittlestSpawner"


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
        from tljh import user  # noqa: PLC0415 - it is there on such a hub alone

        user.ensure_user(self.account)
        user.ensure_user_group(self.account, _USERS)
        change = user.ensure_user_group if self.user.admin else user.remove_user_group
        change(self.account, _ADMINS)
        # Its own `users.extra_user_groups`.
        for group, members in self.config.UserCreatingSpawner.get("user_groups", {}).items():
            if self.user.name in members:
                user.ensure_user_group(self.account, group)


def configure_littlest(c: Any, state_folder: str) -> None:
    """Configure The Littlest JupyterHub from what ``gpucommons up --beside-hub`` wrote.

    Its authenticator, proxy and settings stay, and its spawner where nothing was written yet. Its files of
    configuration begin empty and are merged: what is ours is added to lists that are not seen here.
    """
    own = Config()
    configure_beside(own, state_folder)
    if (Path(state_folder) / "hub.json").is_file():
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
