"""The queues that the core is compared with: as simple and as good as such a queue can be.

All of them place on the same whole 8-GPU nodes, best fit, and stop nobody.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from heapq import heappop, heappush

from gpucommons.scheduler.simulation.trace import TraceJob
from gpucommons.scheduler.simulation.trace_cluster import GPUS_PER_NODE, Setting, parts

#: Where a job's parts lie: node and GPUs.
Place = list[tuple[int, int]]


@dataclass(slots=True)
class Played:
    """What became of one job."""

    job: TraceJob
    #: Under the static partition: its team's running and waiting GPUs with it were within quota.
    in_quota: bool = False
    started_ms: int | None = None
    ended_ms: int | None = None


@dataclass(slots=True)
class Nodes:
    """Free GPUs of each node."""

    free: list[int]

    @classmethod
    def all_of(cls, setting: Setting) -> Nodes:
        """Return the whole cluster."""
        return cls([GPUS_PER_NODE] * setting.nodes)

    @classmethod
    def partition(cls, setting: Setting) -> dict[str, Nodes]:
        """Give every team its own nodes."""
        return {
            team: cls([GPUS_PER_NODE] * (quota // GPUS_PER_NODE))
            for team, quota in setting.quotas.items()
        }

    def take(self, gpus: int) -> Place | None:
        """Best fit for every part, or nothing."""
        place: Place = []
        for part in parts(gpus):
            fits = [(free, i) for i, free in enumerate(self.free) if free >= part]
            if not fits:
                self.give_back(place)
                return None
            node = min(fits)[1]
            self.free[node] -= part
            place.append((node, part))
        return place

    def give_back(self, place: Place) -> None:
        """Free what a job held."""
        for node, part in place:
            self.free[node] += part


@dataclass(slots=True)
class Queue:
    """Waiting jobs by size: the oldest of each size is enough to look at."""

    by_size: dict[int, deque[int]] = field(default_factory=dict)

    def add(self, number: int, gpus: int) -> None:
        """Put a job at the end."""
        self.by_size.setdefault(gpus, deque()).append(number)

    def heads(self) -> Iterator[tuple[int, int]]:
        """Yield the oldest of each size, oldest first; the caller may take it."""
        yield from sorted((line[0], gpus) for gpus, line in self.by_size.items() if line)

    def pop(self, gpus: int) -> None:
        """Take the oldest of a size."""
        self.by_size[gpus].popleft()


class Partition:
    """Each team has its own GPUs. ``skip``: what fits may pass what does not."""

    def __init__(self, setting: Setting, *, skip: bool) -> None:
        self._nodes = Nodes.partition(setting)
        self._queues = {team: Queue() for team in setting.quotas}
        self._skip = skip

    def add(self, number: int, job: TraceJob) -> None:
        """A job is submitted."""
        self._queues[job.team].add(number, job.gpus)

    def start(self) -> Iterator[tuple[int, Place]]:
        """Yield the jobs that start now."""
        for team, queue in self._queues.items():
            yield from _start_from(queue, self._nodes[team], skip=self._skip)

    def end(self, job: TraceJob, place: Place) -> None:
        """A job has ended."""
        self._nodes[job.team].give_back(place)


class Shared:
    """One queue for all, first come, first served: the oldest job holds up the rest."""

    def __init__(self, setting: Setting) -> None:
        self._nodes = Nodes.all_of(setting)
        self._queue = Queue()

    def add(self, number: int, job: TraceJob) -> None:
        """A job is submitted."""
        self._queue.add(number, job.gpus)

    def start(self) -> Iterator[tuple[int, Place]]:
        """Yield the jobs that start now."""
        yield from _start_from(self._queue, self._nodes, skip=False)

    def end(self, job: TraceJob, place: Place) -> None:
        """A job has ended."""
        del job
        self._nodes.give_back(place)


class Borrow:
    """Quotas, and what is idle is lent until it ends by itself.

    Jobs within their team's quota go first, oldest first; then the team that borrows least.
    """

    def __init__(self, setting: Setting) -> None:
        self._nodes = Nodes.all_of(setting)
        self._queues = {team: Queue() for team in setting.quotas}
        self._quotas = setting.quotas
        self._held = dict.fromkeys(setting.quotas, 0)

    def add(self, number: int, job: TraceJob) -> None:
        """A job is submitted."""
        self._queues[job.team].add(number, job.gpus)

    def start(self) -> Iterator[tuple[int, Place]]:
        """Yield the jobs that start now."""
        no_room: set[int] = set()
        while True:
            chosen = self._next(no_room)
            if chosen is None:
                return
            team, number, gpus = chosen
            place = self._nodes.take(gpus)
            if place is None:
                no_room.add(gpus)
                continue
            self._queues[team].pop(gpus)
            self._held[team] += gpus
            yield number, place

    def _next(self, no_room: set[int]) -> tuple[str, int, int] | None:
        offers = []
        for team, queue in self._queues.items():
            for number, gpus in queue.heads():
                if gpus in no_room:
                    continue
                over = self._held[team] + gpus > self._quotas[team]
                borrowed = max(0, self._held[team] - self._quotas[team])
                offers.append(((over, borrowed if over else 0, number), team, number, gpus))
        return min(offers)[1:] if offers else None

    def end(self, job: TraceJob, place: Place) -> None:
        """A job has ended."""
        self._held[job.team] -= job.gpus
        self._nodes.give_back(place)


Policy = Partition | Shared | Borrow


def _start_from(queue: Queue, nodes: Nodes, *, skip: bool) -> Iterator[tuple[int, Place]]:
    no_room: set[int] = set()
    while True:
        heads = [(number, gpus) for number, gpus in queue.heads() if gpus not in no_room]
        if not heads:
            return
        number, gpus = heads[0]
        place = nodes.take(gpus)
        if place is not None:
            queue.pop(gpus)
            yield number, place
        elif skip:
            no_room.add(gpus)
        else:
            return


def policy_of(name: str, setting: Setting) -> Policy:
    """Make a policy by its name."""
    if name == "shared-fifo":
        return Shared(setting)
    if name == "borrow":
        return Borrow(setting)
    return Partition(setting, skip=name == "static-skip")


def play(setting: Setting, policy: Policy) -> list[Played]:
    """Play all jobs to their end."""
    played = [Played(job) for job in setting.jobs]
    asked = dict.fromkeys(setting.quotas, 0)
    ends: list[tuple[int, int, Place]] = []
    arrived = 0
    while arrived < len(played) or ends:
        due = [played[arrived].job.submit_ms] if arrived < len(played) else []
        now_ms = min([*due, ends[0][0]] if ends else due)
        while ends and ends[0][0] == now_ms:
            _, number, place = heappop(ends)
            job = played[number].job
            policy.end(job, place)
            asked[job.team] -= job.gpus
        while arrived < len(played) and played[arrived].job.submit_ms == now_ms:
            job = played[arrived].job
            asked[job.team] += job.gpus
            played[arrived].in_quota = asked[job.team] <= setting.quotas[job.team]
            policy.add(arrived, job)
            arrived += 1
        for number, place in policy.start():
            one = played[number]
            one.started_ms, one.ended_ms = now_ms, now_ms + one.job.run_ms
            heappush(ends, (one.ended_ms, number, place))
    return played
