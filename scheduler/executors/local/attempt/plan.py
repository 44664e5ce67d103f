"""What a supervisor is told: who runs what, where, and with which environment.

Only the standard library is imported here and in the supervisor: one of them runs beside every job.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Self

from gpucommons.scheduler.files.job_file_limits import MAX_RESULTS_BYTES

#: Variables of the service that are handed on; nothing else is.
PASSED_ON = ("LANG", "LC_ALL", "LC_CTYPE", "PATH", "TZ", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE")
#: Why a command does not run: as much as a pipe takes at once.
MAX_REFUSAL_BYTES = 2048
#: The parent of a worker in a tree that root starts.
PID_ONE = 1


def passed_on(environ: Mapping[str, str]) -> dict[str, str]:
    """What supervisors, errands and workers inherit of the service's environment."""
    return {name: environ[name] for name in PASSED_ON if name in environ}


@dataclass(frozen=True, kw_only=True, slots=True)
class Account:
    """The operating-system account of the job's user; None everywhere = the service's own."""

    uid: int
    gid: int
    groups: tuple[int, ...] = ()


def as_user(account: Account | None) -> dict[str, Any]:
    """Keywords that make ``subprocess`` run as the account; none for the service's own."""
    if account is None:
        return {}
    return {
        "user": account.uid,
        "group": account.gid,
        "extra_groups": list(account.groups),
    }


@dataclass(frozen=True, kw_only=True, slots=True)
class WorkerPlan:
    """One worker."""

    rank: int
    command: tuple[str, ...]
    env: dict[str, str] = field(default_factory=dict)
    #: The control group that it must be in before its command is known to it.
    cgroup: str | None = None
    #: No real GPU stands behind those that it was given.
    simulated: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class HibernationPlan:
    """Whether the worker runs in a tree that can be saved, and what is known of saving it."""

    #: Why not, as a clause; empty = it does.
    hindrance: str = ""
    #: How CRIU is started.
    criu: tuple[str, ...] = ()
    save_mib_per_s: int = 0
    wake_mib_per_s: int = 0
    cost_ms: int = 0
    #: Saved processes of all jobs of its user together.
    max_image_bytes: int = 0
    #: Checksum of the description of the image that it is to be woken from; empty = of none.
    promised: str = ""
    #: Root starts the tree, as the job's user may make no namespaces.
    by_root: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """One attempt."""

    attempt_id: str
    #: Its name, for results whose own name is taken.
    job: str
    workers: tuple[WorkerPlan, ...]
    #: Below ``run/work``.
    working_dir: str
    #: The uploaded tar; None = an empty folder.
    snapshot: str | None
    max_unpacked_bytes: int
    max_log_bytes: int
    home: str
    #: Below ``home``: results go to ``results/JOB`` there; None = to that of the home itself.
    results_to: str | None
    max_results_bytes: int = MAX_RESULTS_BYTES
    #: Folder of the Python environment with all links followed; "" = the service's own.
    environment: str = ""
    #: Paths of the working folder that are linked from the same place below ``links_from``.
    links: tuple[str, ...] = ()
    links_from: str | None = None
    #: Variable → name of a file in ``home/.gpucommons/secrets``.
    secrets: dict[str, str] = field(default_factory=dict)
    account: Account | None = None
    #: Folders of earlier attempts that nothing refers to any more.
    superseded: tuple[str, ...] = ()
    #: Of all earlier attempts, newest first: one of them has the working folder.
    earlier: tuple[str, ...] = ()
    job_id: str = ""
    #: What an exit with 0 after a signal means, as in the spec.
    exit_after_signal: str = "preempted"
    #: Of the attempt: 1, 2, …
    number: int = 1
    #: Of all workers, chosen when nobody had them.
    ports: tuple[int, ...] = ()
    #: None where nobody has looked.
    hibernation: HibernationPlan | None = None
    #: What is woken was told before it was saved that it has to leave.
    was_told: bool = False
    #: How long other workers may take to leave when one has failed, and stragglers at the end.
    leave_s: float = 10.0

    def as_json(self) -> dict[str, Any]:
        """For the plan file."""
        return asdict(self)

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> Self:
        """Read the plan file back."""
        account = document.pop("account")
        known = document.pop("hibernation", None)
        workers = tuple(
            WorkerPlan(**{**worker, "command": tuple(worker["command"])})
            for worker in document.pop("workers")
        )
        return cls(
            **{
                **document,
                "superseded": tuple(document["superseded"]),
                "earlier": tuple(document.get("earlier", ())),
                "links": tuple(document.get("links", ())),
                "ports": tuple(document.get("ports", ())),
            },
            workers=workers,
            hibernation=HibernationPlan(**{**known, "criu": tuple(known["criu"])})
            if known
            else None,
            account=Account(**{**account, "groups": tuple(account["groups"])}) if account else None,
        )
