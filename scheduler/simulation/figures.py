"""A simulation in figures: waits, GPU time, evictions and lost work, by team and in all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gpucommons.scheduler.core.model.types import TeamName
from gpucommons.scheduler.simulation.record import Record, Story


@dataclass(frozen=True, kw_only=True, slots=True)
class Figures:
    """What one team (or all) got. Waits of those that never started count up to the end."""

    jobs: int
    median_wait_ms: int | None
    #: One in ten waited longer.
    worst_tenth_wait_ms: int | None
    #: The one that this is the wait of never started: it waited at least so long.
    median_is_open: bool
    worst_tenth_is_open: bool
    held_milli_gpu_ms: int
    evictions: int
    lost_milli_gpu_ms: int
    #: Those that ask for more than their team's quota; they are in no wait.
    never_started: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class Outcome:
    """One policy, or one set of quotas, over a span."""

    from_ms: int
    until_ms: int
    capacity_milli_gpu: int
    teams: dict[TeamName, Figures]
    total: Figures
    #: Those that could not be submitted: their team or pool is gone.
    refused: int

    @property
    def utilisation_percent(self) -> float:
        """GPU time held, of all there was."""
        whole = self.capacity_milli_gpu * (self.until_ms - self.from_ms)
        return 100 * self.total.held_milli_gpu_ms / whole if whole else 0.0

    @property
    def idle_milli_gpu_ms(self) -> int:
        """GPU time that nobody held."""
        whole = self.capacity_milli_gpu * (self.until_ms - self.from_ms)
        return max(0, whole - self.total.held_milli_gpu_ms)


def outcome_of(record: Record, *, from_ms: int, until_ms: int, capacity_milli_gpu: int) -> Outcome:
    """Count what was submitted and held in a span."""
    teams = sorted({story.team for story in record.stories.values()})
    return Outcome(
        from_ms=from_ms,
        until_ms=until_ms,
        capacity_milli_gpu=capacity_milli_gpu,
        teams={team: _figures(record, from_ms, until_ms, team) for team in teams},
        total=_figures(record, from_ms, until_ms, None),
        refused=sum(
            one.refused is not None and one.submitted_ms < until_ms
            for one in record.stories.values()
        ),
    )


def _figures(record: Record, from_ms: int, until_ms: int, team: TeamName | None) -> Figures:
    stories = [one for one in record.stories.values() if team in (None, one.team)]
    waits = sorted(wait for one in stories if (wait := _wait(one, from_ms, until_ms)) is not None)
    median_ms, median_is_open = _at(waits, 50)
    worst_ms, worst_is_open = _at(waits, 90)
    return Figures(
        jobs=len(waits),
        median_wait_ms=median_ms,
        worst_tenth_wait_ms=worst_ms,
        median_is_open=median_is_open,
        worst_tenth_is_open=worst_is_open,
        held_milli_gpu_ms=record.held(from_ms, until_ms, team),
        evictions=sum(
            one.at_ms < until_ms and team in (None, one.team) for one in record.evictions
        ),
        lost_milli_gpu_ms=sum(one.lost_milli_gpu_ms for one in stories),
        never_started=sum(one.never and from_ms <= one.submitted_ms < until_ms for one in stories),
    )


def _wait(story: Story, from_ms: int, until_ms: int) -> tuple[int, bool] | None:
    """How long it waited, and whether it still did at the end; None for what was there before or came
    after, was refused, or can never start.
    """
    if story.refused is not None or story.never or not from_ms <= story.submitted_ms < until_ms:
        return None
    is_open = story.started_ms is None or story.started_ms > until_ms
    started_ms = until_ms if story.started_ms is None else min(story.started_ms, until_ms)
    return max(0, started_ms - story.submitted_ms), is_open


def _at(ordered: Sequence[tuple[int, bool]], percent: int) -> tuple[int | None, bool]:
    return ordered[-(-len(ordered) * percent // 100) - 1] if ordered else (None, False)
