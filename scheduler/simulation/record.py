"""What happened in a simulation: each workload's story, every eviction, and what was held when."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum

from gpucommons.scheduler.core.model.demand import milli_gpu, must_have
from gpucommons.scheduler.core.model.state import Changes, Event
from gpucommons.scheduler.core.model.types import HoldClass, Millis, Spec, TeamName, WorkloadId

#: Receipts of attempts that were stopped for another workload.
_TAKEN = frozenset({"evicted", "moved"})


class Right(StrEnum):
    """By which right something was stopped for another workload."""

    FIXED = "fixed"
    GUARANTEE = "guarantee"
    SHARE = "share"
    PRIORITY = "priority"
    #: An elastic job shrank while somebody waited.
    ROOM = "room"
    #: To make room in one piece: it was moved apart.
    MOVE = "move"


def right_of(rule: str) -> Right:
    """Tell the right from the rule that a receipt names."""
    for start, right in (
        ("fixed quota", Right.FIXED),
        ("guarantee", Right.GUARANTEE),
        ("fair share", Right.SHARE),
        ("priority", Right.PRIORITY),
        ("room", Right.ROOM),
    ):
        if rule.startswith(start):
            return right
    return Right.MOVE


def asked_milli_gpu(spec: Spec) -> int:
    """The size at which a run length is known: all workers of its first role."""
    first = spec.roles[0]
    return (
        milli_gpu(must_have(spec))
        if spec.min_workers is None
        else sum(role.milli_gpu * role.count for role in (first, *spec.roles[1:]))
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class Eviction:
    """One attempt (or the surplus of an elastic one) stopped for another workload."""

    at_ms: Millis
    workload_id: WorkloadId
    team: TeamName
    right: Right
    hold_class: HoldClass
    #: Only its surplus workers went.
    resized: bool
    milli_gpu: int
    #: Work thrown away; what the next attempt spends on loading is added when it starts.
    lost_milli_gpu_ms: int

    @classmethod
    def of(cls, event: Event, story: Story, hold_class: HoldClass) -> Eviction:
        """Read a receipt."""
        return cls(
            at_ms=event.at_ms,
            workload_id=story.workload_id,
            team=story.team,
            right=right_of(str(event.data.get("rule", ""))),
            hold_class=hold_class,
            resized=event.data.get("why") == "resize",
            milli_gpu=int(event.data["milli_gpu"]),
            lost_milli_gpu_ms=int(event.data["lost_milli_gpu_ms"]),
        )


@dataclass(slots=True)
class Story:
    """One workload from submission to end."""

    workload_id: WorkloadId
    team: TeamName
    milli_gpu: int
    submitted_ms: Millis
    run_ms: int | None
    #: When its first attempt ran; for a live one that may be before the simulation.
    started_ms: Millis | None = None
    #: When it reached a final state.
    ended_ms: Millis | None = None
    attempts: int = 0
    evictions: int = 0
    #: milli-GPU·ms held, and of those spent on work that was done again or on loading.
    held_milli_gpu_ms: int = 0
    lost_milli_gpu_ms: int = 0
    refused: str | None = None
    #: It asks for more than its team's quota will ever let it have: it waits for nothing.
    never: bool = False

    @property
    def wait_ms(self) -> int | None:
        """From submission to its first start."""
        return None if self.started_ms is None else self.started_ms - self.submitted_ms

    @property
    def completion_ms(self) -> int | None:
        """From submission to its end."""
        return None if self.ended_ms is None else self.ended_ms - self.submitted_ms


@dataclass(slots=True)
class Record:
    """Everything a simulation noted."""

    stories: dict[WorkloadId, Story] = field(default_factory=dict)
    evictions: list[Eviction] = field(default_factory=list)
    #: Changes of what is held, in order of time: when, by whom, milli-GPU more or less.
    levels: list[tuple[Millis, TeamName, int]] = field(default_factory=list)
    #: Steps of the core.
    cycles: int = 0

    def note_evictions(self, changes: Changes) -> None:
        """Count what one cycle stopped for others."""
        if not any(event.kind in _TAKEN for event in changes.events):
            return
        after = {workload.workload_id: workload for workload in changes.workloads}
        for event in changes.events:
            if event.kind not in _TAKEN or event.workload_id is None:
                continue
            attempt = next(
                a for a in after[event.workload_id].attempts if a.attempt_id == event.attempt_id
            )
            story = self.stories[event.workload_id]
            story.evictions += 1
            self.evictions.append(Eviction.of(event, story, attempt.hold_class))

    def not_over(self, wanted: Iterable[WorkloadId]) -> tuple[WorkloadId, ...]:
        """Those that may still end here. The core forgets what is over, and would refuse it."""
        known = ((one, self.stories.get(one)) for one in wanted)
        return tuple(
            one for one, story in known if story and story.ended_ms is None and not story.refused
        )

    def held(self, from_ms: int, until_ms: int, team: TeamName | None = None) -> int:
        """milli-GPU·ms held in a window, by one team or by all."""
        total = level = 0
        last = from_ms
        for at_ms, who, change in self.levels:
            if team is not None and who != team:
                continue
            at = min(max(at_ms, from_ms), until_ms)
            total += level * (at - last)
            last = at
            level += change
        return total + level * max(0, until_ms - last)

    def lost_milli_gpu_ms(self) -> int:
        """What all evictions cost together."""
        return sum(story.lost_milli_gpu_ms for story in self.stories.values())
