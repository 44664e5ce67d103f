"""GPU hours until a sweep has one of the best 1 % of configurations, beside other searchers.

``python -m benchmarks.sweeps [--seeds 10] [--first-seed 0] [--trials 100] [--curves power] [--json OUT]``
plays searches on one virtual clock over seeded, synthetic learning curves (`curves.py`), or with
``--lcbench FOLDER`` over a model of recorded ones (`lcbench.py`): with 8 steady GPUs, and with GPUs of which
half are taken away at random. All policies save and restore in the same seconds and go on where they were
stopped; who ends a trial for good saves nothing for it.

``ours`` is the product's own controller (`scheduler/sweeps`) with its own sampler; ``optuna`` is Optuna
alone with its TPE and its asynchronous successive halving, which ends what it prunes; ``random`` runs
each to its end. Ray Tune and Syne Tune are among them where they are installed (`peers.py`).
"""

from __future__ import annotations

import argparse
import math
import random
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import optuna

from benchmarks.results import write
from benchmarks.sweeps import lcbench, peers
from benchmarks.sweeps.curves import SHAPES, Problem, threshold
from gpucommons.scheduler.core.model.types import Millis, State, TeamName, UserName
from gpucommons.scheduler.parents import ParentId, ParentKind
from gpucommons.scheduler.store.base import LogPoint
from gpucommons.scheduler.sweeps.decision import decide
from gpucommons.scheduler.sweeps.importance import distribution
from gpucommons.scheduler.sweeps.sampling import Sampler
from gpucommons.scheduler.sweeps.sweep import (
    Budget,
    Halving,
    Sweep,
    Trial,
    TrialState,
    Values,
)
from gpucommons.scheduler.sweeps.trial_progress import told

GPUS = 8
#: To save at a stop, and to be restored: the same for all.
SAVE_S, RESTORE_S = 20.0, 40.0
#: Between two changes of what is there, on average.
_CHANGE_S = 1800.0


@dataclass
class Job:
    """One trial on the virtual machine."""

    points: list[float]
    epoch_s: float
    #: Left of the epoch that goes on, or of a restore before it.
    left_s: float
    epoch: int = 0


class Policy(Protocol):
    """A searcher, told of each epoch."""

    #: Whether one that is stopped at a rung may go on later, and so is saved.
    keeps: bool

    def next(self) -> int | None:
        """The trial that a free GPU is to run, a new one or one that goes on; None = none."""
        ...

    def told(self, number: int, epoch: int, value: float) -> bool:
        """Take a value; whether the trial goes on."""
        ...

    def values(self, number: int) -> Values:
        """Of a trial that begins."""
        ...


@dataclass
class Ours:
    """The product's controller: the same pure functions, on a virtual clock."""

    problem: Problem
    seed: int
    trials_of: int
    sweep: Sweep = field(init=False)
    trials: dict[int, Trial] = field(default_factory=dict)
    running: set[int] = field(default_factory=set)
    keeps: bool = True
    decide_s: float = 0.0

    def __post_init__(self) -> None:
        """Make the sweep."""
        self.sampler = Sampler()
        self.sweep = Sweep(
            sweep_id=ParentId(f"benchmark-{self.seed}"),
            kind=ParentKind.SWEEP,
            name="benchmark",
            owner=UserName("ann"),
            team=TeamName("vision"),
            made_ms=Millis(0),
            budget=Budget(trials=self.trials_of),
            request="{}",
            space=self.problem.space,
            metric="accuracy",
            maximize=True,
            halving=Halving(first_step=1, last_step=self.problem.epochs),
        )

    def next(self) -> int | None:
        """As `background_tasks/sweeps.py` carries it out."""
        began = time.process_time()
        states = {
            number: State.RUNNING if number in self.running else State.PAUSED
            for number, one in self.trials.items()
            if one.state is TrialState.LIVE
        }
        found = decide(self.sweep, list(self.trials.values()), states, Millis(0))
        for number in found.promotes:
            one = self.trials[number]
            self.trials[number] = replace(one, promoted=one.promoted + 1)
        chosen = next((one for one in found.resumes if one not in self.running), None)
        if chosen is None and found.draws and not found.ended_text:
            (new,) = self.sampler.draw(self.sweep, list(self.trials.values()), 1)
            self.trials[new.number] = replace(new, state=TrialState.LIVE)
            chosen = new.number
        self.decide_s += time.process_time() - began
        if chosen is not None:
            self.running.add(chosen)
        return chosen

    def told(self, number: int, epoch: int, value: float) -> bool:
        """A point of its curve, and what is decided of it."""
        began = time.process_time()
        point = LogPoint(attempt_number=1, step=epoch, at_ms=Millis(0), metrics={"accuracy": value})
        one = told(self.sweep, self.trials[number], [point])
        done = epoch == self.problem.epochs
        self.trials[number] = replace(one, state=TrialState.DONE) if done else one
        goes_on = not done
        if not done and len(one.at_rungs) > one.promoted:
            states = dict.fromkeys(self.running, State.RUNNING)
            found = decide(self.sweep, list(self.trials.values()), states, Millis(0))
            goes_on = number in found.promotes
            if goes_on:
                self.trials[number] = replace(one, promoted=one.promoted + 1)
        if not goes_on:
            self.running.discard(number)
        self.decide_s += time.process_time() - began
        return goes_on

    def values(self, number: int) -> Values:
        """As they were drawn."""
        return self.trials[number].values


@dataclass
class Peer:
    """Optuna alone: its sampler and its pruner, as its documentation has them."""

    problem: Problem
    seed: int
    trials_of: int
    prunes: bool
    asked: dict[int, Any] = field(default_factory=dict)
    keeps: bool = False

    def __post_init__(self) -> None:
        """Make the study."""
        sampler: Any = optuna.samplers.RandomSampler(seed=self.seed)
        pruner: Any = optuna.pruners.NopPruner()
        if self.prunes:
            sampler = optuna.samplers.TPESampler(seed=self.seed, constant_liar=True)
            pruner = optuna.pruners.SuccessiveHalvingPruner(min_resource=1, reduction_factor=3)
        self.study = optuna.create_study(direction="maximize", sampler=sampler, pruner=pruner)

    def next(self) -> int | None:
        """A new one."""
        if len(self.asked) >= self.trials_of:
            return None
        spaces = {one.name: distribution(optuna.distributions, one) for one in self.problem.space}
        self.asked[len(self.asked) + 1] = self.study.ask(spaces)
        return len(self.asked)

    def told(self, number: int, epoch: int, value: float) -> bool:
        """Report it, and ask whether it is pruned."""
        trial = self.asked[number]
        trial.report(value, epoch)
        if epoch == self.problem.epochs:
            self.study.tell(trial, value)
            return False
        if trial.should_prune():
            self.study.tell(trial, state=optuna.trial.TrialState.PRUNED)
            return False
        return True

    def values(self, number: int) -> Values:
        """As they were drawn."""
        return dict(self.asked[number].params)


def capacities(seed: int, *, steady: bool) -> Iterator[tuple[float, int]]:
    """Until when there are so many GPUs."""
    rng, now = random.Random(seed + 77), 0.0  # noqa: S311 - a simulation
    while True:
        now += math.inf if steady else rng.expovariate(1 / _CHANGE_S)
        yield now, GPUS if steady else rng.choice((GPUS, GPUS // 2))


@dataclass
class Machine:
    """GPUs that come and go, and the trials on them."""

    seed: int
    problem: Problem
    policy: Policy
    wanted: float
    used_s: float = 0.0
    #: What it took to save trials that never went on, if they were saved as well.
    saves_of_ended_s: float = 0.0
    jobs: dict[int, Job] = field(default_factory=dict)
    running: list[int] = field(default_factory=list)
    stopped: list[int] = field(default_factory=list)

    def fill(self, capacity: int) -> None:
        """Stop those for whom there is no room, and start what goes on or is next."""
        while len(self.running) > capacity:
            self.stopped.append(self.running.pop())
            self.used_s += SAVE_S
        while len(self.running) < capacity:
            number = self.stopped.pop(0) if self.stopped else self.policy.next()
            if number is None:
                return
            self.running.append(number)
            self._start(number)

    def _start(self, number: int) -> None:
        job = self.jobs.get(number)
        if job is None:
            points, epoch_s = self.problem.curve(self.seed, self.policy.values(number))
            self.jobs[number] = Job(points=points, epoch_s=epoch_s, left_s=epoch_s)
        else:
            # What was done of an epoch when it was stopped is saved with it.
            job.left_s += RESTORE_S

    def pass_time(self, most_s: float) -> float:
        """To the end of the next epoch, or of this time; returns how long that is."""
        passes = min([most_s, *(self.jobs[one].left_s for one in self.running)])
        self.used_s += passes * len(self.running)
        for number in self.running:
            self.jobs[number].left_s -= passes
        return passes

    def _leave(self, number: int) -> None:
        self.running.remove(number)
        if self.jobs[number].epoch < self.problem.epochs:
            if self.policy.keeps:
                self.used_s += SAVE_S
            else:
                self.saves_of_ended_s += SAVE_S

    def tell(self) -> bool:
        """Tell what epochs gave that have ended; whether one has come to what is wanted."""
        for number in [one for one in self.running if self.jobs[one].left_s <= 1e-9]:
            job = self.jobs[number]
            job.epoch, job.left_s = job.epoch + 1, job.epoch_s
            value = job.points[job.epoch - 1]
            if value >= self.wanted:
                return True
            if not self.policy.told(number, job.epoch, value):
                self._leave(number)
        return False


def gpu_hours(
    seed: int, problem: Problem, policy: Policy, wanted: float, *, steady: bool
) -> tuple[float, float]:
    """GPU hours until one has come to the threshold, or of all that it took where none has; and the same
    where trials that are ended for good are saved as well.
    """
    machine, now = Machine(seed, problem, policy, wanted), 0.0
    changes = capacities(seed, steady=steady)
    until, capacity = next(changes)
    found = False
    while not found:
        machine.fill(capacity)
        if not machine.running and not machine.stopped:
            break
        now += machine.pass_time(until - now)
        found = machine.tell()
        if now >= until:
            until, capacity = next(changes)
    return machine.used_s / 3600, (machine.used_s + machine.saves_of_ended_s) / 3600


def measured(
    seeds: Sequence[int], trials: int, problem: Problem, only: Sequence[str]
) -> Iterator[dict[str, object]]:
    """One row per policy and capacity; of all policies, where none are named."""
    policies: dict[str, Callable[[int], Policy]] = {
        "ours": lambda seed: Ours(problem, seed, trials),
        "optuna": lambda seed: Peer(problem, seed, trials, prunes=True),
        "random": lambda seed: Peer(problem, seed, trials, prunes=False),
    }
    for name, peer in peers.installed().items():
        policies[name] = partial(peer, problem, trials_of=trials)
    policies = {one: make for one, make in policies.items() if not only or one in only}
    wanted = {seed: threshold(problem, seed) for seed in seeds}
    for capacity in ("steady", "varying"):
        for name, make in policies.items():
            both = [
                gpu_hours(one, problem, make(one), wanted[one], steady=capacity == "steady")
                for one in seeds
            ]
            found = [one for one, _ in both]
            yield {
                "policy": name,
                "capacity": capacity,
                "curves": problem.name,
                "gpu_hours_to_best_1_percent": round(statistics.mean(found), 2),
                "standard_error": round(statistics.stdev(found) / math.sqrt(len(found)), 2),
                "median": round(statistics.median(found), 2),
                "if_ended_are_saved": round(statistics.mean(one for _, one in both), 2),
                "each": [round(one, 3) for one in found],
                "seeds": len(found),
                "first_seed": seeds[0],
                "trials": trials,
            }


def controller(trials: int) -> dict[str, object]:
    """Processor time of the controller for each trial of a large sweep, Optuna's sampler apart."""
    ours = Ours(SHAPES["saturating"], 1, trials)
    ours.sweep = replace(ours.sweep, sampler="random")
    gpu_hours_of_all = 0
    while (number := ours.next()) is not None:
        points, _ = ours.problem.curve(1, ours.values(number))
        start = len(ours.trials[number].at_rungs)
        for epoch in range(max(1, 3 ** (start - 1) + 1 if start else 1), ours.problem.epochs + 1):
            gpu_hours_of_all += 1
            if not ours.told(number, epoch, points[epoch - 1]):
                break
    return {
        "policy": "ours",
        "trials": trials,
        "controller_ms_per_trial": round(1000 * ours.decide_s / trials, 2),
    }


def main() -> None:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seeds", type=int, default=10, help="two at least")
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--curves", choices=tuple(SHAPES), default="saturating")
    parser.add_argument(
        "--lcbench", type=Path, help="in place of them: YAHPO Gym's folder of that name"
    )
    parser.add_argument("--trials", type=int, default=100)
    parser.add_argument(
        "--large", type=int, default=1000, help="trials of the controller's own time"
    )
    parser.add_argument("--policies", default="", help="by commas; all, where none are named")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    rows = []
    first = arguments.first_seed
    seeds = range(first, first + arguments.seeds)
    folder, only = arguments.lcbench, [one for one in arguments.policies.split(",") if one]
    problem = lcbench.problem(folder) if folder else SHAPES[arguments.curves]
    for row in measured(seeds, arguments.trials, problem, only):
        print({name: value for name, value in row.items() if name != "each"}, flush=True)
        rows.append(row)
    rows.append(controller(arguments.large))
    print(rows[-1])
    write(arguments.json, rows)


if __name__ == "__main__":
    main()
