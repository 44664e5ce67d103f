"""Row E8, triggers: data that change, another job, a metric that falls; through a kill of the scheduler."""

from __future__ import annotations

from benchmarks.tour.timeline import Timeline, check, wait_for
from benchmarks.tour_training.researcher import Researcher
from gpucommons.scheduler import models
from gpucommons.scheduler.client import schedule_calls

_NAME = "on-change"
_BEFORE = "cleaned"


def begin(line: Timeline, person: Researcher) -> None:
    """A schedule without a calendar; its first look tells from which version changes are counted."""
    data = person.machine.home() / "data"
    data.mkdir()
    (data / "day-1.csv").write_text("1")
    made = person.cli(
        *("submit", "tick.py", "--team", "research", "--name", _NAME),
        *("--when-data", str(data), "--look-every", "60", "--after-job", _BEFORE),
        *("--when-below", "accuracy=97.5", "--concurrency-policy", "Allow"),
    )
    words = [one["words"] for one in made["triggers"]]
    line.row("E8", f"{_NAME}: {'; '.join(words)}")
    version = wait_for("the first look at data", lambda: _version(person), timeout_s=150)
    line.row("", f"looked at: version {version}; nothing started")
    check(not _view(person).runs, f"E8: the first look started {_view(person).runs}")


def happen(person: Researcher) -> None:
    """All three at once, and the scheduler is killed."""
    (person.machine.home() / "data" / "day-2.csv").write_text("2")
    person.cli("schedule", "metric", _NAME, "accuracy", "96.9")
    person.submit("--team", "research", "--name", _BEFORE, "tick.py")
    person.kill_scheduler()


def ended(line: Timeline, person: Researcher) -> tuple[int, int, int]:
    """How many times of triggers there were, how many are not on record, and how many twice."""
    wait_for("a run of each trigger", lambda: len(_starts(person)) >= 3, timeout_s=240, every_s=1)
    runs, wanted = _view(person).runs, [one.words for one in _view(person).triggers]
    counts = [sum(run.count for run in runs if run.trigger == words) for words in wanted]
    causes = [f"{run.job_name}: {run.cause}" for run in reversed(runs)]
    lost, doubled = counts.count(0), sum(max(0, count - 1) for count in counts)
    version = next(run.version for run in runs if run.trigger == wanted[0])
    line.row("E8", f"{'; '.join(causes)}; data version {version}; lost {lost}, doubled {doubled}")
    return len(wanted), lost, doubled


def _view(person: Researcher) -> models.ScheduleView:
    return person.send(schedule_calls.schedule(person.name, _NAME))


def _version(person: Researcher) -> str | None:
    return next((one.version for one in _view(person).triggers if one.version), None)


def _starts(person: Researcher) -> list[models.ScheduleRunView]:
    return [run for run in _view(person).runs if run.outcome == "started"]
