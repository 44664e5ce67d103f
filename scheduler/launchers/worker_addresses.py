"""The workers of one attempt: where each answers, with which ports of its own, and what it has."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass

#: So many ports belong to each worker.
PORTS = 3
#: Below those that the kernel gives to outgoing connections.
FIRST_PORT, LAST_PORT = 10_240, 32_000


@dataclass(frozen=True, kw_only=True, slots=True)
class Worker:
    """One worker: where it answers, and what it was asked to run."""

    rank: int
    role: str
    #: Index within its role.
    index: int
    #: Where the others reach it; workers of one machine may have the same.
    address: str
    #: Free when the attempt began, of this worker alone.
    ports: tuple[int, ...]
    #: Devices that it sees.
    gpus: int = 0
    #: They are none that a framework finds.
    simulated: bool = False
    cpus: int = 1
    #: 0 = not known.
    memory_mib: int = 0
    command: tuple[str, ...] = ()

    @property
    def processes(self) -> int:
        """Of a framework that has one for each GPU."""
        return max(1, self.gpus)

    @property
    def finds_gpus(self) -> bool:
        """Whether a framework sees any."""
        return self.gpus > 0 and not self.simulated


@dataclass(frozen=True, kw_only=True, slots=True)
class Gang:
    """All workers of an attempt, by rank."""

    workers: tuple[Worker, ...]

    @property
    def processes(self) -> int:
        """All of them, where each GPU has one."""
        return sum(worker.processes for worker in self.workers)


def ports_from(attempt_id: str) -> Iterator[int]:
    """Ports to try for an attempt, another row for each: two at once rarely meet."""
    size = LAST_PORT - FIRST_PORT
    first = zlib.crc32(attempt_id.encode()) % size
    return (FIRST_PORT + (first + number) % size for number in range(size))
