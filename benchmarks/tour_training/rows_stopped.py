"""Rows E4, E10, E11: stopped on purpose, made larger and smaller, and stopped for a cloud."""

from __future__ import annotations

from threading import Event

from benchmarks.tour.timeline import Timeline, check
from benchmarks.tour_training import figures
from benchmarks.tour_training.researcher import Researcher
from gpucommons.scheduler import models
from gpucommons.scheduler.client import calls

_ONE_GPU = ("--gpus", "1", "--team", "research")
#: A job that tells its progress is measured for ten seconds at each size, and a restart has to pay.
_STEPS = 600


def _climb(*, steps: int, seconds: float = 0.3, save_every: int = 1) -> tuple[str, ...]:
    """The same words with other numbers: the badge of one is that of all."""
    options = ("--steps", str(steps), "--seconds", str(seconds), "--save-every", str(save_every))
    return ("climb.py", "--", *options)


def drilled(line: Timeline, person: Researcher, shown: Event) -> None:
    """E4: stopped once after its first save, while nobody waits; the next run has the badge at once.

    ``shown`` is set once it is known how it went on.
    """
    # Its first save is so far in that going on from there is told from beginning anew.
    job = person.submit(*_ONE_GPU, "--name", "saver", *_climb(steps=60, save_every=40))
    seen = person.when(
        job.id,
        "what its drill showed",
        lambda now: now.drill if now.drill and now.drill.state != "testing" else None,
    )
    shown.set()
    check(seen.state == "passed", f"E4: {seen.text}")
    line.row("E4", f"“{seen.text}”")
    check(_goes_on_where_it_was(person, person.end_of(job.id)), "E4: a step was repeated")
    quote = person.send(calls.quote_job(_again(person.job(job.id))))
    check("afe to borrow" in quote.drill_text, f"E4: the next run's quota line: {quote}")
    again = person.send(calls.again(job.id, key="the-same-code"))
    ended = person.end_of(again.id)
    check(ended.safe_to_borrow and len(ended.attempts) == 1, f"E4: tested again: {ended.attempts}")
    line.row("E4", f"next run of the same code: “{quote.drill_text}”; it was not tested again")


def _again(job: models.JobView) -> models.JobRequest:
    assert job.request is not None
    return job.request.model_copy(update={"user": None})


def _goes_on_where_it_was(person: Researcher, job: models.JobView) -> bool:
    """No step stands twice in its logs."""
    steps = [
        text
        for attempt in job.attempts
        for text in person.log(job.id, attempt.number)
        if text.startswith("step ")
    ]
    return len(steps) == len(set(steps)) and len(steps) > 0


def _begun(person: Researcher) -> models.JobView:
    """It comes on a busy evening, so it gets one worker of four."""
    busy = person.ask_for("nlp", gpus=3, seconds=600, name="busy")
    person.when(busy.id, "its start", lambda now: now.state == "running" or None)
    job = person.submit(
        *(*_ONE_GPU, "--min-workers", "1", "--max-workers", "4", "--name", "elastic"),
        *_climb(steps=_STEPS, seconds=0.8),
    )
    person.when(job.id, "its start", lambda now: now.state == "running" or None)
    person.send(calls.cancel(busy.id))
    return job


def elastic(line: Timeline, person: Researcher) -> float | None:
    """E10: the evening gets idle: it grows; others come: it shrinks instead of being stopped."""
    job = _begun(person)
    grown = person.when(job.id, "growth", lambda now: _sized(now, more_than=1), timeout_s=240)
    faster = person.when(job.id, "how much faster it is", _faster, timeout_s=240)
    claim = person.ask_for("nlp", gpus=3, seconds=3, name="claim")
    small = person.when(job.id, "fewer workers", lambda now: _sized(now, exactly=1))
    check(small.state != "failed", f"E10: {small.ended_text}")
    person.end_of(claim.id)
    person.send(calls.cancel(job.id))
    ended = person.end_of(job.id)
    workers = {one.number: one.workers for one in ended.attempts}
    by_size = figures.speeds(person.send(calls.curve(job.id)).points, workers)
    gained = figures.gain(by_size)
    stopped = next((one.ended_text for one in ended.attempts if one.workers > 1), "")
    line.row(
        "E10",
        f"1 worker, then {grown.attempts[-1].workers}, then 1: its page says {faster:.1f} × as fast, its"
        f" progress {gained} ×; “{stopped}”",
    )
    return gained


def _faster(now: models.JobView) -> float | None:
    """As its page says it: of the attempt that was the first of its size."""
    return next((one.times_faster for one in now.attempts if one.times_faster), None)


def _sized(
    now: models.JobView, *, more_than: int = 0, exactly: int | None = None
) -> models.JobView | None:
    last = now.attempts[-1]
    right = last.workers > more_than if exactly is None else last.workers == exactly
    return now if right and last.state == "running" else None


def spot(line: Timeline, person: Researcher) -> None:
    """E11: the cloud takes the node: saved before it goes, and on as soon as there is a place."""
    # It goes on until it is cancelled: the scheduler may be away for long, as it is killed meanwhile.
    job = person.submit(*_ONE_GPU, "--name", "spot", *_climb(steps=_STEPS))
    person.when(job.id, "its first save", lambda now: now.checkpoint)
    node = person.when(job.id, "its node", lambda now: now.attempts[-1].node)
    person.send(calls.notice_node(node, models.NodeNoticeRequest(in_s=120)))
    waits = person.when(
        job.id,
        "waiting for another node",
        lambda now: now if now.state == "queued" and now.attempts[-1].ended_ms else None,
    )
    text = waits.attempts[-1].ended_text or ""
    check("cloud takes" in text, f"E11: it says “{text}”")
    person.send(calls.set_node_state(node, models.NodeStateRequest(state="ready")))
    saved = 0 if waits.checkpoint is None else waits.checkpoint.step
    person.when(
        job.id,
        "another save",
        lambda now: now.checkpoint if now.checkpoint and now.checkpoint.step > saved else None,
    )
    person.send(calls.cancel(job.id))
    check(_goes_on_where_it_was(person, person.end_of(job.id)), "E11: a step was repeated")
    line.row("E11", f"“{text}”; the node stayed: it went on without a repeated step")
