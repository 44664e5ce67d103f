"""Rows E1–E3: two workers of each framework, preempted once; and a worker that fails."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from threading import Event

from benchmarks.real_scripts import catalogue, environment
from benchmarks.real_scripts.play import Played, stage
from benchmarks.tour.timeline import Timeline, check
from benchmarks.tour_training.researcher import Researcher
from gpucommons.scheduler.launchers import AUTO, LAUNCHERS, PLAIN


@dataclass(kw_only=True)
class Frameworks:
    """What became of each, by launcher."""

    resumed: list[str] = field(default_factory=list)
    #: Why it was not played.
    missing: dict[str, str] = field(default_factory=dict)
    #: What went wrong.
    failed: dict[str, str] = field(default_factory=dict)


#: Machines on which frameworks are played beside each other: each wants all GPUs of one, and waits as
#: long as it computes.
_MACHINES = 2
#: Their clusters take the longest to begin, so they come first.
_LONGEST = ("ray", "spark")


def frameworks(line: Timeline, over: Event) -> Frameworks:
    """E1, E2: on machines of their own, beside all the other rows; none begins once it is ``over``."""
    found, place = Frameworks(), environment.find()
    examples: dict[str, catalogue.Script] = {}
    for script in (*catalogue.SHORT, *catalogue.BY_LAUNCHER):
        examples.setdefault(script.launcher, script)
    wanted = [name for name in LAUNCHERS if name not in (AUTO, PLAIN)]
    if place is None:
        found.missing = dict.fromkeys(wanted, f"not installed: {environment.HOW_TO_GET}")
        line.row("E2", f"missing: {', '.join(wanted)}; {environment.HOW_TO_GET}")
        return found
    for name in sorted(set(wanted) - set(examples)):
        found.missing[name] = "it has no example"
        line.row("E2", f"missing: {name} has no example")
    order = sorted(set(wanted) & set(examples), key=lambda name: (name not in _LONGEST, name))
    left = iter([examples[name] for name in order])

    def play(_machine: int) -> None:
        with stage(place) as playing:
            for script in left:
                if over.is_set():
                    return
                _tell(line, found, script.launcher, playing.play(script))

    with ThreadPoolExecutor(_MACHINES) as beside:
        list(beside.map(play, range(_MACHINES)))
    return found


def _tell(line: Timeline, found: Frameworks, name: str, played: Played) -> None:
    """One that is not in the environment is refused at submit: it is missing, and nothing failed."""
    if not played.attempts:
        found.missing[name] = played.ended
        line.row("E2", f"missing: {name}: {played.ended}")
        return
    right = played.resumes and played.runs and not played.steps_repeated
    if right and played.curve_points and played.launcher == name:
        found.resumed.append(name)
        line.row(
            "E1" if name == "torchrun" else "E2",
            f"{played.script}: “{played.launcher_text}”; preempted, went on without a repeated step,"
            f" curve of {played.curve_points} points, final {played.final or '(none printed)'}",
        )
    else:
        found.failed[name] = str(played.line())
        line.row("E2", f"{name} FAILED: {played.line()}")


def a_worker_fails(line: Timeline, person: Researcher) -> None:
    """E3: the page names the worker and its last error; the logs are told apart by rank."""
    job = person.submit(
        *("--workers", "2", "--launcher", "plain", "--team", "research", "--name", "two"),
        "rank_fails.py",
    )
    ended = person.end_of(job.id)
    text = ended.ended_text or ""
    check(ended.state == "failed", f"E3: the job {ended.state}: {text}")
    check("orker 1" in text and "ValueError: label 11" in text, f"E3: it says “{text}”")
    logs = [person.log(job.id, 1, rank) for rank in (0, 1)]
    check("worker 0" in logs[0] and "worker 1" in logs[1], f"E3: the logs by rank are {logs}")
    line.row("E3", f"“{text}”")
