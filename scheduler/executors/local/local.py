"""Attempts as real processes on this machine.

One supervisor process stands above each attempt and outlives the scheduler; this class only writes its
orders and reads its files, so a restarted scheduler adopts what runs by looking at the same folder.
"""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from gpucommons.gpu.client.agent_client import AgentClient
from gpucommons.gpu.devices.devices import Device
from gpucommons.gpu.providers import Injection
from gpucommons.gpu.slices.slices import MpsDaemon, SliceId
from gpucommons.scheduler.core.going_on.hibernating import kept_image
from gpucommons.scheduler.core.model.going_on import MAX_IMAGE_BYTES
from gpucommons.scheduler.core.model.resources import Node, Pool
from gpucommons.scheduler.core.model.state import (
    AttemptEnded,
    AttemptSignalled,
    AttemptStarted,
    MemoryReported,
    Observation,
)
from gpucommons.scheduler.core.model.types import Attempt, AttemptId, Millis, PoolName
from gpucommons.scheduler.executors.base import Found, Launch, Live
from gpucommons.scheduler.executors.local import leftovers
from gpucommons.scheduler.executors.local.attempt import orders
from gpucommons.scheduler.executors.local.attempt.attempt_folder import (
    AttemptFolder,
    read_json,
    write_json,
)
from gpucommons.scheduler.executors.local.attempt.own_files import Counts
from gpucommons.scheduler.executors.local.attempt.plan import Account, HibernationPlan, passed_on
from gpucommons.scheduler.executors.local.attempt.supervision import (
    MARK,
    OVERDUE_MS,
    end_of_killed,
    forbid_start,
    kill_marked,
    kill_overdue,
    kill_those_in,
    note_end,
    wake,
)
from gpucommons.scheduler.executors.local.free_ports import ports_for
from gpucommons.scheduler.executors.local.job_slices import JobSlices
from gpucommons.scheduler.executors.local.launch_plan import (
    Surroundings,
    earlier,
    hibernation_plan,
    make_plan,
    superseded,
)
from gpucommons.scheduler.executors.local.watch import Watch
from gpucommons.scheduler.files.job_file_limits import MAX_RESULTS_BYTES, MAX_UNPACKED_BYTES
from gpucommons.scheduler.files.log_reader import LogChunk, read_log
from gpucommons.scheduler.training import alone
from gpucommons.scheduler.working_folder.reported_image import hibernation_of

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True, slots=True)
class LocalSettings:
    """How this machine runs jobs."""

    #: Holds ``attempts/<id>``.
    state_dir: Path
    #: The user's home folder.
    home_of: Callable[[str], Path]
    #: The machine's nodes as they are now.
    nodes: Callable[[], tuple[Node, ...]]
    #: The MPS daemon of a pool; None where it did not opt in.
    mps_of: Callable[[PoolName], MpsDaemon | None] = lambda _pool: None
    #: Where uploaded snapshots lie, by hash.
    snapshot_path: Callable[[str], Path] | None = None
    #: The user's account; None = everybody's jobs run as the service itself.
    account_of: Callable[[str], Account] | None = None
    #: A pool as it is now; None where it is not known.
    pool_named: Callable[[PoolName], Pool | None] = lambda _pool: None
    #: Whether the job of this id has ended for good.
    is_over: Callable[[str], bool] = lambda _job_id: False
    #: Whether it is known what this machine can do: what was saved is not woken before.
    is_tested: Callable[[], bool] = lambda: True
    #: How CRIU is started; empty where there is none.
    criu: Callable[[], tuple[str, ...]] = tuple
    #: Whether root starts what is to be saved, as users may make no namespaces here.
    is_saved_by_root: Callable[[], bool] = lambda: False
    python: str = sys.executable
    environ: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    max_log_bytes: int = 64 << 20
    max_unpacked_bytes: int = MAX_UNPACKED_BYTES
    max_results_bytes: int = MAX_RESULTS_BYTES
    #: Saved processes of all jobs of one user together.
    max_image_bytes: int = MAX_IMAGE_BYTES


@dataclass(frozen=True, kw_only=True, slots=True)
class Machine:
    """What this machine holds ready for one launch."""

    devices: Mapping[str, Device]
    account: Account | None
    prepared: Mapping[SliceId, Injection]


class LocalExecutor:
    """See :class:`gpucommons.scheduler.executors.base.Executor`."""

    name = "local"

    def __init__(
        self,
        settings: LocalSettings,
        agent: AgentClient | None = None,
        *,
        on_change: Callable[[], None] = lambda: None,
    ) -> None:
        self._watch = Watch(self.folder, on_change)
        self._settings = settings
        self._slices = JobSlices(agent, nodes=settings.nodes, mps_of=settings.mps_of)
        self._root = settings.state_dir / "attempts"
        self._root.mkdir(mode=0o711, parents=True, exist_ok=True)
        self._training = alone.lay_out(settings.state_dir / "python")
        self._tracked: dict[AttemptId, Attempt] = {}
        self._supervisors: dict[AttemptId, subprocess.Popen[bytes]] = {}
        self._counts = Counts()
        #: Attempts of each job, as their folders name it: one that a restored store does not know may have
        #: its working folder.
        self._by_job: Mapping[str, Sequence[AttemptId]] = {}

    def _track(self, attempt: Attempt) -> None:
        self._tracked[attempt.attempt_id] = attempt
        self._watch.look_at(attempt.attempt_id)

    def nodes(self) -> tuple[Node, ...]:
        """See the protocol."""
        return self._settings.nodes()

    def folder(self, attempt_id: AttemptId) -> AttemptFolder:
        """Where an attempt lies."""
        return AttemptFolder(self._root / attempt_id)

    # --- starting ----------------------------------------------------------------------------

    def start(self, launch: Launch) -> None:
        """See the protocol."""
        attempt = launch.attempt
        folder = self.folder(attempt.attempt_id)
        self._track(attempt)
        if folder.supervisor.exists() or folder.supervised() or folder.exit.exists():
            return
        if kept_image(launch.workload) is not None and not self._settings.is_tested():
            return
        known = self._supervisors.get(attempt.attempt_id)
        if known is not None and known.poll() is None:
            return
        devices = self._devices()
        account = self._account_of(launch)
        prepared = self._slices.prepare(attempt, None if account is None else account.uid)
        self._lay_out(folder, launch, Machine(devices=devices, account=account, prepared=prepared))
        self._spawn(folder, attempt.attempt_id)

    def _devices(self) -> dict[str, Device]:
        return {d.device_id: d for node in self._settings.nodes() for d in node.all_devices}

    def _account_of(self, launch: Launch) -> Account | None:
        found = self._settings.account_of
        return None if found is None else found(launch.workload.spec.owner)

    def _lay_out(self, folder: AttemptFolder, launch: Launch, machine: Machine) -> None:
        settings, spec = self._settings, launch.workload.spec
        for path, mode in ((folder.path, 0o711), (folder.notice.parent, 0o711)):
            path.mkdir(mode=mode, exist_ok=True)
        folder.log(0).parent.mkdir(mode=0o700, exist_ok=True)
        resumed = launch.attempt.resumed_from
        home = settings.home_of(spec.owner)
        around = Surroundings(
            folder=folder.path,
            resume_folder=self.folder(resumed.attempt_id).path if resumed else None,
            snapshot=self._snapshot(spec.snapshot),
            home=home,
            python=settings.python,
            ports=ports_for(launch),
            devices=machine.devices,
            environ=settings.environ,
            account=machine.account,
            prepared=machine.prepared,
            training=self._training,
            superseded=self._runs(superseded(launch)),
            earlier=self._runs(earlier(launch, self._by_job)),
            hibernation=self._hibernation(launch, machine.account),
            max_log_bytes=settings.max_log_bytes,
            max_unpacked_bytes=settings.max_unpacked_bytes,
            max_results_bytes=settings.max_results_bytes,
        )
        write_json(folder.plan, make_plan(launch, around).as_json())

    def _hibernation(self, launch: Launch, account: Account | None) -> HibernationPlan | None:
        settings = self._settings
        planned = hibernation_plan(
            launch,
            settings.nodes(),
            pool_named=settings.pool_named,
            criu=settings.criu(),
            max_image_bytes=settings.max_image_bytes,
        )
        by_root = account is not None and settings.is_saved_by_root()
        return None if planned is None else replace(planned, by_root=by_root)

    def _snapshot(self, sha256: str | None) -> Path | None:
        if sha256 is None or self._settings.snapshot_path is None:
            return None
        return self._settings.snapshot_path(sha256)

    def _runs(self, attempts: Iterable[AttemptId]) -> tuple[str, ...]:
        return tuple(str(self.folder(attempt_id).run) for attempt_id in attempts)

    def _spawn(self, folder: AttemptFolder, attempt_id: AttemptId) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        with os.fdopen(os.open(folder.path / "supervisor.log", flags, 0o600), "ab") as log:
            words = [sys.executable, "-m", "gpucommons.scheduler.executors.supervisor"]
            self._supervisors[attempt_id] = subprocess.Popen(
                [*words, str(folder.path)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                cwd="/",
                # Its errands run as the user, who can read their environment: no token of the
                # service may be in it. The mark is what a killed supervisor's leftovers are found by.
                env={**passed_on(self._settings.environ), MARK: attempt_id},
            )

    # --- stopping ----------------------------------------------------------------------------

    def announce(self, attempt: Attempt) -> None:
        """See the protocol."""
        folder = self.folder(attempt.attempt_id)
        if orders.announce(folder, attempt.stop):
            wake(folder)

    def spare(self, attempt: Attempt) -> None:
        """See the protocol."""
        orders.spare(self.folder(attempt.attempt_id))

    def signal(self, attempt: Attempt, *, now_ms: Millis) -> None:
        """See the protocol."""
        self._track(attempt)
        stop = attempt.stop
        kill_ms = now_ms if stop is None else stop.kill_ms
        folder = self.folder(attempt.attempt_id)
        folder.path.mkdir(mode=0o711, exist_ok=True)
        self._order_stop(folder, kill_ms, hibernates=stop is not None and stop.hibernates)
        if now_ms > kill_ms + OVERDUE_MS:
            kill_overdue(folder)
        if not folder.supervisor.exists():
            forbid_start(folder)

    def _order_stop(self, folder: AttemptFolder, kill_ms: int, *, hibernates: bool = False) -> None:
        if orders.order_stop(folder, kill_ms, hibernates=hibernates):
            wake(folder)

    # --- looking -----------------------------------------------------------------------------

    def since(self, at_ms: Millis) -> tuple[Found, ...]:
        """See the protocol."""
        return leftovers.found_since(self._root, at_ms)

    def adopt(self, known: Sequence[Attempt]) -> tuple[Live, ...]:
        """See the protocol."""
        ours = {attempt.attempt_id: attempt for attempt in known}
        # At each start: a job may have its GPUs again long after the first one on a restored store.
        self._by_job = leftovers.by_job(self._root)
        found = []
        for path in self._root.iterdir():
            folder, attempt_id = AttemptFolder(path), AttemptId(path.name)
            alive = folder.supervised()
            if attempt_id in ours:
                self._track(ours[attempt_id])
                found.append(Live(attempt_id=attempt_id, running=alive))
            elif alive:
                _LOG.warning("attempt %s runs, but nobody knows it: stopping it", attempt_id)
                self._order_stop(folder, 0)
        return tuple(found)

    def observe(self) -> tuple[Observation, ...]:
        """See the protocol."""
        seen: list[Observation] = []
        for attempt_id, attempt in list(self._tracked.items()):
            folder = self.folder(attempt_id)
            self._reap(attempt_id)
            started = read_json(folder.started)
            if started is not None:
                self._slices.bind(attempt, started["pids"])
                seen.append(
                    AttemptStarted(attempt_id=attempt_id, hibernation=hibernation_of(started))
                )
            memory = read_json(folder.memory)
            if memory is not None:
                seen.append(MemoryReported(attempt_id=attempt_id, memory_mib=memory["memory_mib"]))
            if folder.signalled.exists():
                seen.append(AttemptSignalled(attempt_id=attempt_id))
            ended = self._ended(folder, attempt)
            if ended is not None:
                seen.append(ended)
        return tuple(seen)

    def _reap(self, attempt_id: AttemptId) -> None:
        if (supervisor := self._supervisors.get(attempt_id)) is not None:
            supervisor.poll()

    def _ended(self, folder: AttemptFolder, attempt: Attempt) -> AttemptEnded | None:
        # Before the look at the lock: a supervisor may take it and write this down at any moment.
        has_begun = folder.supervisor.exists()
        if folder.supervised():
            return None
        result = read_json(folder.exit)
        if result is None:
            if not has_begun:
                return None
            # The supervisor itself was killed: what it ran must be gone before anybody else starts.
            if not self._counts.has_begun(folder) and (
                kill_marked(attempt.attempt_id) | kill_those_in(folder)
            ):
                return None
            kept = self._counts.of(folder)
            if kept is None:
                return None
            result = end_of_killed(folder, kept)
        if not self._slices.are_empty(attempt, were_used=not result["start_failed"]):
            return None
        note_end(folder, result)
        return orders.end_of(folder, result)

    def forget(self, attempt_id: AttemptId) -> None:
        """See the protocol."""
        attempt = self._tracked.pop(attempt_id, None)
        self._watch.leave(attempt_id)
        supervisor = self._supervisors.pop(attempt_id, None)
        if supervisor is not None:
            # Its exit is on record, so it is about to leave: no zombie may stay.
            supervisor.wait()
        self._slices.close(attempt_id, attempt)

    def prune(self, *, needed: Callable[[str], bool], before_s: float) -> int:
        """Remove the folders of attempts that ended before ``before_s`` and that nobody needs."""
        return leftovers.remove_old(self._root, needed=needed, before_s=before_s)

    def log(self, attempt: Attempt, *, rank: int, offset: int, limit_bytes: int) -> LogChunk:
        """See the protocol."""
        folder = self.folder(attempt.attempt_id)
        # Asked before reading, or lines written in between would be lost behind an "end".
        over = folder.exit.exists()
        return read_log(folder.log(rank), offset=offset, limit_bytes=limit_bytes, over=over)

    def rest(self) -> None:
        """See the protocol."""

    def close(self) -> None:
        """See the protocol."""
        self._watch.close()
        self._tracked.clear()
        for supervisor in self._supervisors.values():
            if supervisor.poll() is None:
                # It lives on by design; Popen need not warn of it.
                supervisor.returncode = 0
        self._supervisors.clear()
