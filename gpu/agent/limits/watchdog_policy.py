"""What happens to a slice that uses more memory than it has. Pure: no clock, no process touched.

A slice over its share in three looks running is warned, with numbers. If it still is 30 s later, the
process that grew most since all was well gets SIGTERM, and 10 s later SIGKILL. Where the card's
free memory is below what its neighbours are still owed, there is no warning time. Going below the
share ends a warning, but time over it is remembered and only slowly forgiven: who goes up and down
has one warning time for all the peaks together, not one for each. A notebook server
comes last: usually one kernel grew, and its server can start it again and say so. What cannot be
read is neither compliant nor over: nothing is decided on it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum

from gpucommons.gpu.devices.devices import DeviceId
from gpucommons.gpu.slices.slices import SliceId

#: Looks over the share before anybody hears of it.
PATIENCE_LOOKS = 3
#: From the warning to SIGTERM.
WARNING_MS = 30_000
#: From SIGTERM to SIGKILL.
GRACE_MS = 10_000
#: Peaks too short for a warning each are one when they add up to so much.
PEAKS_MS = 10_000
#: Time over the share is forgiven by so many times as much time within it.
_FORGIVEN_BY = 4
#: No look counts for more: an agent that was away saw nothing.
_LONGEST_LOOK_MS = 5_000
#: Contexts and caches come and go: so much over is no offence.
_TOLERANCE_MIB = 256
_TOLERANCE_PERCENT = 2


@dataclass(frozen=True, kw_only=True, slots=True)
class Usage:
    """Memory of one process of a slice."""

    pid: int
    #: With the pid it names one process, reused pids or not.
    start: int
    memory_mib: int
    is_server: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Portion:
    """A slice on one device, as one look found it."""

    slice_id: SliceId
    device_id: DeviceId
    #: 0 on a device that is not the slice's.
    limit_mib: int
    #: None where the driver cannot say.
    processes: tuple[Usage, ...] | None

    @property
    def used_mib(self) -> int | None:
        """All processes together."""
        return None if self.processes is None else sum(p.memory_mib for p in self.processes)


@dataclass(frozen=True, kw_only=True, slots=True)
class Room:
    """What is free on a device; None where the driver cannot say."""

    free_mib: int | None


class Step(Enum):
    """What is to be done."""

    WARN = "warn"
    TERMINATE = "terminate"
    KILL = "kill"
    CLEAR = "clear"


@dataclass(frozen=True, kw_only=True, slots=True)
class Decision:
    """One act, with the numbers that led to it."""

    step: Step
    slice_id: SliceId
    device_id: DeviceId
    used_mib: int
    limit_mib: int
    #: For an act on a process.
    pid: int = 0
    start: int = 0
    #: When the next step comes.
    next_ms: int | None = None
    #: The neighbours were about to miss what is theirs.
    urgent: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Case:
    """What is remembered of one slice on one device."""

    over_looks: int = 0
    warned_ms: int | None = None
    #: The process that was told to stop, and when.
    told: tuple[int, int] | None = None
    told_ms: int = 0
    killed: bool = False
    #: Memory of each process when all was well.
    before: Mapping[tuple[int, int], int] = field(default_factory=dict)
    looked_ms: int | None = None
    #: Time over the share that is not forgiven yet…
    owed_ms: int = 0
    #: …and of that, what was there before it went over now.
    carried_ms: int = 0
    #: The last warning within that time.
    last_warned_ms: int | None = None

    @property
    def next_ms(self) -> int | None:
        """When the next step comes, if nothing changes."""
        if self.told is not None:
            return self.told_ms + GRACE_MS
        if self.warned_ms is None:
            return None
        return self.warned_ms + max(0, WARNING_MS - self.carried_ms)

    def since(self, now_ms: int) -> int:
        """How long the last look is ago."""
        before_ms = now_ms if self.looked_ms is None else self.looked_ms
        return min(max(0, now_ms - before_ms), _LONGEST_LOOK_MS)


Cases = Mapping[tuple[SliceId, DeviceId], Case]


def tolerance_mib(limit_mib: int) -> int:
    """So much over a share is no offence."""
    return max(_TOLERANCE_MIB, limit_mib * _TOLERANCE_PERCENT // 100)


def judge(
    cases: Cases, portions: Sequence[Portion], rooms: Mapping[DeviceId, Room], *, now_ms: int
) -> tuple[Cases, tuple[Decision, ...]]:
    """Take one more look into account; slices that are gone are forgotten."""
    after: dict[tuple[SliceId, DeviceId], Case] = {}
    decisions: list[Decision] = []
    for portion in portions:
        key = (portion.slice_id, portion.device_id)
        case = cases.get(key, Case())
        urgent = _is_urgent(portion, portions, rooms.get(portion.device_id))
        after[key], decision = _judge_one(case, portion, now_ms, urgent=urgent)
        if decision is not None:
            decisions.append(decision)
    return after, tuple(decisions)


def _is_urgent(portion: Portion, portions: Iterable[Portion], room: Room | None) -> bool:
    """Whether the neighbours' due is not there any more."""
    if room is None or room.free_mib is None:
        return False
    owed_mib = sum(
        max(0, other.limit_mib - other.used_mib)
        for other in portions
        if other.device_id == portion.device_id
        and other.slice_id != portion.slice_id
        and other.used_mib is not None
    )
    return room.free_mib < owed_mib


def _judge_one(
    case: Case, portion: Portion, now_ms: int, *, urgent: bool
) -> tuple[Case, Decision | None]:
    used_mib, processes = portion.used_mib, portion.processes
    if used_mib is None or processes is None:
        return case, None
    if used_mib <= portion.limit_mib + tolerance_mib(portion.limit_mib):
        told = case.warned_ms is not None or case.told is not None
        decision = _decision(Step.CLEAR, portion, case) if told else None
        return _calmed(case, processes, now_ms), decision
    case = replace(
        case,
        over_looks=case.over_looks + 1,
        looked_ms=now_ms,
        owed_ms=case.owed_ms + case.since(now_ms),
    )
    if case.told is not None and not _is_alive(case.told, processes):
        # It went, and the slice is still over: the next one.
        case = replace(case, told=None, killed=False, warned_ms=now_ms - WARNING_MS)
    if case.told is not None:
        return _after_telling(case, portion, now_ms)
    due = case.next_ms is not None and now_ms >= case.next_ms
    if urgent or due or _has_used_up_its_time(case):
        return _tell(case, portion, now_ms, urgent=urgent)
    if case.warned_ms is None and (
        case.over_looks >= PATIENCE_LOOKS or _peaks_add_up(case, now_ms)
    ):
        case = replace(case, warned_ms=now_ms, last_warned_ms=now_ms)
        return case, _decision(Step.WARN, portion, case)
    return case, None


def _calmed(case: Case, processes: Sequence[Usage], now_ms: int) -> Case:
    owed_ms = max(0, case.owed_ms - case.since(now_ms) // _FORGIVEN_BY)
    return Case(
        before={(p.pid, p.start): p.memory_mib for p in processes},
        looked_ms=now_ms,
        owed_ms=owed_ms,
        carried_ms=owed_ms,
        last_warned_ms=case.last_warned_ms if owed_ms else None,
    )


def _has_used_up_its_time(case: Case) -> bool:
    """It was warned in an earlier peak, and all peaks together are as long as one may be."""
    warned = case.last_warned_ms is not None
    return warned and case.carried_ms > 0 and case.owed_ms >= WARNING_MS


def _peaks_add_up(case: Case, now_ms: int) -> bool:
    """Peaks too short to be heard of are one long one, of which its user hears now and then."""
    heard = case.last_warned_ms is not None and now_ms < case.last_warned_ms + WARNING_MS
    return case.owed_ms >= PEAKS_MS and not heard


def _after_telling(case: Case, portion: Portion, now_ms: int) -> tuple[Case, Decision | None]:
    assert case.told is not None  # noqa: S101 - the caller looked
    if case.killed or now_ms < case.told_ms + GRACE_MS:
        return case, None
    case = replace(case, killed=True)
    pid, start = case.told or (0, 0)
    return case, replace(_decision(Step.KILL, portion, case), pid=pid, start=start, next_ms=None)


def _tell(
    case: Case, portion: Portion, now_ms: int, *, urgent: bool
) -> tuple[Case, Decision | None]:
    chosen = _grew_most(portion.processes or (), case.before)
    if chosen is None:
        return case, None
    told = (chosen.pid, chosen.start)
    warned_ms = now_ms if case.warned_ms is None else case.warned_ms
    # With the process goes what was owed: the next one begins anew.
    case = replace(
        case, told=told, told_ms=now_ms, warned_ms=warned_ms, killed=False, owed_ms=0, carried_ms=0
    )
    decision = _decision(Step.TERMINATE, portion, case)
    return case, replace(decision, pid=chosen.pid, start=chosen.start, urgent=urgent)


def _grew_most(processes: Sequence[Usage], before: Mapping[tuple[int, int], int]) -> Usage | None:
    """The process with the largest growth; a server only where nobody else holds memory."""
    holding = [process for process in processes if process.memory_mib > 0]
    candidates = [process for process in holding if not process.is_server] or holding
    return max(
        candidates,
        key=lambda p: (p.memory_mib - before.get((p.pid, p.start), 0), p.memory_mib, p.pid),
        default=None,
    )


def _is_alive(told: tuple[int, int], processes: Iterable[Usage]) -> bool:
    return any((process.pid, process.start) == told for process in processes)


def _decision(step: Step, portion: Portion, case: Case) -> Decision:
    return Decision(
        step=step,
        slice_id=portion.slice_id,
        device_id=portion.device_id,
        used_mib=portion.used_mib or 0,
        limit_mib=portion.limit_mib,
        next_ms=case.next_ms,
    )
