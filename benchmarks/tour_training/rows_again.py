"""Rows E8, E9: a schedule through kills, and a pipeline that is mended in the middle."""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime

from benchmarks.tour.timeline import Timeline, check, wait_for
from benchmarks.tour_training import figures
from benchmarks.tour_training.researcher import Researcher
from gpucommons.scheduler import models
from gpucommons.scheduler.client import pipeline_calls, schedule_calls
from gpucommons.scheduler.wiring.scheduler_callbacks import wall_ms

_MINUTE_MS = 60_000
_NAME = "each-minute"


@dataclass(kw_only=True)
class Scheduled:
    """What became of its times."""

    triggers: int
    lost_triggers: int
    doubled_triggers: int


def begin_schedule(line: Timeline, person: Researcher) -> int:
    """E8: the next five times; answers with the first."""
    made = person.cli(
        *("submit", "tick.py", "--team", "research", "--name", _NAME),
        *("--schedule", "* * * * *", "--time-zone", "Europe/Berlin", "--starting-deadline", "1"),
    )
    times = [datetime.fromtimestamp(ms / 1000, UTC).strftime("%H:%M") for ms in made["next_ms"]]
    line.row("E8", f"{_NAME}: next {', '.join(times)} UTC")
    return int(made["next_ms"][0])


def schedule(line: Timeline, person: Researcher, first_ms: int) -> Scheduled:
    """E8: killed between two runs, and kept away from one; each time must stand on record once."""
    due_ms = _miss_one(person)
    line.row("", "scheduler killed again and again until the time of a run was over")
    view = wait_for(
        "the record of that time",
        lambda: (
            found
            if figures.times_on_record(
                found := _view(person), first_ms=due_ms, until_ms=due_ms + 1
            )[due_ms]
            else None
        ),
        timeout_s=60,
    )
    until_ms = due_ms + 1
    record = figures.times_on_record(view, first_ms=first_ms, until_ms=until_ms)
    lost = sum(count == 0 for count in record.values())
    doubled = sum(count > 1 for count in record.values())
    missed = next((run for run in view.runs if run.outcome == "missed"), None)
    check(missed is not None, f"E8: no time was missed: {view.runs}")
    assert missed is not None
    gone = [run.job_name for run in view.runs if run.outcome == "started" and not run.job_id]
    check(not gone, f"E8: runs without a job: {gone}")
    line.row(
        "E8",
        f"{len(record)} times: {sum(run.outcome == 'started' for run in view.runs)} started, one missed:"
        f" “{missed.text}”; lost {lost}, doubled {doubled}",
    )
    with suppress(KeyError):
        person.cli("schedule", "suspend", _NAME)
    return Scheduled(triggers=len(record), lost_triggers=lost, doubled_triggers=doubled)


def _miss_one(person: Researcher) -> int:
    """Keep the scheduler away from a time of the schedule; returns which."""
    _wait_until(_next_minute_ms() - 2_000)
    # On a busy machine the first kill may come after that minute: then the next one is missed.
    missed_ms: list[int] = []

    def is_over() -> bool:
        if not missed_ms:
            missed_ms.append(_next_minute_ms())
        return wall_ms() >= missed_ms[0] + 3_000

    person.keep_it_away(is_over)
    return missed_ms[0]


def _view(person: Researcher) -> models.ScheduleView:
    return person.send(schedule_calls.schedule(person.name, _NAME))


def _next_minute_ms() -> int:
    return (wall_ms() // _MINUTE_MS + 1) * _MINUTE_MS


def _wait_until(at_ms: int) -> None:
    time.sleep(max(0, at_ms - wall_ms()) / 1000)


def pipeline(line: Timeline, person: Researcher) -> None:
    """E9: clean, two models of which one fails, assembly; mended outside, and retried from there."""
    data = person.folder / "data.txt"
    file = person.folder / "pipeline.yaml"
    file.write_text(file.read_text().replace("DATA", str(data)))
    name = str(person.cli("pipeline", "run", "pipeline.yaml")["name"])
    failed = _when_over(person, name)
    states = {step.name: step.state for step in failed.steps}
    check(
        states
        == {"clean": "succeeded", "cnn": "succeeded", "vit": "failed", "assemble": "blocked"},
        f"E9: {states}",
    )
    blocked = next(step.text for step in failed.steps if step.name == "assemble")
    line.row(
        "E9", f"{name}: clean and one model done, the other failed, assembly blocked: “{blocked}”"
    )
    data.write_text("here")
    person.cli("pipeline", "retry", name)
    person.kill_scheduler()
    done = _when_over(person, name, not_before=failed.ended_ms)
    check(done.state == "succeeded", f"E9: {done.state}: {[step.text for step in done.steps]}")
    begun = {step.name: step.retries for step in done.steps}
    log = person.log(next(step.job_id or "" for step in done.steps if step.name == "assemble"), 1)
    check("assembled 12" in log, f"E9: the assembly says {log}")
    line.row(
        "E9", f"retried from {failed.retry_from}, scheduler killed then: done, begun anew {begun}"
    )


def _when_over(
    person: Researcher, name: str, *, not_before: int | None = None
) -> models.PipelineView:
    def over() -> models.PipelineView | None:
        found = person.send(pipeline_calls.pipeline(person.name, name))
        return found if found.ended_ms and found.ended_ms != not_before else None

    return wait_for(f"the end of {name}", over, timeout_s=240, every_s=0.5)
