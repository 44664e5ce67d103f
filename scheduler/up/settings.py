"""What the command line asked for, resolved against the machine, in one frozen value."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from gpucommons.gpu.account_names import USERNAME
from gpucommons.gpu.clouds.notice_source import LINK_LOCAL, host_and_port
from gpucommons.gpu.devices.topology import SimulatedTopology

#: Who may log in. ``one``: the account that runs ``up``. ``trusted``: several users who share that
#: account. ``accounts``: real accounts of this machine (as root).
Admission = Literal["one", "trusted", "accounts"]

DEMO_ADMIN = "admin"
#: Real accounts must be able to pass to their sockets, which root's home does not allow.
SYSTEM_STATE = Path("/var/lib/gpucommons")


@dataclass(frozen=True, kw_only=True, slots=True)
class Settings:
    """Everything ``up`` needs to know."""

    state: Path
    simulate: str
    port: int
    config: Path | None
    hub: bool
    admission: Admission
    admins: tuple[str, ...]
    #: The account that runs ``up``.
    account: str
    stop_jobs: bool
    idle_after_s: int
    warn_after_s: int
    only_watch: bool = False
    simulated_topology: SimulatedTopology = SimulatedTopology.UNKNOWN
    #: Reports can show sample data.
    sample_data: bool = False
    #: How people are told by mail and webhook; None = not at all.
    notifications: Path | None = None
    agent_metrics_port: int | None = None
    #: ``NAME[=FILE]``, as the scheduler takes them.
    executors: tuple[str, ...] = ()
    cloud: str | None = None
    cloud_metadata: str = LINK_LOCAL
    #: The API of a hub that runs by itself on this machine, beside which this runs; "" = there is none.
    beside: str = ""
    #: What users' own accounts are called, with ``{username}``.
    account_template: str = USERNAME

    @property
    def shared_account(self) -> bool:
        """True where notebooks and jobs run as the account of ``up`` itself."""
        return self.admission != "accounts"


def default_state_dir(environ: Mapping[str, str]) -> Path:
    """Where ``gpucommons up`` keeps its state unless told otherwise."""
    if environ.get("GPUCOMMONS_STATE"):
        return Path(environ["GPUCOMMONS_STATE"])
    base = environ.get("XDG_STATE_HOME")
    return (Path(base) if base else Path.home() / ".local" / "state") / "gpucommons"


def read_settings(arguments: argparse.Namespace, environ: Mapping[str, str]) -> Settings:
    """Turn parsed arguments into settings.

    Raises
    ------
    ValueError
        When they contradict each other or name a file that is not there.
    """
    _check_idle_limits(arguments)
    host_and_port(arguments.cloud_metadata)
    demo = arguments.demo
    told = _existing(arguments.notifications, "--notifications a YAML file with the mail server")
    config = _existing(
        arguments.config or (_demo_config() if demo else None),
        "--config a YAML file with pools and teams",
    )
    account = _account_name()
    admission = _admission(trusted=arguments.trusted_users or demo)
    admins = tuple(arguments.admin) or ((DEMO_ADMIN,) if demo else ())
    if not admins and admission == "one":
        admins = (account,)
    state = arguments.state or _default_state(environ, admission)
    return Settings(
        state=state.expanduser().absolute(),
        simulate=arguments.simulate,
        simulated_topology=_simulated_topology(arguments),
        port=arguments.port,
        config=config,
        hub=not (arguments.no_hub or arguments.beside_hub),
        admission=admission,
        admins=admins,
        account=account,
        stop_jobs=arguments.stop_jobs,
        idle_after_s=arguments.idle_after_s,
        warn_after_s=arguments.warn_after_s,
        only_watch=arguments.only_watch,
        sample_data=demo,
        notifications=told,
        agent_metrics_port=arguments.agent_metrics_port,
        executors=tuple(arguments.executor),
        cloud=arguments.cloud,
        cloud_metadata=arguments.cloud_metadata,
        beside=_hub_api(arguments.beside_hub),
        account_template=arguments.account_template,
    )


def _check_idle_limits(arguments: argparse.Namespace) -> None:
    if arguments.warn_after_s >= arguments.idle_after_s:
        message = (
            f"--warn-after-s {arguments.warn_after_s} must be less than --idle-after-s"
            f" {arguments.idle_after_s}: the warning comes first."
        )
        raise ValueError(message)


def _existing(file: Path | None, give: str) -> Path | None:
    if file is None:
        return None
    if not file.is_file():
        message = f"There is no file {file}: give {give}."
        raise ValueError(message)
    return file.absolute()


def _default_state(environ: Mapping[str, str], admission: Admission) -> Path:
    named = environ.get("GPUCOMMONS_STATE")
    return SYSTEM_STATE if named is None and admission == "accounts" else default_state_dir(environ)


def _simulated_topology(arguments: argparse.Namespace) -> SimulatedTopology:
    """The demo has links to show; elsewhere nobody finds more than was asked for."""
    unless_said = SimulatedTopology.PAIRS if arguments.demo else SimulatedTopology.UNKNOWN
    return SimulatedTopology(arguments.simulated_topology or unless_said)


def _hub_api(url: str) -> str:
    """As JupyterHub writes it: ``http://HOST:PORT/BASE/hub/api``, without a slash at the end."""
    found = urlsplit(url.rstrip("/"))
    if url and not (found.scheme in {"http", "https"} and found.path.endswith("/hub/api")):
        message = f"--beside-hub {url}: give the address of the hub's API, as http://127.0.0.1:8081/hub/api."
        raise ValueError(message)
    return url.rstrip("/")


def _admission(*, trusted: bool) -> Admission:
    if trusted:
        return "trusted"
    return "accounts" if os.geteuid() == 0 else "one"


def _account_name() -> str:
    import pwd  # noqa: PLC0415 - not on every platform

    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return f"uid{os.geteuid()}"


def _demo_config() -> Path:
    return Path(__file__).resolve().with_name("demo.yaml")
