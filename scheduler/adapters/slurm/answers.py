"""What Slurm said at one moment of what is ours, so that two readers of it never see two moments."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from gpucommons.scheduler.adapters.slurm import launching
from gpucommons.scheduler.adapters.slurm.commands import Slurm, SlurmJob, SlurmNode
from gpucommons.scheduler.core.model.types import AttemptId


@dataclass(frozen=True, slots=True)
class Answer:
    """Turns count the moments; 0: it was never asked."""

    turn: int = 0
    jobs: Mapping[AttemptId, tuple[SlurmJob, ...]] = field(default_factory=dict)
    nodes: tuple[SlurmNode, ...] = ()
    #: It was asked again since, and said nothing.
    away: bool = False

    def alive(self, attempt_id: AttemptId) -> tuple[SlurmJob, ...]:
        """An attempt's jobs that are not over."""
        return tuple(one for one in self.jobs.get(attempt_id, ()) if not one.is_over)


def ask(slurm: Slurm, *, after: Answer) -> Answer:
    """Ask for all of it, once more.

    Raises
    ------
    Unavailable
        When Slurm does not answer.
    """
    jobs: dict[AttemptId, list[SlurmJob]] = {}
    for job in slurm.jobs():
        if (named := launching.NAMED.fullmatch(job.name)) is not None:
            attempt_id = AttemptId(named.group(1))
            jobs.setdefault(attempt_id, []).append(job)
    return Answer(
        turn=after.turn + 1,
        jobs={attempt_id: tuple(found) for attempt_id, found in jobs.items()},
        nodes=slurm.nodes(),
    )
