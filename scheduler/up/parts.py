"""Which processes make up the machine: their command lines and environments. Pure."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from gpucommons.gpu.hibernation import criu
from gpucommons.scheduler.up.settings import Settings
from gpucommons.scheduler.up.state_folder import StateFolder

SERVICE_PREFIX = "/services/gpucommons/"
#: Nothing listens there.
_NOBODY = "http://127.0.0.1:1"
#: Bounds that the proxy has not of itself.
_PROXY_BOUNDS = Path(__file__).with_name("proxy_bounds.cjs")
_SCOPES = '["custom:gpucommons:read", "custom:gpucommons:submit", "custom:gpucommons:admin"]'
#: What never passes from the caller's environment to a part.
_SECRET_PREFIXES = ("JUPYTERHUB_", "CONFIGPROXY_", "GPUCOMMONS_")
#: Whoever has one of these is a job or a notebook: its environment is not the word of who starts this.
_NOT_A_PERSONS = ("GPUCOMMONS_ATTEMPT_ID", "GPUCOMMONS_LEASE_ID")


@dataclass(frozen=True, kw_only=True, slots=True)
class Part:
    """One process to keep alive."""

    name: str
    argv: tuple[str, ...]
    env: Mapping[str, str] = field(repr=False)
    log: Path
    #: Ready when this socket accepts and these URLs, asked in order, answer 200.
    ready_socket: Path | None = None
    ready_urls: tuple[str, ...] = ()
    #: What the kernel sends it when ``up`` itself is killed.
    orphan_signal: int = signal.SIGTERM
    #: Its umask; -1 = that of ``up``, which notebooks and jobs inherit.
    umask: int = -1
    #: How long it may take to stop before it is killed.
    stop_s: float = 10.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Machine:
    """What the parts are built from."""

    settings: Settings
    folder: StateFolder
    ports: Mapping[str, int]
    #: ``node`` and the proxy's script.
    proxy_command: tuple[str, ...]
    #: Pools, teams and quotas in force.
    config: Path
    base_env: Mapping[str, str] = field(repr=False)

    @property
    def api_url(self) -> str:
        """The scheduler's API."""
        return f"http://127.0.0.1:{self.ports['api']}"

    @property
    def pages_url(self) -> str:
        """Ticket page and GPU admin, behind the hub's proxy."""
        return f"http://127.0.0.1:{self.ports['pages']}"

    @property
    def hub_api_url(self) -> str:
        """The hub's REST API."""
        return self.settings.beside or f"http://127.0.0.1:{self.ports['hub']}/hub/api"

    @property
    def hub_base(self) -> str:
        """The path below which the hub's pages are; ``/`` for our own."""
        return urlsplit(self.hub_api_url).path.removesuffix("hub/api")


def clean_env(environ: Mapping[str, str]) -> dict[str, str]:
    """The caller's environment without other services' secrets, and with our programs first."""
    env = {name: value for name, value in environ.items() if not name.startswith(_SECRET_PREFIXES)}
    programs = str(Path(sys.executable).parent)
    env["PATH"] = os.pathsep.join(
        [programs, *(p for p in env.get("PATH", "").split(os.pathsep) if p and p != programs)]
    )
    env["PYTHONUNBUFFERED"] = "1"
    if named := named_criu(environ):
        env[criu.VARIABLE] = named
    return env


def named_criu(environ: Mapping[str, str]) -> str:
    """The place of CRIU that who starts this chose; empty where they chose none.

    Whether it is one, and nobody else may write there, is looked at by each who would run it.
    """
    named = environ.get(criu.VARIABLE, "")
    if not named or any(name in environ for name in _NOT_A_PERSONS):
        return ""
    return str(Path(named).expanduser().absolute())


def agent_part(settings: Settings, folder: StateFolder, env: Mapping[str, str]) -> Part:
    """The node agent, which everything else asks for the GPUs."""
    argv = [
        *_module("gpucommons.gpu.agent"),
        *("--state", str(folder.agent)),
        *("--simulate", settings.simulate),
        *("--simulated-topology", settings.simulated_topology),
    ]
    if settings.only_watch:
        argv.append("--only-watch")
    if settings.agent_metrics_port is not None:
        argv += ["--metrics-port", str(settings.agent_metrics_port)]
    if settings.cloud is not None:
        argv += ["--cloud", settings.cloud, "--cloud-metadata", settings.cloud_metadata]
    return Part(
        name="agent",
        argv=tuple(argv),
        env=env,
        log=folder.logs / "agent.log",
        ready_socket=folder.agent / "control.sock",
        # Users pass through its folder to their own slice; what else lies there is not theirs.
        umask=0o077,
    )


def other_parts(machine: Machine) -> tuple[Part, ...]:
    """Everything but the agent, in order of starting."""
    if machine.settings.beside:
        return (_scheduler(machine), _culler(machine))
    if not machine.settings.hub:
        return (_scheduler(machine),)
    return (_scheduler(machine), _proxy(machine), _hub(machine), _culler(machine))


def _scheduler(machine: Machine) -> Part:
    settings, folder = machine.settings, machine.folder
    argv = [
        *_module("gpucommons.scheduler"),
        *("--state", str(folder.root)),
        *("--config", str(machine.config)),
        *("--api-port", str(machine.ports["api"])),
        *("--pages-port", str(machine.ports["pages"])),
        *("--idle-after-s", str(settings.idle_after_s)),
        *("--warn-after-s", str(settings.warn_after_s)),
    ]
    if settings.shared_account:
        argv += ["--shared-account", "--home-template", str(folder.homes / "{username}")]
    else:
        argv += ["--account-template", settings.account_template]
    for executor in settings.executors:
        argv += ["--executor", executor]
    if settings.sample_data:
        argv.append("--sample-data")
    if settings.notifications is not None:
        argv += ["--notifications", str(settings.notifications)]
    if settings.admission != "accounts":
        # Notebooks and pages share one origin. Where users trust each other, or there is only
        # one, that is no way to gain anything.
        argv.append("--allow-admin-writes")
    return Part(
        name="scheduler",
        argv=tuple(argv),
        env={
            **machine.base_env,
            **(_service_env(machine) if settings.hub or settings.beside else {}),
        },
        log=folder.logs / "scheduler.log",
        ready_urls=(f"{machine.api_url}/readyz",),
    )


def _service_env(machine: Machine) -> dict[str, str]:
    """What a hub gives the services that it starts itself."""
    return {
        "JUPYTERHUB_SERVICE_NAME": "gpucommons",
        "JUPYTERHUB_SERVICE_PREFIX": machine.hub_base + SERVICE_PREFIX.removeprefix("/"),
        "JUPYTERHUB_API_URL": machine.hub_api_url,
        "JUPYTERHUB_API_TOKEN": machine.folder.token("service"),
        "JUPYTERHUB_BASE_URL": machine.hub_base,
        "JUPYTERHUB_HOST": "",
        "JUPYTERHUB_CLIENT_ID": "service-gpucommons",
        "JUPYTERHUB_OAUTH_ACCESS_SCOPES": '["access:services!service=gpucommons"]',
        "JUPYTERHUB_OAUTH_CLIENT_ALLOWED_SCOPES": _SCOPES,
    }


def _proxy(machine: Machine) -> Part:
    public, api = machine.settings.port, machine.ports["proxy_api"]
    return Part(
        name="proxy",
        argv=(
            machine.proxy_command[0],
            *("--require", str(_PROXY_BOUNDS)),
            *machine.proxy_command[1:],
            *("--ip", "127.0.0.1", "--port", str(public)),
            *("--api-ip", "127.0.0.1", "--api-port", str(api)),
            # Until the hub has told it all ways nothing is "not found": pages that are open try again.
            *("--default-target", _NOBODY),
            *("--error-target", f"http://127.0.0.1:{machine.ports['hub']}/hub/error"),
            *("--log-level", "warn"),
        ),
        env={**machine.base_env, "CONFIGPROXY_AUTH_TOKEN": machine.folder.token("proxy")},
        log=machine.folder.logs / "proxy.log",
        ready_urls=(f"http://127.0.0.1:{public}/_chp_healthz",),
    )


def _hub(machine: Machine) -> Part:
    return Part(
        name="hub",
        argv=(*_module("jupyterhub"), "-f", str(machine.folder.hub_config)),
        env=machine.base_env,
        log=machine.folder.logs / "hub.log",
        ready_urls=(
            f"http://127.0.0.1:{machine.ports['hub']}/hub/health",
            # Through the proxy too: a hub that has no route yet is not there for anybody.
            f"http://127.0.0.1:{machine.settings.port}/hub/health",
        ),
        # SIGTERM would make it clean up; killed, it leaves the notebooks running, and the next
        # start takes them up again.
        orphan_signal=signal.SIGKILL,
        stop_s=60.0,
    )


def _culler(machine: Machine) -> Part:
    settings = machine.settings
    return Part(
        name="culler",
        argv=(
            *_module("gpucommons.idle_culler"),
            *("--scheduler-url", machine.api_url),
            *("--idle-after-s", str(settings.idle_after_s)),
            *("--warn-after-s", str(settings.warn_after_s)),
            *("--every-s", str(max(1, min(60, settings.warn_after_s // 10)))),
        ),
        env={
            **machine.base_env,
            "JUPYTERHUB_API_URL": machine.hub_api_url,
            "JUPYTERHUB_API_TOKEN": machine.folder.token("culler"),
        },
        log=machine.folder.logs / "culler.log",
    )


def _module(name: str) -> tuple[str, ...]:
    # The folder in which this was started may be anyone's to write, and a plugin that lies there would be
    # found and run with our rights.
    return (sys.executable, "-P", "-m", name)
