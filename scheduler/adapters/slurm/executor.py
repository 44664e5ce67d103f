"""Attempts as jobs of a Slurm: each is one job, whose script runs the supervisor that workstations have.

Two things are asked and none is believed alone. Slurm says what is alive; the attempt's folder says how
it ended. An attempt is over when Slurm, asked after its submission, has nothing of it alive. While Slurm
does not answer, nothing new is known: what runs counts as running, what is to be submitted waits.

All of Slurm's commands come from one thread, so that the loop never waits for them; but for taking over
what runs, which is asked by the loop, and not again before the thread has had an answer.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Collection, Sequence
from dataclasses import replace

from gpucommons.scheduler.adapters.settings_file import read_file
from gpucommons.scheduler.adapters.slurm import launching
from gpucommons.scheduler.adapters.slurm.answers import Answer, ask
from gpucommons.scheduler.adapters.slurm.commands import WAITING, Slurm, SlurmJob
from gpucommons.scheduler.adapters.slurm.copies import Copies
from gpucommons.scheduler.adapters.slurm.nodes import Held, is_of, nodes_of
from gpucommons.scheduler.adapters.slurm.settings import SlurmPool, SlurmSettings
from gpucommons.scheduler.core.model.resources import Node, Pool
from gpucommons.scheduler.core.model.state import (
    AttemptEnded,
    AttemptSignalled,
    AttemptStarted,
    Observation,
)
from gpucommons.scheduler.core.model.types import Attempt, AttemptId, Millis
from gpucommons.scheduler.errors import Misconfigured, Unavailable
from gpucommons.scheduler.executors.base import Found, Launch, Live
from gpucommons.scheduler.executors.local import leftovers
from gpucommons.scheduler.executors.local.attempt import orders
from gpucommons.scheduler.executors.local.attempt.attempt_folder import (
    AttemptFolder,
    read_json,
    write_json,
)
from gpucommons.scheduler.executors.local.attempt.supervision import (
    OVERDUE_MS,
    end_of_killed,
    forbid_start,
    note_end,
)
from gpucommons.scheduler.executors.plugin import Offer
from gpucommons.scheduler.files.log_reader import LogChunk, read_log
from gpucommons.scheduler.threads.repeating import Troubles
from gpucommons.scheduler.training import alone

_LOG = logging.getLogger(__name__)
#: What Slurm answered to the submission of an attempt.
_SUBMITTED = "submitted.json"


class SlurmExecutor:
    """See :class:`gpucommons.scheduler.executors.base.Executor`."""

    name = "slurm"

    def __init__(self, offer: Offer) -> None:
        self._offer = offer
        self._settings = read_file(offer.settings, SlurmSettings, executor=self.name)
        if os.geteuid() == 0 and not self._settings.jobs_as_root:
            message = (
                "This scheduler is root, and Slurm runs jobs as who submits them: every user's job would be"
                " root on its nodes. Start the scheduler as an account of its own."
            )
            raise Misconfigured(message)
        self._slurm = Slurm(
            patience_s=self._settings.patience_s,
            folder=self._settings.bin,
            conf=self._settings.conf,
        )
        self._root = self._settings.folder / "attempts"
        self._root.mkdir(mode=0o711, parents=True, exist_ok=True)
        self._site = launching.Site(
            settings=self._settings, training=alone.lay_out(self._settings.folder / "python")
        )
        self._copies = Copies(self._settings.folder / "snapshots", offer.snapshot_path)
        self._tracked: dict[AttemptId, Attempt] = {}
        #: Laid out, and not yet known to be with Slurm.
        self._wanted: dict[AttemptId, tuple[list[str], str]] = {}
        self._refused: dict[AttemptId, str] = {}
        #: The turn in which an attempt was submitted, or may have been: an older answer says nothing of it.
        self._since: dict[AttemptId, int] = {}
        #: When it was first seen to be gone without a word in its folder.
        self._gone_s: dict[AttemptId, float] = {}
        self._answer = Answer()
        #: Of the commands: one turn at a time, whoever asks.
        self._turn = threading.Lock()
        self._due, self._stopping = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._work, name="slurm", daemon=True)
        self._thread.start()

    def folder(self, attempt_id: AttemptId) -> AttemptFolder:
        """Where an attempt lies."""
        return AttemptFolder(self._root / attempt_id)

    def nodes(self) -> tuple[Node, ...]:
        """See the protocol."""
        answer = self._answer
        if not answer.turn:
            # Nobody was asked yet: an empty list would mean that they are gone.
            message = "Slurm has not answered yet"
            raise Unavailable(message)
        held: set[str] = set()
        not_given: set[str] = set()
        for attempt in list(self._tracked.values()):
            devices = {one for placement in attempt.placements for one in placement.device_ids}
            held |= devices
            if all(one.state in WAITING for one in answer.alive(attempt.attempt_id)):
                not_given |= devices
        of_ours = Held(all=held, not_given=not_given)
        return tuple(
            node
            for pool, asked in self._pools()
            for node in nodes_of(pool, asked, answer.nodes, held=of_ours, away=answer.away)
        )

    def _pools(self) -> list[tuple[Pool, SlurmPool]]:
        known = self._settings.pools
        return [(one, known[one.name]) for one in self._offer.pools() if one.name in known]

    # --- starting ----------------------------------------------------------------------------

    def start(self, launch: Launch) -> None:
        """See the protocol."""
        attempt = launch.attempt
        attempt_id, folder = attempt.attempt_id, self.folder(attempt.attempt_id)
        self._tracked[attempt_id] = attempt
        if attempt_id in self._wanted or attempt_id in self._refused:
            return
        self._copies.note(attempt_id, {"snapshot": launch.workload.spec.snapshot})
        if any(
            path.exists() for path in (folder.path / _SUBMITTED, folder.supervisor, folder.exit)
        ):
            return
        pool, asked = self._pool_of(launch)
        launching.refuse(launch, asked, self._root)
        launching.lay_out(folder, launch, self._site, pool, self._copies.make(launch))
        self._wanted[attempt_id] = (
            launching.options(launch, folder, asked, pool),
            launching.script(folder, self._settings.python),
        )
        self._due.set()

    def _pool_of(self, launch: Launch) -> tuple[Pool, SlurmPool]:
        node = next((one.node_id for one in launch.attempt.placements), "")
        for pool, asked in self._pools():
            if is_of(pool, node):
                return pool, asked
        message = f"The settings of this Slurm say nothing of the pool of {node}."
        raise Misconfigured(message)

    # --- stopping ----------------------------------------------------------------------------

    def announce(self, attempt: Attempt) -> None:
        """See the protocol; the supervisor looks for it once a second."""
        orders.announce(self.folder(attempt.attempt_id), attempt.stop)

    def spare(self, attempt: Attempt) -> None:
        """See the protocol."""
        orders.spare(self.folder(attempt.attempt_id))

    def signal(self, attempt: Attempt, *, now_ms: Millis) -> None:
        """See the protocol; what does not run yet is taken back from Slurm by the thread."""
        self._tracked[attempt.attempt_id] = attempt
        folder = self.folder(attempt.attempt_id)
        folder.path.mkdir(mode=0o711, exist_ok=True)
        kill_ms = now_ms if attempt.stop is None else attempt.stop.kill_ms
        orders.order_stop(folder, kill_ms)
        self._due.set()

    # --- looking -----------------------------------------------------------------------------

    def adopt(self, known: Sequence[Attempt]) -> tuple[Live, ...]:
        """See the protocol; fails while Slurm does not answer, and is asked again."""
        if self._answer.away:
            # The loop, and with it all other pools, would wait for each command's whole patience.
            message = "Slurm does not answer: nothing is taken over yet"
            raise Unavailable(message)
        with self._turn:
            answer = self._ask()
            self._site = replace(self._site, by_job=leftovers.by_job(self._root))
            ours = {one.attempt_id: one for one in known}
            for attempt_id in answer.jobs:
                # One that has no folder here is another installation's; one that was started since this
                # scheduler leads is known, though not yet when it was first asked to take over.
                is_unknown = attempt_id not in ours and attempt_id not in self._tracked
                if is_unknown and self.folder(attempt_id).path.is_dir():
                    self._end_unknown(attempt_id, answer)
        found = []
        for attempt_id, attempt in ours.items():
            if self.folder(attempt_id).path.is_dir():
                self._tracked[attempt_id] = attempt
                self._copies.note(attempt_id, read_json(self.folder(attempt_id).plan))
                alive = bool(answer.alive(attempt_id))
                found.append(Live(attempt_id=attempt_id, running=alive))
        self._copies.drop_unneeded()
        return tuple(found)

    def _end_unknown(self, attempt_id: AttemptId, answer: Answer) -> None:
        for job in answer.alive(attempt_id):
            _LOG.warning("job %s of Slurm runs for nobody: cancelling it", job.number)
            orders.order_stop(self.folder(attempt_id), 0)
            self._slurm.cancel(job.number, kill=job.state not in WAITING)

    def since(self, at_ms: Millis) -> tuple[Found, ...]:
        """See the protocol."""
        with self._turn:
            answer = self._ask()
        return tuple(
            replace(one, running=bool(answer.alive(one.attempt_id)))
            for one in leftovers.found_since(self._root, at_ms)
        )

    def observe(self) -> tuple[Observation, ...]:
        """See the protocol."""
        seen: list[Observation] = []
        for attempt_id in list(self._tracked):
            folder = self.folder(attempt_id)
            if folder.started.exists():
                seen.append(AttemptStarted(attempt_id=attempt_id))
            if folder.signalled.exists():
                seen.append(AttemptSignalled(attempt_id=attempt_id))
            ended = self._ended(attempt_id)
            if ended is not None:
                seen.append(ended)
        return tuple(seen)

    def _ended(self, attempt_id: AttemptId) -> AttemptEnded | None:
        folder, answer = self.folder(attempt_id), self._answer
        if attempt_id in self._refused:
            return AttemptEnded(
                attempt_id=attempt_id,
                exit_code=None,
                start_failed=True,
                text=self._refused[attempt_id],
            )
        if answer.turn <= self._since.get(attempt_id, 0) or answer.alive(attempt_id):
            return None
        result = read_json(folder.exit)
        if result is None:
            # Whoever died before it wrote down that it had submitted may have left one that began.
            traces = (folder.path / _SUBMITTED, folder.supervisor)
            if attempt_id in self._wanted or not any(path.exists() for path in traces):
                return None
            # Files come later than Slurm's word where a file system keeps them back for a moment.
            gone_s = self._gone_s.setdefault(attempt_id, time.monotonic())
            if time.monotonic() < gone_s + self._settings.files_late_s:
                return None
            last = next(reversed(answer.jobs.get(attempt_id, ())), None)
            how = "Slurm has it no more" if last is None else f"Slurm ended it: {last.state}"
            result = {**end_of_killed(folder, {}), "killed": False, "text": how}
            note_end(folder, result)
        return orders.end_of(folder, result)

    def forget(self, attempt_id: AttemptId) -> None:
        """See the protocol."""
        self._wanted.pop(attempt_id, None)
        if (text := self._refused.pop(attempt_id, None)) is not None:
            never = {"exit_code": None, "start_failed": True, "killed": False, "told": False}
            note_end(self.folder(attempt_id), {**never, "text": text})
        self._tracked.pop(attempt_id, None)
        self._copies.forget(attempt_id)
        self._gone_s.pop(attempt_id, None)
        self._since.pop(attempt_id, None)

    def log(self, attempt: Attempt, *, rank: int, offset: int, limit_bytes: int) -> LogChunk:
        """See the protocol."""
        folder = self.folder(attempt.attempt_id)
        over = folder.exit.exists()
        return read_log(folder.log(rank), offset=offset, limit_bytes=limit_bytes, over=over)

    def rest(self) -> None:
        """See the protocol."""
        for known in (self._tracked, self._wanted, self._refused, self._since, self._gone_s):
            known.clear()

    def close(self) -> None:
        """See the protocol."""
        self._stopping.set()
        self._due.set()
        self._thread.join()

    # --- the thread --------------------------------------------------------------------------

    def _work(self) -> None:
        troubles = Troubles("Asking Slurm")
        while not self._stopping.is_set():
            before = self._traces()
            try:
                with self._turn:
                    self._step()
                troubles.over()
            except Exception as error:  # noqa: BLE001 - it ends a try, not the thread
                self._answer = replace(self._answer, away=True)
                troubles.note(error)
            if self._gone_s or self._traces() != before:
                self._offer.wake()
            # At least a short while: whoever sets it again and again must not make us ask as often.
            self._stopping.wait(min(0.2, self._settings.look_s))
            self._due.wait(self._settings.look_s)
            self._due.clear()

    def _traces(self) -> object:
        """All that an observation is made of."""
        folders = map(self.folder, list(self._tracked))
        told = [
            (one.started.exists(), one.signalled.exists(), one.exit.exists()) for one in folders
        ]
        answer = self._answer
        return answer.jobs, answer.nodes, answer.away, dict(self._refused), told

    def _ask(self) -> Answer:
        try:
            self._answer = ask(self._slurm, after=self._answer)
        except Unavailable:
            self._answer = replace(self._answer, away=True)
            raise
        return self._answer

    def _step(self) -> None:
        answer = self._ask()
        refused = self._submit_wanted(answer)
        for attempt_id in list(self._tracked):
            folder = self.folder(attempt_id)
            if (stop := read_json(folder.stop)) is not None:
                self._take_back(attempt_id, stop["kill_ms"], answer)
            if folder.exit.exists():
                # What waits under its name would do nothing, some time.
                self._cancel(answer.alive(attempt_id), WAITING)
        if refused is not None:
            raise refused

    def _submit_wanted(self, answer: Answer) -> Unavailable | None:
        """Submit what waits for it; what Slurm said of one that it did not take now."""
        for attempt_id, order in list(self._wanted.items()):
            if self._stopping.is_set():
                break
            try:
                self._submit(attempt_id, order, answer)
            except Unavailable as error:
                # Its turn comes after the others', and stops wait for none of them.
                if (again := self._wanted.pop(attempt_id, None)) is not None:
                    self._wanted[attempt_id] = again
                return error
        return None

    def _submit(self, attempt_id: AttemptId, order: tuple[list[str], str], answer: Answer) -> None:
        folder = self.folder(attempt_id)
        if attempt_id in answer.jobs:
            # Submitted by one that died before it could write that down.
            number = answer.jobs[attempt_id][-1].number
        elif folder.stop.exists() or folder.exit.exists():
            return
        else:
            self._since[attempt_id] = answer.turn
            try:
                number = self._slurm.submit(*order)
            except Misconfigured as error:
                self._refused[attempt_id] = str(error)
                self._wanted.pop(attempt_id, None)
                return
        write_json(folder.path / _SUBMITTED, {"number": number})
        self._wanted.pop(attempt_id, None)

    def _take_back(self, attempt_id: AttemptId, kill_ms: int, answer: Answer) -> None:
        """A stop of what does not run yet, or of what does not obey."""
        folder, alive = self.folder(attempt_id), answer.alive(attempt_id)
        is_known = answer.turn > self._since.get(attempt_id, 0)
        if not folder.supervisor.exists() and not folder.exit.exists() and is_known:
            # Nothing of it runs, and whatever Slurm starts of it from now on ends at once.
            self._wanted.pop(attempt_id, None)
            forbid_start(folder)
        self._cancel(alive, WAITING)
        if self._offer.now_ms() > kill_ms + OVERDUE_MS:
            self._cancel(alive, {one.state for one in alive} - WAITING)

    def _cancel(self, jobs: Sequence[SlurmJob], states: Collection[str]) -> None:
        for job in jobs:
            if job.state in states:
                self._slurm.cancel(job.number, kill=job.state not in WAITING)
