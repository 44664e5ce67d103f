"""Who passes a rung, and who is woken: pure decisions over trials."""

from __future__ import annotations

from dataclasses import replace

from gpucommons.scheduler.core.model.types import Millis, State, TeamName, UserName, WorkloadId
from gpucommons.scheduler.parents import ParentId, ParentKind
from gpucommons.scheduler.sweeps.decision import Decision, decide
from gpucommons.scheduler.sweeps.script_arguments import command_with, variables_of
from gpucommons.scheduler.sweeps.sweep import (
    Budget,
    Halving,
    Parameter,
    Sweep,
    Trial,
    TrialState,
)

SWEEP = Sweep(
    sweep_id=ParentId("s"),
    kind=ParentKind.SWEEP,
    name="digits-1",
    owner=UserName("ann"),
    team=TeamName("vision"),
    made_ms=Millis(0),
    budget=Budget(trials=3),
    request="{}",
    space=(Parameter(name="lr", low=0, high=1),),
    metric="loss",
    halving=Halving(first_step=1, last_step=9, factor=3),
    max_parallel=2,
)


def trial(number: int, *at_rungs: float, promoted: int = 0) -> Trial:
    return Trial(
        number=number,
        values={"lr": 0.5},
        state=TrialState.LIVE,
        job=WorkloadId(f"w-{number}"),
        at_rungs=at_rungs,
        best=min(at_rungs, default=None),
        promoted=promoted,
    )


def decided(*trials: Trial, running: tuple[int, ...] = ()) -> Decision:
    states = {
        one.number: State.RUNNING if one.number in running else State.PAUSED for one in trials
    }
    return decide(SWEEP, trials, states, Millis(1))


def test_of_a_list_with_a_limit_no_more_are_begun_than_may_run() -> None:
    given = tuple({"n": number} for number in range(5))
    array = replace(SWEEP, space=(), metric="", halving=None, given=given, at_once=2)
    one, two = (Trial(number=number, values={}, state=TrialState.LIVE) for number in (1, 2))
    assert decide(array, (), {}, Millis(1)).draws == 2
    assert decide(array, (one,), {}, Millis(1)).draws == 1
    assert decide(array, (one, two), {}, Millis(1)).draws == 0
    over = replace(one, state=TrialState.FAILED)
    assert decide(array, (over, two), {}, Millis(1)).draws == 1
    assert decide(replace(array, at_once=0), (one,), {}, Millis(1)).draws == 4


def test_the_best_third_passes_and_what_is_paused_of_it_is_woken() -> None:
    found = decided(trial(1, 0.3), trial(2, 0.1), trial(3, 0.2))
    assert (found.promotes, found.resumes, found.pauses) == ((2,), (2,), ())
    found = decided(trial(1, 0.3), trial(2, 0.1), trial(3, 0.2), running=(2, 3))
    assert (found.promotes, found.resumes, found.pauses) == ((2,), (), (3,))


def test_one_that_ran_past_the_next_rung_while_it_was_paused_passes_one_after_the_other() -> None:
    far = trial(2, 0.1, 0.05)
    found = decided(trial(1, 0.3, 0.2), far, trial(3, 0.2, 0.1))
    assert (found.promotes, found.resumes, found.ended_text) == ((2,), (), "")
    passed = trial(2, 0.1, 0.05, promoted=1)
    found = decided(trial(1, 0.3, 0.2), passed, trial(3, 0.2, 0.1))
    assert (found.promotes, found.resumes) == ((2,), (2,))


def test_for_each_that_gives_its_gpus_up_another_comes_into_line() -> None:
    many = replace(SWEEP, budget=Budget(trials=20), max_parallel=8)
    trials = [trial(1, 0.2), trial(2, 0.3), *(trial(number) for number in range(3, 6))]
    states = {one.number: State.RUNNING for one in trials}
    found = decide(many, trials, states, Millis(1))
    assert (found.pauses, found.draws) == ((1, 2), 2)
    # One of them waits by now; the other's place is taken.
    waiting = [*trials, trial(6), trial(7)]
    states |= {1: State.PAUSED, 2: State.PAUSING, 6: State.QUEUED, 7: State.RUNNING}
    assert decide(many, waiting, states, Millis(1)).draws == 0
    # All run: it is tried whether one more does.
    states |= {6: State.RUNNING}
    assert decide(many, waiting, states, Millis(1)).draws == 1
    assert decide(replace(many, max_parallel=5), waiting, states, Millis(1)).draws == 0
    assert decide(replace(many, budget=Budget(trials=7)), waiting, states, Millis(1)).draws == 0


def test_as_long_as_nothing_is_known_of_any_they_double() -> None:
    many = replace(SWEEP, budget=Budget(trials=20), max_parallel=8)
    for count, more in ((0, 1), (1, 1), (2, 2), (4, 4), (6, 2)):
        trials = [trial(number) for number in range(1, count + 1)]
        states = {one.number: State.RUNNING for one in trials}
        assert decide(many, trials, states, Millis(1)).draws == more
    told = [trial(1, 0.5, promoted=1), trial(2), trial(3), trial(4)]
    states = {one.number: State.RUNNING for one in told}
    assert decide(many, told, states, Millis(1)).draws == 1


def test_a_wake_whose_order_was_lost_is_asked_for_again() -> None:
    found = decided(trial(1, 0.3), trial(2, 0.1, promoted=1), trial(3, 0.2))
    assert (found.promotes, found.resumes, found.draws) == ((), (2,), 0)


def test_it_is_over_when_all_are_drawn_and_none_may_pass() -> None:
    done = Trial(number=2, values={}, state=TrialState.DONE, at_rungs=(0.1,), promoted=1, best=0.1)
    found = decided(trial(1, 0.3), done, trial(3, 0.2))
    assert (found.ended_text, found.cancels) == ("All its trials are over.", (1, 3))


def test_all_of_it_was_tried_is_said_of_different_settings_alone() -> None:
    seeds = replace(SWEEP, space=(Parameter(name="seed", choices=(1, 2, 3)),), halving=None)

    def ended(*drawn: int) -> str:
        trials = [
            Trial(number=number, values={"seed": seed}, state=TrialState.DONE, best=0.1)
            for number, seed in enumerate(drawn, 1)
        ]
        return decide(seeds, trials, {}, Millis(1)).ended_text

    assert ended(3, 1, 2) == "All of it was tried."
    # As an earlier release drew them.
    assert ended(3, 1, 1) == "All its trials are over."


def test_values_reach_a_script_as_arguments_in_their_places_or_as_variables() -> None:
    values = {"lr": 0.5, "batch-size": 64, "nesterov": True, "optimizer": "sgd"}
    found = command_with(["python", "fit.py", "--opt={optimizer}"], values)
    assert found == [
        *("python", "fit.py", "--opt=sgd"),
        *("--lr", "0.5", "--batch-size", "64", "--nesterov", "true"),
    ]
    assert variables_of(values)["BATCH_SIZE"] == "64"
    notebook = ["python", "-m", "gpucommons.scheduler.training.notebook", "a.ipynb"]
    asked = command_with([*notebook, "--parameters", '{"epochs": 5}'], {"lr": 0.5})
    assert asked == [*notebook, "--parameters", '{"epochs": 5, "lr": 0.5}']
