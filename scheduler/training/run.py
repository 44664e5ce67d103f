"""One training run as its script sees it: where to resume, where to save, whether to stop.

Progress is a courtesy and never stops training: when the scheduler cannot be reached, reports are
dropped. A checkpoint's receipt matters, so it is tried again; refused as stale, it tells the script
that another attempt has taken over.
"""

from __future__ import annotations

import json
import math
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from queue import Empty, SimpleQueue
from tempfile import TemporaryDirectory
from types import FrameType
from typing import TYPE_CHECKING, Any, TypeVar

from gpucommons.scheduler import models
from gpucommons.scheduler.client import SchedulerClient, calls
from gpucommons.scheduler.errors import BadRequest, SchedulerError, StaleAttempt, Unavailable
from gpucommons.scheduler.in_pod.told_files import FINISHED_FILE, TOLD_FILE
from gpucommons.scheduler.in_pod.worker import (
    STOPPED,
    Api,
    Refused,
    Unreachable,
    upload,
)
from gpucommons.scheduler.training import checkpoints
from gpucommons.scheduler.training.loading import Loading

if TYPE_CHECKING:
    from typing import Self  # of Python 3.11; scripts may run with 3.10

_Batch = TypeVar("_Batch")
#: Before each try to hand in a receipt; then the script goes on without it.
RECEIPT_PAUSES_S = (0.0, 0.2, 0.4, 0.8, 1.6)


@dataclass(frozen=True, kw_only=True, slots=True)
class Place:
    """Where a run lies: read once from the environment."""

    attempt_dir: Path
    resume_dir: Path | None
    notice_file: Path | None
    rank: int
    world_size: int
    attempt: int
    checkpoints_kept: int
    #: What keeps the global batch of a job whose number of workers changed.
    micro_steps: int = 1
    batch_scale: float = 1.0

    @classmethod
    def from_environment(cls, environ: Mapping[str, str]) -> Self:
        """Outside the scheduler everything lies in the current folder.

        A launcher inside of a worker (torchrun, DeepSpeed) numbers all processes of all workers anew.
        """
        root = Path(environ.get("GPUCOMMONS_ATTEMPT_DIR") or ".")
        resume = environ.get("GPUCOMMONS_RESUME_DIR")
        notice = environ.get("GPUCOMMONS_NOTICE_FILE")
        return cls(
            attempt_dir=root,
            resume_dir=Path(resume) if resume else None,
            notice_file=Path(notice) if notice else None,
            rank=_number(environ, "RANK", int(environ.get("GPUCOMMONS_RANK", "0"))),
            world_size=_number(
                environ, "WORLD_SIZE", int(environ.get("GPUCOMMONS_WORLD_SIZE", "1"))
            ),
            attempt=int(environ.get("GPUCOMMONS_ATTEMPT", "1")),
            checkpoints_kept=int(environ.get("GPUCOMMONS_CHECKPOINTS_KEPT", "3")),
            micro_steps=int(environ.get("GPUCOMMONS_ACCUMULATION", "1")),
            batch_scale=float(environ.get("GPUCOMMONS_BATCH_SCALE", "1")),
        )


def _number(environ: Mapping[str, str], name: str, otherwise: int) -> int:
    text = environ.get(name, "")
    return int(text) if text.isdecimal() else otherwise


class Run:
    """The running attempt."""

    def __init__(
        self,
        place: Place,
        scheduler: SchedulerClient | None,
        *,
        keep: Callable[[Path], str | None] = lambda _checkpoint: None,
        pause: Callable[[float], None] = time.sleep,
        loading: Loading | None = None,
    ) -> None:
        self.place = place
        self._loading = loading or Loading({})
        self._tells_loading = True
        self._scheduler = scheduler
        #: Makes a complete checkpoint outlast this machine; says under which path, if another one.
        self._keep = keep
        self._pause = pause
        self._terminated = False
        #: What wakes a wait. Not an event: a signal may come while the wait holds an event's lock, and its
        #: handler, in the same thread, would wait for that lock for ever.
        self._wakes: SimpleQueue[None] = SimpleQueue()
        self._has_dropped = False
        self._was_told = False
        self._acknowledged: checkpoints.CompleteCheckpoint | None = None

    # --- resuming ----------------------------------------------------------------------------

    @property
    def resume_dir(self) -> Path | None:
        """The last complete checkpoint; None on a first start."""
        if self.place.resume_dir is not None or self._scheduler is not None:
            return self.place.resume_dir
        steps = checkpoints.complete_steps(self.checkpoints_dir)
        return self.checkpoints_dir / f"step-{steps[-1]}" if steps else None

    def resume_step(self) -> int:
        """The step of that checkpoint; 0 on a first start."""
        folder = self.resume_dir
        return checkpoints.step_of(folder) if folder is not None else 0

    # --- the global batch --------------------------------------------------------------------

    @property
    def micro_steps(self) -> int:
        """So many batches make a step, where fewer processes run than the job was submitted with."""
        return self.place.micro_steps

    def batch(self, size: int) -> int:
        """Of each process, where ``size`` is right at the size that was submitted."""
        return max(1, round(size * self.place.batch_scale))

    # --- saving ------------------------------------------------------------------------------

    @property
    def checkpoints_dir(self) -> Path:
        """Where this attempt's checkpoints lie."""
        return self.place.attempt_dir / "checkpoints"

    @property
    def results_dir(self) -> Path:
        """What lies here comes back to the notebook's folder when the job has succeeded."""
        folder = self.place.attempt_dir / "results"
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    @contextmanager
    def checkpoint(self, *, step: int) -> Iterator[Path]:
        """Give a folder to save into; the checkpoint is complete when the block ends.

        Rank 0 saves for all workers, who may share the folder: what others save at the same time is
        dropped. Raises ``StaleAttempt`` when this attempt is no longer the current one: the script
        should end.
        """
        if self.place.rank != 0:
            with self._dropped() as folder:
                yield folder
            return
        with checkpoints.writing(self.checkpoints_dir, step) as folder:
            yield folder
        self._hand_in(checkpoints.describe(self.checkpoints_dir / f"step-{step}"))
        checkpoints.drop_older(self.checkpoints_dir, keep=self.place.checkpoints_kept)

    @contextmanager
    def _dropped(self) -> Iterator[Path]:
        if not self._has_dropped:
            self._has_dropped = True
            _say(f"rank 0 saves for all workers: what rank {self.place.rank} saves is dropped")
        self.place.attempt_dir.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(prefix=".dropped-", dir=self.place.attempt_dir) as folder:
            yield Path(folder)

    def _hand_in(self, checkpoint: checkpoints.CompleteCheckpoint) -> None:
        if self._scheduler is None or checkpoint == self._acknowledged:
            return  # also the very same once more, as before a stop
        try:
            kept_as = self._keep(checkpoint.path)
        except (Refused, Unreachable, OSError) as error:
            # No receipt then: the next checkpoint may fare better, and this one was not promised.
            _say(f"checkpoint {checkpoint.step} could not be kept: {error}")
            return
        report = models.CheckpointReport(
            step=checkpoint.step,
            path=kept_as or checkpoint.path.relative_to(self.place.attempt_dir).as_posix(),
            size_bytes=checkpoint.size_bytes,
            sha256=checkpoint.sha256,
        )
        for pause_s in RECEIPT_PAUSES_S:
            # A receipt is worth a few seconds, also of a grace: the scheduler may be restarting.
            self._pause(pause_s)
            try:
                self._scheduler.send(calls.report_checkpoint(report))
            except StaleAttempt:
                raise
            except Unavailable:
                continue
            except SchedulerError as error:
                _say(f"checkpoint {checkpoint.step} was not taken: {error}")
                return
            else:
                self._acknowledged = checkpoint
                return
        _say(f"checkpoint {checkpoint.step} is saved, but the scheduler did not acknowledge it")

    # --- telling -----------------------------------------------------------------------------

    def report(self, *, step: int, total_steps: int | None = None, **metrics: float) -> None:
        """Tell how far the run is; numbers that are not finite are left out."""
        self._loading.watch()
        if self._scheduler is None or self.place.rank != 0:
            return
        finite = {name: float(value) for name, value in metrics.items() if math.isfinite(value)}
        loading = _valid(self._loading.report()) if self._tells_loading else None
        more: dict[str, Any] = {} if loading is None else {"loading": loading}
        report = models.ProgressReport(step=step, total_steps=total_steps, metrics=finite, **more)
        try:
            self._scheduler.send(calls.report_progress(report))
        except StaleAttempt:
            raise
        except SchedulerError as error:
            if not more or not isinstance(error, BadRequest):
                _say(f"progress of step {step} was not recorded: {error}")
                return
            # A scheduler of an earlier release takes no word of the loader.
            self._tells_loading = False
            self.report(step=step, total_steps=total_steps, **finite)

    def batches(self, loader: Iterable[_Batch]) -> Iterator[_Batch]:
        """The same batches, and how long the script waits for them: of loaders other than torch's.

        torch's own ``DataLoader`` is timed without it.
        """
        return self._loading.timed(loader)

    # --- stopping ----------------------------------------------------------------------------

    @property
    def should_stop(self) -> bool:
        """True once a stop is announced or signalled: save and leave with :meth:`stop_now`."""
        notice = self.place.notice_file
        told = self._terminated or (notice is not None and notice.exists())
        if told and not self._was_told:
            self._was_told = True
            # From now on leaving is obeying, whatever the exit status.
            self._leave_word(TOLD_FILE)
        return told

    @property
    def was_signalled(self) -> bool:
        """SIGTERM has come: what is not saved within the grace is lost."""
        return self._terminated

    @property
    def was_told(self) -> bool:
        """:attr:`should_stop` was true once, here or in another process of this attempt."""
        return self._was_told or (self.place.attempt_dir / TOLD_FILE).exists()

    def _leave_word(self, name: str) -> None:
        if self._scheduler is None:
            return
        try:
            (self.place.attempt_dir / name).touch()
        except OSError as error:
            _say(f"{name} could not be written: {error.strerror}")

    def notice(self) -> dict[str, object] | None:
        """The announced stop, as the scheduler wrote it (``text``, ``term_ms``, …)."""
        notice = self.place.notice_file
        try:
            return dict(json.loads(notice.read_text())) if notice is not None else None
        except (FileNotFoundError, ValueError):
            return None

    def finished(self) -> None:
        """Tell that the work is done: also after a signal the job has then succeeded.

        Leaving ``with training.current() as run:`` without an error does it, too, unless
        :attr:`should_stop` was true. Rank 0 tells it for all workers.
        """
        if self._scheduler is None or self.place.rank != 0:
            return
        self._leave_word(FINISHED_FILE)
        for pause_s in RECEIPT_PAUSES_S:
            self._pause(pause_s)
            try:
                self._scheduler.send(calls.report_finished())
            except Unavailable:
                continue
            except SchedulerError as error:
                _say(f"that the work is done was not taken: {error}")
            return

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None and not self.was_told:
            self.finished()

    def stop_now(self) -> None:
        """Leave as a stopped run: the scheduler puts the job back in line."""
        sys.exit(STOPPED)

    def on_sigterm(self, then: Callable[[], None] = lambda: None) -> None:
        """Turn SIGTERM into :attr:`should_stop`, so that the script can save first."""

        def handle(_number: int, _frame: FrameType | None) -> None:
            self._terminated = True
            self._wakes.put(None)
            then()

        signal.signal(signal.SIGTERM, handle)

    def wait(self, seconds: float) -> None:
        """Wait, but not beyond a stop signal."""
        if self._terminated:
            return
        with suppress(Empty):
            self._wakes.get(timeout=max(0, seconds))
            self._wakes.put(None)  # for whoever else waits


def _upload(api: Api, attempt_dir: Path, checkpoint: Path) -> str:
    """Hand a checkpoint's files over to object storage, before its receipt.

    Each time to a folder of its own: a step may be saved twice, and until the second one is whole and
    acknowledged the first must stay what its receipt says.
    """
    folder = checkpoint.relative_to(attempt_dir).as_posix()
    to = f"{folder}.{time.time_ns() // 1_000_000}"
    upload(api, attempt_dir, folder, to=to)
    return to


def _valid(measured: dict[str, Any] | None) -> models.LoadingReport | None:
    """What was measured of any loader; nothing where it cannot be told: no script ends for it."""
    try:
        return None if measured is None else models.LoadingReport.model_validate(measured)
    except ValueError:  # pydantic's is one, and not every environment has pydantic
        return None


def _say(text: str) -> None:
    stamp = time.strftime("%H:%M:%S")
    sys.stderr.write(f"{stamp} gpucommons: {text}\n")


@cache
def current() -> Run:
    """The run of this process; SIGTERM becomes ``should_stop`` where signals can be caught."""
    url, token = os.environ.get("GPUCOMMONS_URL"), os.environ.get("GPUCOMMONS_TOKEN")
    scheduler = SchedulerClient(url, token=token) if url and token else None
    place, loading = Place.from_environment(os.environ), Loading(os.environ)
    loading.watch()
    if url and token and os.environ.get("GPUCOMMONS_STORAGE") == "links":
        upload_it = partial(_upload, Api(url, token), place.attempt_dir)
        run = Run(place, scheduler, keep=upload_it, loading=loading)
    else:
        run = Run(place, scheduler, loading=loading)
    if threading.current_thread() is threading.main_thread():
        run.on_sigterm()
    return run
