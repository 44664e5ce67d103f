"""What the operator decides: command line, environment, and what follows from them."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True, kw_only=True, slots=True)
class HubOptions:
    """How the hub is reached, as it tells its services."""

    api_url: str
    token: str = field(repr=False)
    #: Of this service, behind the hub's proxy.
    prefix: str = "/services/gpucommons/"
    base_url: str = "/"
    #: Public address where ``subdomain_host`` is set.
    host: str = ""
    client_id: str = "service-gpucommons"


@dataclass(frozen=True, kw_only=True, slots=True)
class SchedulerSettings:
    """Everything that the composition root needs."""

    state: Path
    api_port: int = 0
    pages_port: int = 0
    store_url: str = ""
    agent_socket: Path | None = None
    #: Applied at the first start.
    config: Path | None = None
    #: All users share one operating-system account.
    shared_account: bool = False
    #: Home folder of a user under a shared account; "{username}" is replaced.
    home_template: str | None = None
    idle_after_s: int = 3600
    warn_after_s: int = 3000
    #: Browsers may change quotas although notebooks share the pages' address.
    allow_admin_writes: bool = False
    max_snapshot_mib: int = 256
    retention_days: int = 400
    #: None = no hub: the API answers at its unix socket alone, and to jobs.
    hub: HubOptions | None = None

    @property
    def database(self) -> str:
        """Where state is kept."""
        return self.store_url or f"sqlite:///{self.state / 'scheduler.db'}"

    @property
    def agent(self) -> Path:
        """The node agent's control socket."""
        return self.agent_socket or self.state / "agent" / "control.sock"


def parser() -> argparse.ArgumentParser:
    """The command line of ``python -m gpucommons.scheduler``."""
    found = argparse.ArgumentParser(
        prog="python -m gpucommons.scheduler",
        description="The scheduler of GPU Commons: API, decisions, jobs and pages of one machine.",
    )
    add = found.add_argument
    add("--state", type=Path, required=True, help="folder for everything that is kept")
    add("--config", type=Path, help="YAML with pools and teams, applied at the first start")
    add("--api-port", type=int, default=0, help="port of the API on 127.0.0.1 (0: any)")
    add("--pages-port", type=int, default=0, help="port of the hub pages on 127.0.0.1 (0: any)")
    add("--store-url", default="", help="default: sqlite:///STATE/scheduler.db")
    add("--agent-socket", type=Path, help="default: STATE/agent/control.sock")
    add("--shared-account", action="store_true", help="all users share one account")
    add("--home-template", help="home of a user under a shared account, with {username}")
    add("--idle-after-s", type=_positive, default=3600, help="the culler's limit, for screens")
    add("--warn-after-s", type=_positive, default=3000, help="the culler's limit, for screens")
    add("--allow-admin-writes", action="store_true", help="browsers may change quotas")
    add("--max-snapshot-mib", type=_positive, default=256, help="largest upload of a job's files")
    add(
        "--retention-days",
        type=_positive,
        default=400,
        help="history, and what jobs left on disk, is kept so long",
    )
    return found


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        message = f"{text} is not a positive number."
        raise argparse.ArgumentTypeError(message)
    return number


def read_settings(arguments: Sequence[str], environ: Mapping[str, str]) -> SchedulerSettings:
    """Settings from the command line and from what the hub puts into its services' environment."""
    given = parser().parse_args(arguments)
    if given.warn_after_s >= given.idle_after_s:
        parser().error("--warn-after-s must be less than --idle-after-s")
    return SchedulerSettings(
        state=given.state.absolute(),
        config=given.config,
        api_port=given.api_port,
        pages_port=given.pages_port,
        store_url=given.store_url,
        agent_socket=given.agent_socket,
        shared_account=given.shared_account,
        home_template=given.home_template,
        idle_after_s=given.idle_after_s,
        warn_after_s=given.warn_after_s,
        allow_admin_writes=given.allow_admin_writes,
        max_snapshot_mib=given.max_snapshot_mib,
        retention_days=given.retention_days,
        hub=_hub_options(environ),
    )


def _hub_options(environ: Mapping[str, str]) -> HubOptions | None:
    url, token = environ.get("JUPYTERHUB_API_URL"), environ.get("JUPYTERHUB_API_TOKEN")
    if not url or not token:
        return None
    return HubOptions(
        api_url=url,
        token=token,
        prefix=environ.get("JUPYTERHUB_SERVICE_PREFIX", "/services/gpucommons/"),
        base_url=environ.get("JUPYTERHUB_BASE_URL", "/"),
        host=environ.get("JUPYTERHUB_HOST", ""),
        client_id=environ.get("JUPYTERHUB_CLIENT_ID", "service-gpucommons"),
    )
