"""Every call of ``/v1`` as a pure value, but for those of schedules (:mod:`.schedule_calls`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from pydantic import BaseModel

from gpucommons.scheduler import models
from gpucommons.scheduler.client.call import Call as Call  # noqa: PLC0414 - for who sends them
from gpucommons.scheduler.client.call import path_of as _path

R = TypeVar("R", bound=BaseModel)


def _query(**items: str | int | float | bool | None) -> dict[str, str]:
    return {name: str(value) for name, value in items.items() if value is not None}


def _lease_put(lease_id: str, part: str, body: BaseModel) -> Call[models.LeaseView]:
    path = _path("leases", lease_id, part)
    return Call(method="PUT", path=path, answer=models.LeaseView, body=body)


def _post(path: str, answer: type[R], body: BaseModel) -> Call[R]:
    return Call(method="POST", path=path, answer=answer, body=body)


# --- who, what exists ------------------------------------------------------------------------


def whoami() -> Call[models.WhoAmI]:
    """The caller's name, teams and rights."""
    return Call(method="GET", path=_path("whoami"), answer=models.WhoAmI)


def pools() -> Call[models.PoolList]:
    """All pools with live numbers."""
    return Call(method="GET", path=_path("pools"), answer=models.PoolList)


def growth() -> Call[models.GrowthList]:
    """Nodes that an autoscaler is asked for, since when, and what it says (admin)."""
    return Call(method="GET", path=_path("growth"), answer=models.GrowthList)


def nodes() -> Call[models.NodeList]:
    """The capacity map; owners' names only where the caller may see them."""
    return Call(method="GET", path=_path("nodes"), answer=models.NodeList)


def set_node_state(node: str, request: models.NodeStateRequest) -> Call[models.NodeView]:
    """Cordon, uncordon or fence a node (admin)."""
    path = _path("nodes", node, "state")
    return Call(method="PUT", path=path, answer=models.NodeView, body=request)


def notice_node(node: str, request: models.NodeNoticeRequest) -> Call[models.NodeView]:
    """A node's cloud takes it back (admin)."""
    path = _path("nodes", node, "notice")
    return Call(method="PUT", path=path, answer=models.NodeView, body=request)


def teams() -> Call[models.TeamList]:
    """Teams; other teams' details only for admins."""
    return Call(method="GET", path=_path("teams"), answer=models.TeamList)


def put_config(config: models.ConfigModel) -> Call[models.TeamList]:
    """Apply a YAML file: pools, teams, policy; all or none (admin)."""
    return Call(method="PUT", path=_path("config"), answer=models.TeamList, body=config)


def check_config(config: models.ConfigModel) -> Call[models.ConfigChanges]:
    """Say what :func:`put_config` would change; nothing is saved (admin)."""
    return _post(_path("config", "check"), models.ConfigChanges, config)


def get_config() -> Call[models.ConfigModel]:
    """The configuration in force, in the form :func:`put_config` takes (admin)."""
    return Call(method="GET", path=_path("config"), answer=models.ConfigModel)


def set_quotas(changes: models.QuotaChanges) -> Call[models.LayoutView]:
    """Save several quotas, or with ``dry_run`` only check their layout (admin)."""
    return Call(method="PUT", path=_path("quotas"), answer=models.LayoutView, body=changes)


def replay(request: models.ReplayRequest) -> Call[models.ReplayView]:
    """Play the last days again under other quotas; takes up to a minute (admin)."""
    return Call(
        method="POST", path=_path("replay"), answer=models.ReplayView, body=request, wait_s=60
    )


# --- jobs ------------------------------------------------------------------------------------


def put_snapshot(sha256: str, content: bytes) -> Call[models.SnapshotView]:
    """Upload a snapshot (a tar made by ``client.snapshot``); known content is not sent twice."""
    return Call(
        method="PUT", path=_path("snapshots", sha256), answer=models.SnapshotView, content=content
    )


def submit(request: models.JobRequest, *, key: str | None = None) -> Call[models.JobView]:
    """Submit a job; answered as soon as it is durable."""
    return Call(
        method="POST",
        path=_path("jobs"),
        answer=models.JobView,
        body=request,
        idempotency_key=key,
    )


def quote_job(request: models.JobRequest) -> Call[models.Quote]:
    """Say what would happen to this job if it were submitted now."""
    return Call(method="POST", path=_path("quote"), answer=models.Quote, body=request)


def advise(request: models.AdviceRequest) -> Call[models.AdviceView]:
    """Say how this training could run."""
    return _post(_path("advise"), models.AdviceView, request)


def environments() -> Call[models.EnvironmentList]:
    """What the caller's jobs may run with."""
    return Call(method="GET", path=_path("environments"), answer=models.EnvironmentList)


def jobs(  # noqa: PLR0913 - the filters of one list, all optional and named
    *,
    team: str | None = None,
    owner: str | None = None,
    state: str | None = None,
    live: bool | None = None,
    limit: int = 100,
    cursor: str | None = None,
) -> Call[models.JobList]:
    """Jobs that the caller may see, newest first."""
    query = _query(team=team, owner=owner, state=state, limit=limit, cursor=cursor)
    if live is not None:
        query["live"] = "true" if live else "false"
    return Call(method="GET", path=_path("jobs"), answer=models.JobList, query=query)


def job(ref: str) -> Call[models.JobView]:
    """One job, by id or name."""
    return Call(method="GET", path=_path("jobs", ref), answer=models.JobView)


def why(ref: str) -> Call[models.Why]:
    """Why a job waits, when it will likely start, and what would start it now."""
    return Call(method="GET", path=_path("jobs", ref, "why"), answer=models.Why)


def why_lease(lease_id: str) -> Call[models.Why]:
    """The same of a notebook's ticket."""
    return Call(method="GET", path=_path("leases", lease_id, "why"), answer=models.Why)


def cancel(ref: str) -> Call[models.JobView]:
    """Cancel a job."""
    return Call(method="POST", path=_path("jobs", ref, "cancel"), answer=models.JobView)


def pause(ref: str) -> Call[models.JobView]:
    """Stop a job with a checkpoint and keep it paused."""
    return Call(method="POST", path=_path("jobs", ref, "pause"), answer=models.JobView)


def resume(ref: str) -> Call[models.JobView]:
    """Put a paused job back in line."""
    return Call(method="POST", path=_path("jobs", ref, "resume"), answer=models.JobView)


def resize_job(ref: str, size: models.JobSize) -> Call[models.JobView]:
    """Give a job that waits or is paused another size; it stays the same job."""
    return _post(_path("jobs", ref, "resize"), models.JobView, size)


def again(
    ref: str,
    *,
    key: str | None = None,
    from_here: bool = False,
    loader: models.LoaderOfAnotherRun | None = None,
) -> Call[models.JobView]:
    """Submit the same request again, as a new job; from an ended one's last checkpoint, or anew."""
    path, query = _path("jobs", ref, "again"), {"from_here": "true"} if from_here else {}
    query |= {f"loader_{name}": str(it) for name, it in loader or ()}
    return Call(method="POST", path=path, query=query, answer=models.JobView, idempotency_key=key)


def log(
    ref: str,
    *,
    attempt: int | None = None,
    rank: int = 0,
    offset: int = 0,
    wait_s: float = 0,
) -> Call[models.LogView]:
    """Lines of a worker's log from a byte offset; ``wait_s`` waits for new ones."""
    return Call(
        method="GET",
        path=_path("jobs", ref, "log"),
        answer=models.LogView,
        query=_query(attempt=attempt, rank=rank, offset=offset, wait_s=wait_s or None),
        wait_s=wait_s,
    )


def curve(ref: str, source: str | None = None) -> Call[models.Curve]:
    """A job's metric curve; from the best source where none is named."""
    path = _path("jobs", ref, "curve")
    return Call(method="GET", path=path, query=_query(source=source), answer=models.Curve)


def job_use(ref: str) -> Call[models.JobUse]:
    """What a job used of the GPUs that it asked for."""
    return Call(method="GET", path=_path("jobs", ref, "use"), answer=models.JobUse)


# --- a running attempt (its own token) -------------------------------------------------------


def report_progress(report: models.ProgressReport) -> Call[models.AttemptOrders]:
    """Tell how far the attempt is; the answer carries an announced stop."""
    return _post(_path("attempt", "progress"), models.AttemptOrders, report)


def report_checkpoint(report: models.CheckpointReport) -> Call[models.AttemptOrders]:
    """Hand in a complete checkpoint; refused with ``StaleAttempt`` when no longer current."""
    return _post(_path("attempt", "checkpoints"), models.AttemptOrders, report)


def report_finished() -> Call[models.AttemptOrders]:
    """Tell that the work is done; refused with ``StaleAttempt`` when no longer current."""
    return Call(method="POST", path=_path("attempt", "finished"), answer=models.AttemptOrders)


# --- notebooks -------------------------------------------------------------------------------


def offers(user: str | None = None, server_name: str = "") -> Call[models.OfferList]:
    """What the user may open right now (the hub asks for others, users for themselves)."""
    return Call(
        method="GET",
        path=_path("offers"),
        answer=models.OfferList,
        query=_query(user=user, server_name=server_name),
    )


def acquire(request: models.LeaseRequest, *, key: str | None = None) -> Call[models.LeaseView]:
    """Redeem this server's grant or take a free slice in this cycle, else ``NoFreeSlice`` (hub)."""
    return Call(
        method="POST",
        path=_path("leases", "acquire"),
        answer=models.LeaseView,
        body=request,
        idempotency_key=key,
        wait_s=10,
    )


def wait_in_line(request: models.LeaseRequest, *, key: str | None = None) -> Call[models.LeaseView]:
    """Take a ticket: a lease that waits; the server starts by itself on its turn."""
    return Call(
        method="POST",
        path=_path("leases"),
        answer=models.LeaseView,
        body=request,
        idempotency_key=key,
    )


def leases(*, state: str | None = None, cursor: str | None = None) -> Call[models.LeaseList]:
    """Leases and tickets that the caller may see."""
    return Call(
        method="GET",
        path=_path("leases"),
        answer=models.LeaseList,
        query=_query(state=state, cursor=cursor),
    )


def lease(lease_id: str) -> Call[models.LeaseView]:
    """One lease or ticket."""
    return Call(method="GET", path=_path("leases", lease_id), answer=models.LeaseView)


def my_lease(server_name: str | None = None) -> Call[models.LeaseView]:
    """The lease of the calling notebook server (its token says whose)."""
    return Call(
        method="GET",
        path=_path("lease"),
        answer=models.LeaseView,
        query=_query(server_name=server_name),
    )


def started(lease_id: str, report: models.StartedReport) -> Call[models.LeaseView]:
    """The server of a granted lease runs (hub)."""
    return _post(_path("leases", lease_id, "started"), models.LeaseView, report)


def end_lease(lease_id: str, report: models.EndReport) -> Call[models.LeaseView]:
    """The server is gone (hub), or the owner leaves the line."""
    return _post(_path("leases", lease_id, "end"), models.LeaseView, report)


def keep(lease_id: str, request: models.KeepRequest) -> Call[models.LeaseView]:
    """*Keep 30 min* (owner)."""
    return _post(_path("leases", lease_id, "keep"), models.LeaseView, request)


def drop(lease_id: str) -> Call[models.LeaseView]:
    """*Drop to CPU*: restart the server without its device (owner, culler)."""
    return Call(method="POST", path=_path("leases", lease_id, "drop"), answer=models.LeaseView)


def hibernate(lease_id: str, request: models.HibernateRequest) -> Call[models.LeaseView]:
    """*Hibernate*: save the kernels and stop the server (owner, culler, admin)."""
    return _post(_path("leases", lease_id, "hibernate"), models.LeaseView, request)


def choose_on_idle(lease_id: str, request: models.OnIdleRequest) -> Call[models.LeaseView]:
    """What is to become of a notebook that was idle for too long (owner, admin)."""
    return _lease_put(lease_id, "on-idle", request)


def reclaim(lease_id: str, request: models.ReclaimRequest) -> Call[models.LeaseView]:
    """Take an idle notebook's GPU back after its warning; busy ones need force (admin)."""
    return _post(_path("leases", lease_id, "reclaim"), models.LeaseView, request)


def resize(lease_id: str, request: models.ResizeRequest) -> Call[models.LeaseView]:
    """Another memory limit for a notebook's slice, while it is in use (admin)."""
    return _post(_path("leases", lease_id, "resize"), models.LeaseView, request)


def report_activity(lease_id: str, report: models.ActivityReport) -> Call[models.LeaseView]:
    """What the notebook server does right now (the server's own token)."""
    return _lease_put(lease_id, "activity", report)


def report_kept_kernels(lease_id: str, report: models.KeptKernelsReport) -> Call[models.LeaseView]:
    """What is kept of its kernels (its owner's server); ``KeptKernelsReport()``: nothing any more."""
    return _lease_put(lease_id, "kept", report)


def activities() -> Call[models.ActivityList]:
    """All leases that hold a device, with what the culler decides on (culler, admin)."""
    return Call(method="GET", path=_path("activities"), answer=models.ActivityList)


def activity(lease_id: str) -> Call[models.ActivityView]:
    """One lease's activity, read anew: the re-check before acting (culler, admin)."""
    return Call(
        method="GET", path=_path("leases", lease_id, "activity"), answer=models.ActivityView
    )


def report_idle(lease_id: str, report: models.IdleReport) -> Call[models.LeaseView]:
    """Idle since, returned at; both None = active again (culler)."""
    return _lease_put(lease_id, "idle", report)


# --- history ---------------------------------------------------------------------------------


def events(
    *,
    after: int = 0,
    job: str | None = None,
    kinds: Sequence[str] = (),
    newest: int | None = None,
    wait_s: float = 0,
) -> Call[models.EventList]:
    """Events after a cursor that the caller may see; ``wait_s`` waits for new ones.

    ``kinds`` keeps only these kinds; ``newest`` gives only the last so many. The order is always
    oldest first.
    """
    return Call(
        method="GET",
        path=_path("events"),
        answer=models.EventList,
        query=_query(
            after=after,
            job=job,
            kinds=",".join(kinds) or None,
            newest=newest,
            wait_s=wait_s or None,
        ),
        wait_s=wait_s,
    )
