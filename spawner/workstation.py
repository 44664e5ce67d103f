"""The hub of ``gpucommons up``, or another one on the same machine.

The supervisor writes the facts (ports, users, teams) as JSON and keeps the tokens in files of their
own; this module turns both into hub configuration.
"""

from __future__ import annotations

import json
import logging
from dataclasses import replace
from pathlib import Path
from typing import Any

from gpucommons.gpu.account_names import USERNAME
from gpucommons.gpu.said_once import quiet_down
from gpucommons.spawner.hub_config import HubSettings, configure, leave_out

#: Ends hub and notebooks in order when the supervisor is asked to stop; tells a new proxy the routes.
UP_SERVICE = "gpucommons-up"
#: Defaults of JupyterLab's settings, in a folder that every account may read; users' own win.
LAB_DEFAULTS = Path(__file__).parent / "jupyter_config"


_SPAWNER = "gpucommons.spawner.local.GpuLocalSpawner"
_UNCONNECTED = (
    "This hub is not connected to its GPU scheduler, so only CPU can be started. The hub's log says to"
    " its admin what is missing."
)
_MISSING = (
    "GPU Commons is left out, and the hub starts without it: %s cannot be read (%s). Start"
    " `gpucommons up --beside-hub URL --state %s` as the account of this hub, then restart the hub. To take"
    " it out for good: gpucommons install --config FILE --undo."
)

log = logging.getLogger("gpucommons.spawner")


def configure_workstation(c: Any, facts_path: str) -> None:
    """Configure the hub from what the supervisor wrote."""
    facts = json.loads(Path(facts_path).read_text())
    quiet_down("JupyterHub", "asyncio", "tornado.access", "tornado.application", "tornado.general")
    state = Path(facts["state"])
    configure(c, _settings(facts, state))
    c.JupyterHub.services.append({"name": UP_SERVICE, "api_token": _token(state, "up")})
    c.JupyterHub.load_roles.append(
        {"name": UP_SERVICE, "services": [UP_SERVICE], "scopes": ["shutdown", "proxy"]}
    )
    _addresses(c, facts, state)
    _admission(c, facts, state)
    _notebooks(c, facts)


def configure_beside(c: Any, state_folder: str) -> None:
    """Configure a hub of one's own from what ``gpucommons up --beside-hub`` wrote.

    Authenticator, addresses, proxy and database stay as they are. Where nothing was written yet the hub
    starts without GPUs, and says so.
    """
    state = Path(state_folder)
    try:
        facts = json.loads((state / "hub.json").read_text())
        settings = _settings(facts, state)
    except OSError as error:
        log.warning(_MISSING, error.filename, error.strerror, state)
        leave_out(c, spawner_class=_SPAWNER, why=_UNCONNECTED)
        return
    if any(isinstance(one, dict) and one.get("manage_groups") for one in c.values()):
        # The hub refuses groups from here then: they come from where its users come from.
        settings = replace(settings, teams={}, admins=())
    configure(c, settings)
    c.LeaseMixin.shared_account = facts["admission"] != "accounts"
    c.GpuLocalSpawner.home_dir_template = facts["homes"]
    # An `up` of before this option wrote none.
    c.GpuLocalSpawner.account_template = facts.get("accounts", USERNAME)


def _settings(facts: dict[str, Any], state: Path) -> HubSettings:
    return HubSettings(
        scheduler_url=facts["api_url"],
        pages_url=facts["pages_url"],
        service_token=_token(state, "service"),
        culler_token=_token(state, "culler"),
        spawner_token=_token(state, "spawner"),
        teams=facts["teams"],
        admins=facts["admins"],
        agent_dir=facts["agent_dir"],
    )


def _addresses(c: Any, facts: dict[str, Any], state: Path) -> None:
    hub = state / "hub"
    hub.mkdir(mode=0o700, exist_ok=True)
    c.JupyterHub.bind_url = f"http://127.0.0.1:{facts['port']}"
    c.JupyterHub.hub_bind_url = f"http://127.0.0.1:{facts['ports']['hub']}"
    c.JupyterHub.db_url = f"sqlite:///{hub / 'jupyterhub.sqlite'}"
    c.JupyterHub.cookie_secret_file = str(hub / "cookie_secret")
    # The supervisor keeps the proxy apart from the hub: open notebooks stay reachable while
    # the hub restarts, and no proxy with a forgotten token is ever left behind.
    c.ConfigurableHTTPProxy.should_start = False
    c.ConfigurableHTTPProxy.api_url = f"http://127.0.0.1:{facts['ports']['proxy_api']}"
    c.ConfigurableHTTPProxy.auth_token = _token(state, "proxy")
    # Notebooks outlive the hub; the supervisor ends them when it is stopped itself.
    c.JupyterHub.cleanup_servers = False
    c.JupyterHub.cleanup_proxy = False


def _admission(c: Any, facts: dict[str, Any], state: Path) -> None:
    if facts["admission"] == "accounts":
        c.JupyterHub.authenticator_class = "pam"
    else:
        c.JupyterHub.authenticator_class = "shared-password"
        password = (state / "password").read_text().strip()
        c.SharedPasswordAuthenticator.user_password = password
    c.Authenticator.allowed_users = set(facts["users"])
    # With a set of users the hub would also admit whoever its database knows: who has left all teams, too.
    c.Authenticator.allow_existing_users = False


def _notebooks(c: Any, facts: dict[str, Any]) -> None:
    c.LeaseMixin.shared_account = facts["admission"] != "accounts"
    c.GpuLocalSpawner.home_dir_template = facts["homes"]
    c.GpuLocalSpawner.account_template = facts.get("accounts", USERNAME)
    c.Spawner.default_url = "/lab"
    c.Spawner.args = [
        # No network calls, and no toast over the first screen.
        "--LabApp.news_url=None",
        "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate",
    ]
    # JupyterLab 4 asks whether to show news even where there are none to fetch.
    c.Spawner.environment = {"JUPYTER_CONFIG_PATH": str(LAB_DEFAULTS)}


def _token(state: Path, name: str) -> str:
    return (state / "tokens" / name).read_text().strip()
