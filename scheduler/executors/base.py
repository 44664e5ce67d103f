"""The one contract with what runs work: ``local`` processes, ``fake`` for tests and simulation.

An executor never decides. It is told to start, to announce a stop, to signal, and reports what it
sees. Every call is idempotent by attempt id: after a crash the loop repeats what is still due.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from gpucommons.scheduler.core.model.resources import Node
from gpucommons.scheduler.core.model.state import Observation
from gpucommons.scheduler.core.model.types import Attempt, AttemptId, Millis, Workload
from gpucommons.scheduler.executors import planned_arguments
from gpucommons.scheduler.files.log_reader import LogChunk
from gpucommons.scheduler.launchers import Gang, Worker


@dataclass(frozen=True, kw_only=True, slots=True)
class Launch:
    """All an executor needs to start one attempt."""

    workload: Workload
    attempt: Attempt
    token_of: Callable[[AttemptId], str]
    #: Base URL of the API as the job's processes reach it.
    api_url: str

    @property
    def token(self) -> str:
        """The attempt's own, for progress, checkpoints and its snapshot.

        Made when asked for: starts are repeated, and all but the first need none.
        """
        return self.token_of(self.attempt.attempt_id)


@dataclass(frozen=True, kw_only=True, slots=True)
class Live:
    """What an executor finds running when asked: for adoption after a restart."""

    attempt_id: AttemptId
    running: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class Found:
    """What an executor still finds of an attempt, whoever knows it: for a store that was restored."""

    attempt_id: AttemptId
    #: Its job, as its processes or objects name it; "" where they do not.
    job_id: str
    #: The job's readable name, or what else its owner may know it by.
    name: str
    running: bool
    #: It ended by itself, with success.
    succeeded: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Bound:
    """On a cluster: which cards a placement's slots really are."""

    #: UUIDs, where reservations hold them.
    visible_devices: tuple[str, ...] = ()
    #: So many whole GPUs, where the cluster's device plugin chooses them.
    plugin_devices: int = 0
    #: Another system of the cluster makes the slice and chooses its cards; empty = ours…
    provider: str = ""
    #: …and so well it keeps slices apart, one of ``gpu.usage.ISOLATION_MODES``.
    isolation: str = ""
    #: Pods on this node can save their processes, if they ask for it.
    can_hibernate: bool = False
    #: Why these cards cannot be given to others while the pod lives, as a sentence; empty = they can.
    not_parked: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Place:
    """Where a worker answers the others."""

    address: str
    ports: tuple[int, ...]
    #: Its GPUs are none that a framework finds.
    simulated: bool = False


def gang_of(launch: Launch, places: Sequence[Place]) -> Gang:
    """The workers of an attempt for its launcher, each at its place, by rank."""
    roles = {role.name: role for role in launch.workload.spec.roles}
    commands = {
        name: planned_arguments.with_arguments(launch.workload, launch.attempt, roles[name].command)
        for name in {one.role for one in launch.attempt.placements}
    }
    workers = tuple(
        Worker(
            rank=rank,
            role=one.role,
            index=one.index,
            address=place.address,
            ports=place.ports,
            gpus=len(one.device_ids),
            simulated=place.simulated,
            cpus=max(1, one.cpu_milli // 1000),
            memory_mib=roles[one.role].memory_mib,
            command=commands[one.role],
        )
        for rank, (one, place) in enumerate(zip(launch.attempt.placements, places, strict=True))
    )
    return Gang(workers=workers)


def of_parent(workload: Workload) -> dict[str, str]:
    """What a job is told of the sweep, map, schedule or pipeline that it is part of."""
    found = workload.spec.part_of
    if found is None:
        return {}
    return {"GPUCOMMONS_PARENT_ID": found.parent_id, "GPUCOMMONS_PARENT_NAME": found.name}


class Executor(Protocol):
    """Runs attempts on the nodes of the pools that name it. May be called from the loop's thread."""

    name: str

    def nodes(self) -> tuple[Node, ...]:
        """The nodes there are now: ready, or cordoned by others than our admins."""
        ...

    def start(self, launch: Launch) -> None:
        """Begin to start an attempt; returns at once. Known already: nothing happens."""
        ...

    def announce(self, attempt: Attempt) -> None:
        """Tell the processes of ``attempt.stop``: notice given, nothing signalled."""
        ...

    def spare(self, attempt: Attempt) -> None:
        """Take the announcement back."""
        ...

    def signal(self, attempt: Attempt, *, now_ms: Millis) -> None:
        """SIGTERM now and SIGKILL at ``attempt.stop.kill_ms``, even if we die meanwhile."""
        ...

    def adopt(self, known: Sequence[Attempt]) -> tuple[Live, ...]:
        """After a restart: which of these run. Attempts of ours that nobody knows are killed."""
        ...

    def since(self, at_ms: Millis) -> tuple[Found, ...]:
        """Attempts that began since then, as far as anything of them is here; before :meth:`adopt`."""
        ...

    def observe(self) -> tuple[Observation, ...]:
        """What happened since the last call; never blocks. Repeated until :meth:`forget`."""
        ...

    def forget(self, attempt_id: AttemptId) -> None:
        """The end of this attempt is committed: its bookkeeping may go, its files stay."""
        ...

    def log(self, attempt: Attempt, *, rank: int, offset: int, limit_bytes: int) -> LogChunk:
        """Lines of one worker's log, whole lines only, capped."""
        ...

    def rest(self) -> None:
        """Another replica leads: order nothing more of anybody, until the next :meth:`adopt`."""
        ...

    def close(self) -> None:
        """Let go of threads; what runs keeps running."""
        ...
