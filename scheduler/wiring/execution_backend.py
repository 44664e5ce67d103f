"""Where jobs run, as one thing: this machine with its agent, or a cluster with one on each node."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from gpucommons.gpu.client.agent_client import AgentClient, NodeReport
from gpucommons.gpu.extras import coming_with
from gpucommons.gpu.hibernation.self_test import self_test, self_test_for_users
from gpucommons.gpu.slices.slices import SliceId
from gpucommons.gpu.slices.usage import AuditEntry, UsageMinute
from gpucommons.scheduler.core.model.demand import WhyNoSlices, every_size
from gpucommons.scheduler.core.model.lifecycle import is_final
from gpucommons.scheduler.core.model.resources import Node
from gpucommons.scheduler.core.model.state import Cluster
from gpucommons.scheduler.core.model.types import (
    Attempt,
    Millis,
    PoolName,
    WorkerPlacement,
    Workload,
    WorkloadId,
)
from gpucommons.scheduler.environments.base import AsAsked, Environments
from gpucommons.scheduler.errors import Misconfigured, NotFound
from gpucommons.scheduler.executors.base import Bound, Executor
from gpucommons.scheduler.executors.local import images_of_ended_jobs
from gpucommons.scheduler.executors.local.abilities import Abilities
from gpucommons.scheduler.executors.local.attempt.plan import passed_on
from gpucommons.scheduler.executors.local.attempt.secret_files import is_missing, lacking
from gpucommons.scheduler.executors.local.local import LocalExecutor, LocalSettings
from gpucommons.scheduler.executors.local.local_results import LocalResults
from gpucommons.scheduler.executors.local.machine_environments import MachineEnvironments
from gpucommons.scheduler.file_storage.images_of_ended_jobs import remove_images
from gpucommons.scheduler.file_storage.parts import StorageParts
from gpucommons.scheduler.file_storage.volume_files import VolumeFiles
from gpucommons.scheduler.files.log_reader import LogChunk
from gpucommons.scheduler.files.snapshots import SnapshotPlace, Snapshots
from gpucommons.scheduler.loop.acting import executor_of
from gpucommons.scheduler.service.in_memory.slices import Agent
from gpucommons.scheduler.service.jobs.logs import READ_AT_ONCE_BYTES
from gpucommons.scheduler.service.service import Service
from gpucommons.scheduler.wiring.local_nodes import local_nodes
from gpucommons.scheduler.wiring.options import SchedulerSettings
from gpucommons.scheduler.wiring.os_accounts import accounts, home_of
from gpucommons.scheduler.wiring.scheduler_callbacks import Asked


def _nothing() -> None:
    """Nothing to do."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ExecutionBackend:
    """Everything of a scheduler that depends on where jobs run."""

    executor: Executor
    #: Who watches slices; None where nobody does.
    agent: Agent | None = None
    minutes: Callable[[Millis], Sequence[UsageMinute]] = lambda _after_ms: ()
    #: What one machine's agent says of it, and did.
    report: Callable[[], NodeReport] | None = None
    record: Callable[[int], Sequence[AuditEntry]] | None = None
    bound_to: Callable[[WorkerPlacement], Bound | None] = lambda _placement: None
    #: Whether something of a notebook's slice is there that no agent need see.
    has_pod: Callable[[SliceId], bool] = lambda _slice_id: False
    why_not: WhyNoSlices = every_size
    #: Why no node of a pool can be asked for.
    nodes_refused: Callable[[], Mapping[PoolName, str]] = dict
    #: Why a user's job cannot have a secret; None where it can, or nobody here knows.
    why_no_secret: Callable[[str, str], str | None] = lambda _user, _name: None
    #: What jobs made that ran on this machine; None where none do.
    results: LocalResults | None = None
    remove_images_of_ended_jobs: Callable[[], object] = _nothing
    #: What jobs may run with there.
    environments: Environments = field(default_factory=AsAsked)
    #: What the housekeeping does besides, given the service.
    also: Callable[[Service], Callable[[], None]] = lambda _service: _nothing
    #: Requests to a cluster's API server so far, by verb and resource.
    requests: Callable[[], Mapping[tuple[str, str], int]] | None = None
    start: Callable[[], None] = _nothing
    close: Callable[[], None] = _nothing


def execution_backend(
    settings: SchedulerSettings, kept: StorageParts, asked: Asked
) -> ExecutionBackend:
    """This machine, or the cluster that a file describes.

    Raises
    ------
    BadRequest, Unavailable
        When the file cannot be read, or there is no cluster.
    """
    if settings.kubernetes is not None:
        return _cluster(settings, settings.kubernetes, kept, asked)
    agent = AgentClient(settings.agent)
    local = _local_settings(settings, agent, kept.snapshots, asked)
    executor = LocalExecutor(local, agent=agent, on_change=asked.wake)
    return ExecutionBackend(
        executor=executor,
        remove_images_of_ended_jobs=partial(
            images_of_ended_jobs.remove_images, local.state_dir / "attempts", is_over=local.is_over
        ),
        results=LocalResults(local.state_dir / "attempts", job_of=asked.job),
        agent=agent,
        minutes=agent.minutes,
        report=agent.devices,
        record=agent.audit,
        why_no_secret=partial(_why_no_secret, settings),
        environments=MachineEnvironments(
            home_of=partial(home_of, settings),
            account_of=accounts(settings, os.geteuid()),
            environ=passed_on(os.environ),
        ),
    )


def _why_no_secret(settings: SchedulerSettings, user: str, name: str) -> str | None:
    try:
        return lacking(name) if is_missing(home_of(settings, user), name) else None
    except (Misconfigured, OSError):
        return None  # whoever starts the job says what is wrong with the home


def _cluster(
    settings: SchedulerSettings, described: Path, kept: StorageParts, asked: Asked
) -> ExecutionBackend:
    # The client library takes a second that a workstation need not wait.
    with coming_with("kubernetes"):
        from gpucommons.scheduler.wiring.cluster_parts import make_parts  # noqa: PLC0415 - see above

    parts = make_parts(described, asked, logs=settings.state / "logs", kept=kept)
    executor = parts.executor
    backend = ExecutionBackend(
        executor=executor,
        remove_images_of_ended_jobs=partial(_remove_images_of_ended_jobs, kept, asked),
        environments=parts.environments,
        bound_to=executor.bound_to,
        has_pod=executor.has_pod,
        why_not=lambda name, milli_gpu: parts.why_not(asked.cluster(), name, milli_gpu),
        nodes_refused=executor.why_no_nodes,
        also=parts.also,
        requests=lambda: executor.connection.requests,
        start=parts.start,
        close=parts.close,
    )
    if parts.agents is None:
        return backend
    return replace(backend, agent=parts.agents, minutes=parts.agents.minutes)


def _remove_images_of_ended_jobs(kept: StorageParts, asked: Asked) -> None:
    if isinstance(kept.files, VolumeFiles):
        remove_images(
            kept.files,
            lambda: {
                attempt.attempt_id
                for job in asked.cluster().workloads.values()
                for attempt in job.attempts
            },
        )


def _local_settings(
    settings: SchedulerSettings,
    agent: AgentClient,
    snapshots: SnapshotPlace,
    asked: Asked,
) -> LocalSettings:
    as_users = accounts(settings, os.geteuid()) is not None
    test = self_test_for_users if as_users else self_test
    abilities = Abilities(os.environ, settings.state / "self-test", test)

    def nodes() -> tuple[Node, ...]:
        found = local_nodes(agent.devices(), asked.pools(), asked.cluster())
        ability, leaves_ms = abilities.found(), agent.notice.leaves_ms
        leaves = None if leaves_ms is None else Millis(leaves_ms)
        return tuple(replace(node, hibernation=ability, leaves_ms=leaves) for node in found)

    def is_over(job_id: str) -> bool:
        job = asked.job(WorkloadId(job_id))
        return job is not None and is_final(job)

    return LocalSettings(
        state_dir=settings.state,
        home_of=partial(home_of, settings),
        nodes=nodes,
        mps_of=lambda name: next((pool.mps for pool in asked.pools() if pool.name == name), None),
        snapshot_path=snapshots.path if isinstance(snapshots, Snapshots) else None,
        account_of=accounts(settings, os.geteuid()),
        pool_named=lambda name: next((pool for pool in asked.pools() if pool.name == name), None),
        criu=abilities.criu,
        is_saved_by_root=abilities.is_by_root,
        is_tested=abilities.are_known,
        is_over=is_over,
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class ExecutorLogs:
    """Logs, read by whoever ran the attempt."""

    executors: Mapping[str, Executor]
    cluster: Callable[[], Cluster]

    def read(self, workload: Workload, attempt: Attempt, *, rank: int, offset: int) -> LogChunk:
        """See :class:`gpucommons.scheduler.curves.following.ReadsLogs`."""
        executor = self.executors.get(executor_of(self.cluster(), attempt) or "")
        if executor is None:
            message = f"The log of {workload.spec.name} lies on a node that is not here any more."
            raise NotFound(message)
        return executor.log(attempt, rank=rank, offset=offset, limit_bytes=READ_AT_ONCE_BYTES)
