"""What the operator decides: command line, environment, and what follows from them."""

from __future__ import annotations

import argparse
import re
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path

from gpucommons.gpu.account_names import ACCOUNTS_HELP, USERNAME, account_template


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
class ReplicaOptions:
    """One of several schedulers."""

    #: ``NAMESPACE/NAME`` of the lease.
    lease: str
    name: str
    #: As the others reach this one.
    url: str


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
    #: What a user's own account is called; "{username}" is replaced.
    account_template: str = USERNAME
    idle_after_s: int = 3600
    warn_after_s: int = 3000
    #: Browsers may change quotas although notebooks share the pages' address.
    allow_admin_writes: bool = False
    max_snapshot_mib: int = 256
    retention_days: int = 400
    snapshot_days: int = 30
    #: A node or pair of nodes that was slow is avoided so long.
    slow_hours: int = 168
    #: Of one user.
    submits_per_hour: int = 1000
    upload_gib_per_day: int = 8
    #: Decisions that do not come for so long make ``/healthz`` fail.
    stalled_after_s: int = 60
    #: Jobs run on the cluster that this file describes, and not on this machine.
    kubernetes: Path | None = None
    #: Where the API listens, and how jobs reach it; None = where it listens.
    api_host: str = "127.0.0.1"
    api_url: str | None = None
    #: Files of jobs on the cluster: ``folder:/PATH``, ``s3://…``, ``gs://…``, ``az://…``.
    storage: str = ""
    storage_claim: str | None = None
    #: Secrets that all replicas share; None = made in ``state``.
    attempt_key_file: Path | None = None
    cookie_secret_file: Path | None = None
    #: Brought by other packages, with their settings.
    executors: Mapping[str, Path | None] = field(default_factory=dict)
    #: None = the only scheduler of its store.
    replica: ReplicaOptions | None = None
    #: Where another scheduler leads the SQLite store: wait, ready, for its end.
    stand_by: bool = False
    #: Our API, as other schedulers of the store reach it; "" = they need not.
    own_url: str = ""
    #: Pages that look back can show sample data, which lie in no store (the demo).
    sample_data: bool = False
    #: How people are told by mail and webhook; None = not at all.
    notifications: Path | None = None
    #: None = no hub: the API answers at its unix socket alone, and to jobs.
    hub: HubOptions | None = None

    @property
    def database(self) -> str:
        """Where state is kept."""
        return self.store_url or f"sqlite:///{self.state / 'scheduler.db'}"

    @property
    def attempt_key(self) -> Path:
        """What attempts' tokens are derived from."""
        return self.attempt_key_file or self.state / "attempt-key"

    @property
    def cookie_secret(self) -> Path:
        """What the pages' cookies are signed with."""
        return self.cookie_secret_file or self.state / "cookie-secret"

    @property
    def agent(self) -> Path:
        """The node agent's control socket."""
        return self.agent_socket or self.state / "agent" / "control.sock"


#: Whole numbers above nought, each with its default.
_LIMITS = {
    "--idle-after-s": (3600, "the culler's limit, for screens"),
    "--warn-after-s": (3000, "the culler's limit, for screens"),
    "--max-snapshot-mib": (256, "largest upload of a job's files (default: 256)"),
    "--submits-per-hour": (1000, "jobs that one user may submit within an hour (default: 1000)"),
    "--upload-gib-per-day": (
        8,
        "new files of jobs that one user may upload within a day (default: 8 GiB)",
    ),
    "--retention-days": (
        400,
        "history, and what jobs left on disk, is kept so long (default: 400)",
    ),
    "--snapshot-days": (
        30,
        "files that a job ran from are kept so long after its end, for `again` (default: 30)",
    ),
    "--slow-hours": (
        168,
        "a node, or two together, on which jobs took longer is avoided so long after the last such run"
        " (default: 168, a week)",
    ),
    "--stalled-after-s": (
        60,
        "/healthz fails when no decision was made, or followed, for so long",
    ),
}


def parser() -> argparse.ArgumentParser:
    """The command line of ``python -m gpucommons.scheduler``."""
    found = argparse.ArgumentParser(
        prog="python -m gpucommons.scheduler",
        description="The scheduler of GPU Commons: API, decisions, jobs and pages.",
    )
    add = found.add_argument
    add("--state", type=Path, required=True, help="folder for everything that is kept")
    add("--config", type=Path, help="YAML with pools and teams, applied at the first start")
    add("--api-port", type=int, default=0, help="port of the API on 127.0.0.1 (0: any)")
    add("--pages-port", type=int, default=0, help="port of the hub pages on 127.0.0.1 (0: any)")
    add(
        "--store-url",
        default="",
        help="default: GPUCOMMONS_STORE_URL, which nobody reads in a list of processes, or"
        " sqlite:///STATE/scheduler.db",
    )
    add("--agent-socket", type=Path, help="default: STATE/agent/control.sock")
    add("--shared-account", action="store_true", help="all users share one account")
    add("--home-template", help="home of a user under a shared account, with {username}")
    add("--account-template", type=account_template, default=USERNAME, help=ACCOUNTS_HELP)
    add("--allow-admin-writes", action="store_true", help="browsers may change quotas")
    add(
        "--sample-data",
        action="store_true",
        help="let reports show sample data, labelled and nowhere stored (the demo)",
    )
    add(
        "--executor",
        action="append",
        type=named_executor,
        default=[],
        metavar="NAME[=FILE]",
        help="an executor that another package brings, with its settings; pools choose it by name",
    )
    add("--notifications", type=Path, help="YAML with the mail server and rules of webhooks")
    for name, (default, text) in _LIMITS.items():
        add(name, type=_positive, default=default, help=text)
    _add_cluster_options(found)
    return found


def _add_cluster_options(found: argparse.ArgumentParser) -> None:
    group = found.add_argument_group("on a cluster")
    add = group.add_argument
    add("--kubernetes", type=Path, help="YAML that describes the cluster where jobs run")
    add("--api-host", default="127.0.0.1", help="address where API and pages listen")
    add("--api-url", help="the API's address as pods reach it: its Service")
    add(
        "--storage",
        default="",
        help="jobs' files: folder:/PATH, s3://, gs:// or az://BUCKET/PREFIX",
    )
    add("--storage-claim", help="with folder: the PersistentVolumeClaim of that folder, for pods")
    add("--attempt-key-file", type=Path, help="32 bytes that all replicas share")
    add("--cookie-secret-file", type=Path, help="32 bytes that all replicas share")
    add("--leader-election", help="NAMESPACE/NAME of a Lease: one of several replicas leads")
    add("--replica", default=socket.gethostname(), help="this replica's name (default: host's)")
    add(
        "--stand-by",
        action="store_true",
        help="where another scheduler leads the SQLite store, wait for its end: an upgrade hands over",
    )
    add("--replica-url", default="", help="this replica's API, as the others reach it")


def named_executor(text: str) -> tuple[str, Path | None]:
    """Read ``NAME`` or ``NAME=FILE``."""
    name, equals, file = text.partition("=")
    if not name or (equals and not file):
        message = f"{text} names no executor: write NAME, or NAME=FILE with its settings."
        raise argparse.ArgumentTypeError(message)
    return name, Path(file).absolute() if file else None


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        message = f"{text} is not a positive number."
        raise argparse.ArgumentTypeError(message)
    return number


def read_settings(arguments: Sequence[str], environ: Mapping[str, str]) -> SchedulerSettings:
    """Settings from the command line and from what the hub puts into its services' environment."""
    given = parser().parse_args(arguments)
    given.store_url = given.store_url or environ.get("GPUCOMMONS_STORE_URL", "")
    if given.warn_after_s >= given.idle_after_s:
        parser().error("--warn-after-s must be less than --idle-after-s")
    _check_cluster_options(given)
    names = {one.name for one in fields(SchedulerSettings)}
    as_given = {name: value for name, value in vars(given).items() if name in names}
    return SchedulerSettings(
        **as_given
        | {
            "state": given.state.absolute(),
            "executors": dict(given.executor),
            "replica": _replica_options(given),
            "own_url": _own_url(given.replica_url),
            "hub": _hub_options(environ),
        }
    )


def _check_cluster_options(given: argparse.Namespace) -> None:
    """Refuse what would only fail later, or lose something quietly."""
    error = parser().error
    if given.leader_election and not given.store_url.startswith("postgres"):
        error("--leader-election needs --store-url postgresql://…: SQLite serves one scheduler")
    if given.leader_election and not given.replica_url:
        error(
            "--leader-election needs --replica-url: followers pass some requests on to the leader"
        )
    if given.leader_election and given.attempt_key_file is None:
        error("--leader-election needs --attempt-key-file: all replicas must know jobs' tokens")
    if given.leader_election and given.kubernetes is not None and not given.storage:
        error(
            "--leader-election needs --storage: the files that jobs run from would lie with one"
            " replica, and the others, or the same one made anew, would not find them. Give"
            " folder:/PATH, s3://, gs:// or az://BUCKET/PREFIX"
        )
    if given.storage and given.kubernetes is None:
        error("--storage is for jobs on a cluster: give --kubernetes, too")
    if given.storage.startswith("folder:") and not given.storage_claim:
        error("--storage folder:… needs --storage-claim: the volume that pods mount")


def _replica_options(given: argparse.Namespace) -> ReplicaOptions | None:
    if not given.leader_election:
        return None
    return ReplicaOptions(
        lease=given.leader_election, name=given.replica, url=_own_url(given.replica_url)
    )


def _own_url(given: str) -> str:
    """As given; an address of IPv6, which a pod can only be told without brackets, gets them."""
    return re.sub(r"//([0-9a-fA-F.]*:[0-9a-fA-F:.]*):([0-9]+)$", r"//[\1]:\2", given.rstrip("/"))


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
