"""Rows E5–E7: a sweep of forty trials, through a kill and another team's claim; then its best."""

from __future__ import annotations

import time
from dataclasses import dataclass

from benchmarks.tour.timeline import Timeline, check, wait_for
from benchmarks.tour_training import figures
from benchmarks.tour_training.researcher import ENDED, Researcher
from gpucommons.scheduler import models
from gpucommons.scheduler.client import calls, sweep_calls

_LONGEST_S = 480


@dataclass(kw_only=True)
class Swept:
    """What became of its trials."""

    trials: int
    lost_trials: int
    doubled_trials: int


def sweep(line: Timeline, person: Researcher) -> Swept:
    """E5–E7."""
    began = time.monotonic()
    name = str(person.cli("sweep", "submit", "search.yaml")["name"])
    line.row(
        "E5", f"{name}: 40 trials over 3 parameters, at most 30 GPU-hours, one line in the queue"
    )
    _begun(person, name, 8)
    person.kill_scheduler()
    line.row("", "scheduler killed with SIGKILL in the middle of the sweep")
    _begun(person, name, 14)
    _claimed(line, person, name)
    _begun(person, name, 26)
    person.kill_scheduler()
    line.row("", "and once more")
    over = wait_for(
        f"the end of {name}",
        lambda: found if (found := _sweep(person, name)).ended_ms else None,
        timeout_s=_LONGEST_S,
        every_s=0.5,
    )
    jobs = _jobs(person, over)
    lost = figures.lost_trials(over, {job.id: job for job in jobs})
    doubled = figures.doubled_trials(over, jobs)
    check(over.begun == over.trials_of, f"E5: {over.begun} trials of {over.trials_of}: {over.text}")
    best = over.best
    assert best is not None
    line.row(
        "E5",
        f"over after {time.monotonic() - began:.0f} s: “{over.text}” best {best.best:.3f} of trial"
        f" {best.number}; rungs {[(one.step, one.came, one.went_on) for one in over.rungs]};"
        f" lost {lost}, doubled {doubled}",
    )
    _best(line, person, best)
    return Swept(trials=over.begun, lost_trials=len(lost), doubled_trials=len(doubled))


def _sweep(person: Researcher, name: str) -> models.SweepView:
    return person.send(sweep_calls.sweep(name))


def _begun(person: Researcher, name: str, count: int) -> models.SweepView:
    return wait_for(
        f"trial {count} of {name}",
        lambda: found if (found := _sweep(person, name)).begun >= count else None,
        timeout_s=_LONGEST_S,
        every_s=0.3,
    )


def _jobs(person: Researcher, over: models.SweepView) -> list[models.JobView]:
    """All of the sweep, once each has ended: those left at a rung are being cancelled."""

    def ended() -> list[models.JobView] | None:
        found = [
            job
            for job in person.all_jobs()
            if job.part_of is not None and job.part_of.id == over.id
        ]
        return found if all(job.state in ENDED for job in found) else None

    return wait_for("the end of its jobs", ended, timeout_s=60, every_s=0.5)


def _claimed(line: Timeline, person: Researcher, name: str) -> None:
    """E6: another team takes three of four GPUs: trials stop at their step, and go on there."""
    before = _running(person, name)
    claim = person.ask_for("nlp", gpus=3, seconds=4, name="claim")
    person.when(claim.id, "its GPUs", lambda now: now.state in ("running", *ENDED) or None)
    held = len(_running(person, name))
    person.end_of(claim.id)
    hit = [
        job.id
        for job in (person.job(ref) for ref in before)
        if any(one.stop is not None and one.stop.why != "pause" for one in job.attempts)
    ]
    check(bool(hit), "E6: no trial was stopped for the claim")
    again = [ref for ref in hit if _began_anew(person, ref)]
    check(not again, f"E6: trials began anew: {again}")
    line.row(
        "E6",
        f"nlp takes 3 of 4 GPUs: {len(before)} trials ran, {held} while it held them; {len(hit)} stopped at"
        " their step, none began anew",
    )


def _running(person: Researcher, name: str) -> list[str]:
    return [one.job_id for one in _sweep(person, name).trials if one.state == "live" and one.job_id]


def _began_anew(person: Researcher, ref: str) -> bool:
    """One that goes on, or is to, without the step that it had."""
    job = person.job(ref)
    steps = [
        text
        for attempt in job.attempts
        for text in person.log(ref, attempt.number)
        if text.startswith("step ")
    ]
    return len(steps) != len(set(steps))


def _best(line: Timeline, person: Researcher, best: models.TrialView) -> None:
    """E7: the request that the two buttons put into the form, submitted."""
    tried = person.job(best.job_id or "")
    assert tried.request is not None
    roles = [role.model_copy(update={"milli_gpu": 4000}) for role in tried.request.roles]
    request = tried.request.model_copy(
        update={"roles": roles, "kind": "training", "name": "best", "parent": None, "labels": {}}
    )
    large = person.end_of(person.send(calls.submit(request)).id)
    check(
        large.state == "succeeded" and large.attempts[-1].milli_gpu == 4000,
        f"E7: {large.state} {large.ended_text}",
    )
    nightly = person.cli("schedule", "repeat", tried.name, "--schedule", "@daily")
    check(bool(nightly["next_ms"]), f"E7: {nightly}")
    line.row(
        "E7", f"the best ran on 4 GPUs as {large.name}; retrained nightly as {nightly['name']}"
    )
