"""What will be asked for while somebody waits: the last days once more."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from builders import World, a_job, a_node, a_notebook, a_team

from gpucommons.scheduler.core.model.types import Kind, Millis, Spec, TeamName, UserName
from gpucommons.scheduler.forecast.arrivals import nothing_arrives, the_past_again
from gpucommons.scheduler.forecast.estimating import Budget, estimate
from gpucommons.scheduler.forecast.runs import History, Likeness, Run

HOUR, MINUTE = 3_600_000, 60_000
NOW = Millis(1_000 * HOUR)


def a_run(
    hours_ago: float, minutes: float = 10, *, ended: bool = True, spec: Spec | None = None
) -> Run:
    like = Likeness(
        kind=Kind.TRAINING, team=TeamName("vision"), user=UserName("ann"), family="digits"
    )
    return Run(
        like=like,
        ran_ms=round(minutes * MINUTE),
        ended=ended,
        submitted_ms=Millis(NOW - round(hours_ago * HOUR)),
        spec=spec or a_job("digits-1"),
    )


def after_h(runs: Sequence[Run], future: int, futures: int = 4) -> list[float]:
    arriving = the_past_again(runs, History(runs), NOW, futures)
    return [(one.at_ms - NOW) / HOUR for one in arriving(future)]


def test_each_future_repeats_all_of_the_past_from_another_hour_on() -> None:
    runs = [a_run(hours) for hours in (24, 20, 13, 1)]
    assert after_h(runs, 0) == [4, 11, 23, 24]
    assert after_h(runs, 1) == [5, 6, 10, 17]
    for future in range(4):
        assert len(after_h(runs, future)) == 4
        assert after_h(runs, future) == sorted(after_h(runs, future))


def test_a_short_past_or_none_is_not_repeated() -> None:
    assert the_past_again([], History([]), NOW, 4) is nothing_arrives
    runs = [a_run(5), a_run(1)]
    assert the_past_again(runs, History(runs), NOW, 4) is nothing_arrives
    old = [a_run(24 * 8), a_run(1)]
    assert the_past_again(old, History(old), NOW, 4) is nothing_arrives


def test_a_run_older_than_those_that_are_kept_does_not_thin_out_a_busy_day() -> None:
    busy = [a_run(hours) for hours in range(1, 25)]
    notebook = a_run(24 * 6, ended=False)
    runs = [*busy, notebook]
    forgotten_ms = Millis(NOW - 24 * HOUR - 1)
    arriving = the_past_again(runs, History(runs), NOW, 4, forgotten_ms)
    for future in range(4):
        assert len([one for one in arriving(future) if one.at_ms <= NOW + 6 * HOUR]) in (6, 7)
    cut = the_past_again(runs, History(runs), NOW, 4, Millis(NOW - 12 * HOUR - 1))
    assert len(list(cut(0))) == 12


def test_what_still_runs_arrives_with_a_likely_length_or_not_at_all() -> None:
    going = a_run(12, 5, ended=False)
    assert after_h([going, a_run(24)], 0) == [24]
    runs = [going, *(a_run(24, 40) for _ in range(20))]
    arriving = the_past_again(runs, History(runs), NOW, 4)(0)
    assert {one.run_ms for one in arriving} == {40 * MINUTE}


def test_those_who_come_again_are_new_and_wait_for_nobody() -> None:
    ticket = a_notebook("ann", server_name="lab", not_before_ms=NOW)
    (one,) = the_past_again([a_run(24, spec=ticket)], History([]), NOW, 4)(0)
    assert (one.spec.server_name, one.spec.not_before_ms) == ("again-0-0", 0)


def test_work_that_goes_first_when_it_comes_makes_waits_longer() -> None:
    nlp = a_team("nlp", guaranteed_milli_gpu=1000)
    world = World(a_node(gpus=1), teams=[a_team(), nlp])
    world.run(a_job("digits-1"))
    waits = world.submit(a_job("digits-2"))
    runs = [a_run(0, 60) for _ in range(20)]
    theirs = a_job("bert-1", team=TeamName("nlp"), owner=UserName("bob"))
    now = world.cluster.now_ms
    steady = [
        Run(
            like=Likeness(kind=Kind.TRAINING, team=theirs.team, user=theirs.owner, family="bert"),
            ran_ms=30 * MINUTE,
            submitted_ms=Millis(now - number * 40 * MINUTE),
            spec=theirs,
        )
        for number in range(1, 37)
    ]
    lengths = []
    for past in ([], steady):
        history = History([*runs, *steady])
        playing = estimate(
            world.cluster,
            history,
            Budget(futures=3),
            arriving=the_past_again(past, history, now, 3),
        )
        while True:
            try:
                next(playing)
            except StopIteration as done:
                lengths.append(done.value.waits[waits])
                break
    alone, behind_others = lengths
    assert alone == pytest.approx((60 * MINUTE,) * 3, rel=0.02)
    assert sum(behind_others) > sum(alone)
