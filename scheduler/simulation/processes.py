"""The processes of one attempt in virtual time: how much they have done, and what a stop loses.

Work counts in milliseconds of the job at the size it asked for: an elastic job on half of its
workers takes twice as long, unless it is said how fast it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from gpucommons.gpu.devices.devices import DeviceId
from gpucommons.scheduler.core.model.types import (
    AttemptId,
    Millis,
    Progress,
    Workload,
    WorkloadId,
)
from gpucommons.scheduler.simulation.record import Story


class Vacated:
    """Devices that were left since the step before.

    A step may stand for hours: what it starts on a device that was left within them began then, as it
    would have with a step for each end; but not before it might. A team's limit is not looked at.
    """

    def __init__(self) -> None:
        self._left: dict[DeviceId, Millis] = {}
        #: When the last attempts of workloads ended.
        self._ended: dict[WorkloadId, Millis] = {}
        self._from_ms = self._now_ms = Millis(0)
        #: When workloads began by this account; not of those of which nothing tells.
        self.begun: dict[WorkloadId, Millis] = {}

    def nothing(self, now_ms: Millis) -> None:
        """A step begins."""
        self._left.clear()
        self._from_ms, self._now_ms = self._now_ms or now_ms, now_ms

    def left(self, workload: Workload | None, at_ms: Millis) -> None:
        """An attempt has ended."""
        attempt = None if workload is None else workload.current
        if workload is not None:
            self._ended[workload.workload_id] = at_ms
        for placement in () if attempt is None else attempt.placements:
            self._left.update(dict.fromkeys(placement.device_ids, at_ms))

    def begun_ms(
        self, workload: Workload, now_ms: Millis, stories: Mapping[WorkloadId, Story]
    ) -> Millis:
        """When a workload that this step starts began: as soon as it might, and its devices were left."""
        attempt = workload.current
        held = () if attempt is None else attempt.placements
        left = [self._left[d] for one in held for d in one.device_ids if d in self._left]
        might_ms = max(self._held_back(workload, stories))
        if not left and might_ms <= self._from_ms:
            self.begun.pop(workload.workload_id, None)
            return now_ms
        begun = min(now_ms, max(*left, might_ms, workload.submitted_ms))
        self.begun[workload.workload_id] = begun
        return begun

    def _held_back(
        self, workload: Workload, stories: Mapping[WorkloadId, Story]
    ) -> Iterator[Millis]:
        """When its time had come, and its last attempt and what it runs after had ended.

        Also before this step: what was dated back may end in a later step, at an earlier time.
        """
        spec = workload.spec
        yield from (workload.not_before_ms, spec.not_before_ms)
        yield from (one.to_ms for one in workload.pauses[-1:])
        yield self._ended.get(workload.workload_id, Millis(0))
        for before in spec.after:
            story = stories.get(before)
            # Who ended without an attempt (cancelled in line) did so by the time of that step.
            ended_ms = None if story is None else story.ended_ms
            yield self._ended.get(before, ended_ms or Millis(0))


@dataclass(slots=True)
class Processes:
    """One attempt of a job, or the server of one lease."""

    attempt_id: AttemptId
    workload_id: WorkloadId
    #: What it holds, and what the job asked for: their ratio is its speed.
    held_milli_gpu: int
    asked_milli_gpu: int
    since_ms: Millis
    #: Work left at its start; None = until it is stopped.
    left_ms: int | None
    #: Time spent on loading before it works.
    loading_ms: int = 0
    started_ms: Millis | None = None
    #: Work since the last save at its start: what a live job had done before the simulation.
    unsaved_ms: int = 0
    told_to_stop: bool = False
    #: How fast it is, of 1000 at the size it asked for; 0 = as its share of that.
    speed_permille: int = 0
    #: It has told of its progress.
    reported: bool = False

    @property
    def end_ms(self) -> Millis | None:
        """When it will have finished, left alone."""
        if self.started_ms is None or self.left_ms is None:
            return None
        return Millis(self.started_ms + self.loading_ms + self._wall(self.left_ms))

    def worked_ms(self, now_ms: int) -> int:
        """Wall-clock time it has worked since its start, loading not counted."""
        if self.started_ms is None:
            return 0
        return max(0, now_ms - self.started_ms - self.loading_ms)

    def saved_ms(self, now_ms: int, every_ms: int) -> int:
        """Wall-clock time whose work its newest checkpoint holds."""
        return max(0, (self.worked_ms(now_ms) + self.unsaved_ms) // every_ms * every_ms)

    def left_after_stop_ms(self, now_ms: int, every_ms: int) -> int | None:
        """Work that a next attempt has to do when this one is stopped now."""
        if self.left_ms is None:
            return None
        if self.worked_ms(now_ms) + self.unsaved_ms < every_ms:
            # Nothing new was saved: what a live job had not saved either is to be done again.
            return self.left_ms + self._done(self.unsaved_ms)
        saved = self.saved_ms(now_ms, every_ms) - self.unsaved_ms
        return max(0, self.left_ms - self._done(saved))

    def lost_ms(self, now_ms: int, every_ms: int) -> int:
        """Wall-clock time whose work a stop now throws away."""
        return self.worked_ms(now_ms) + self.unsaved_ms - self.saved_ms(now_ms, every_ms)

    def done_ms(self, now_ms: int) -> int:
        """Work it has done since its start."""
        return self._done(self.worked_ms(now_ms))

    def progress(self, now_ms: int, total_ms: int | None) -> Iterator[Progress]:
        """What it tells, where it is known how much work there is: the first time, where it began."""
        if self.left_ms is None or total_ms is None or self.started_ms is None:
            return
        times = [now_ms] if self.reported else [self.started_ms + self.loading_ms, now_ms]
        self.reported = True
        for at_ms in times:
            step = (total_ms - self.left_ms + self.done_ms(at_ms)) // 1000
            yield Progress(step=step, total_steps=total_ms // 1000, at_ms=Millis(at_ms))

    def _wall(self, work_ms: int) -> int:
        if self.speed_permille:
            return -(-work_ms * 1000 // self.speed_permille)
        if not self.asked_milli_gpu or not self.held_milli_gpu:
            return work_ms
        return -(-work_ms * self.asked_milli_gpu // self.held_milli_gpu)

    def _done(self, wall_ms: int) -> int:
        if self.speed_permille:
            return wall_ms * self.speed_permille // 1000
        if not self.asked_milli_gpu or not self.held_milli_gpu:
            return wall_ms
        return wall_ms * self.held_milli_gpu // self.asked_milli_gpu
