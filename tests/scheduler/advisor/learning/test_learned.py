"""What a hub's own runs teach: the same numbers again, within bounds, and nothing of another driver."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpucommons.scheduler.advisor.constants import Constants
from gpucommons.scheduler.advisor.history import HALF_LIFE_S, Asked
from gpucommons.scheduler.advisor.kinds import Pool, shipped
from gpucommons.scheduler.advisor.layout import FULL, Layout
from gpucommons.scheduler.advisor.learning.learned import MOST, Kept, Learned, learn, seconds_of
from gpucommons.scheduler.advisor.learning.scalings import Named, believed_of
from gpucommons.scheduler.advisor.learning.training import (
    Training,
    read,
    read_points,
    written,
    written_points,
)
from gpucommons.scheduler.advisor.network import Transformer, Unknown
from gpucommons.scheduler.advisor.recipe import Adapters, Recipe
from gpucommons.scheduler.advisor.scaling import Seen, scaling_of

_A100 = shipped().kinds["A100-80"]
POOL = Pool(
    kind=replace(_A100, name="A100-80"),
    gpus_per_node=8,
    nodes=4,
    inside=_A100.link,
    between=shipped().links["infiniband-800"],
)
ASKED = Asked(
    job="j", project="p", family="transformer plain", kind="A100-80", gpus=8, environment="d1"
)
#: A hub whose products and links are not those of the table.
TRUE = replace(Constants(), products=0.55, between=0.5, recompute=1.1)


def training(hidden: int, **layout: int) -> Training:
    network = Transformer(
        layers=24, hidden=hidden, heads=16, kv_heads=16, ffn=4 * hidden, vocabulary=50_000
    )
    return Training(
        network=network, recipe=Recipe(batch=256, sequence=2048), layout=Layout(**layout)
    )


TRAININGS = [
    training(
        hidden,
        data=data,
        micro=micro,
        accumulation=256 // (data * micro),
        zero=zero,
        recompute=again,
    )
    for hidden in (1024, 2048, 4096)
    for data, micro in ((8, 4), (16, 2), (32, 8))
    for zero, again in ((3, 0), (3, FULL))
]


def kept(what: Training, *, slower: float = 1.0, **changes: object) -> Kept:
    one = Kept(
        training=what,
        pool=POOL,
        measured_s=1.0,
        job="other",
        project="p",
        family="transformer plain",
        environment="d1",
    )
    seconds = float(seconds_of([one], TRUE)[0]) * slower
    return replace(one, measured_s=seconds, **changes)  # type: ignore[arg-type]


def off(learned: Learned, what: Training) -> float:
    one = kept(what)
    return abs(float(np.log(seconds_of([one], learned.constants)[0] / one.measured_s)))


def test_runs_of_other_sizes_teach_what_another_layout_takes() -> None:
    new = training(3072, data=32, micro=4, accumulation=2, zero=3, recompute=FULL)
    before = off(Learned(), new)
    learned = learn(ASKED, [kept(one) for one in TRAININGS], Constants())

    assert before > 0.2
    assert off(learned, new) < 0.03
    assert learned.fitted
    assert all(abs(run.measured_s / run.formula_s - 1) < 0.1 for run in learned.runs)


def test_a_project_with_many_runs_crowds_nobody_out() -> None:
    own = [kept(one, age_s=100.0) for one in TRAININGS]
    third = [kept(TRAININGS[0], project="third", age_s=200.0)]
    flood = [kept(TRAININGS[0], slower=2.5, project="eve") for _ in range(2 * MOST)]
    learned = learn(ASKED, [*third, *own, *flood], Constants())

    assert len(learned.runs) == MOST
    assert sum(run.project == "p" for run in learned.runs) == len(own)
    assert sum(run.project == "third" for run in learned.runs) == 1
    new = training(3072, data=32, micro=4, accumulation=2, zero=3, recompute=FULL)
    assert learned.fitted
    assert off(learned, new) < 0.2


def test_few_runs_leave_the_constants_as_they_were_and_are_told_on() -> None:
    learned = learn(ASKED, [kept(one) for one in TRAININGS[:4]], Constants())
    assert learned.constants == Constants()
    assert not learned.fitted
    assert len(learned.runs) == 4


@pytest.mark.parametrize(
    "strange",
    [
        {"environment": "d2"},
        {"pool": replace(POOL, kind=replace(POOL.kind, name="H100-80"))},
        {"pool": replace(POOL, nodes=0)},
        {"age_s": -1.0},
        {"measured_s": 0.0},
        {"measured_s": 1e9},
        {"measured_s": 1e-9},
    ],
)
def test_runs_of_another_driver_kind_or_beyond_belief_teach_nothing(
    strange: dict[str, object],
) -> None:
    learned = learn(ASKED, [replace(kept(one), **strange) for one in TRAININGS], Constants())  # type: ignore[arg-type]
    assert learned == Learned(constants=Constants())


def test_old_runs_fade() -> None:
    old = [kept(one, age_s=3 * HALF_LIFE_S) for one in TRAININGS]
    assert not learn(ASKED, old[:18], Constants()).fitted
    fresh = learn(ASKED, [kept(one) for one in TRAININGS], Constants())
    assert fresh.constants.products < Constants().products


def test_another_project_counts_as_one_run_whatever_it_says() -> None:
    lies = [kept(one, slower=2.0, project="q") for one in TRAININGS * 5]
    assert not learn(ASKED, lies, Constants()).fitted

    own = [kept(one) for one in TRAININGS]
    honest = learn(ASKED, own, Constants())
    beside = learn(ASKED, [*own, *lies], Constants())
    for what in TRAININGS:
        assert abs(off(beside, what) - off(honest, what)) < 0.03


@settings(deadline=None, max_examples=15)
@given(st.lists(st.floats(0.01, 100), min_size=6, max_size=6))
def test_constants_stay_within_their_bounds_whatever_runs_say(slower: Sequence[float]) -> None:
    lies = [kept(one, slower=by) for one, by in zip(TRAININGS, slower, strict=False)]
    learned = learn(ASKED, lies, Constants())
    for one in fields(Constants):
        usual = getattr(Constants(), one.name)
        assert 1 / 4.1 <= getattr(learned.constants, one.name) / usual <= 4.1


def test_what_is_written_of_a_training_is_read_again() -> None:
    for one in TRAININGS:
        assert read(written(one.network, one.recipe, one.layout)) == one
    adapted = replace(TRAININGS[0], recipe=Recipe(batch=1, adapters=Adapters.QLORA))
    assert read(written(adapted.network, adapted.recipe, adapted.layout)) == adapted
    assert written(Unknown(why=""), Recipe(batch=1), Layout()) == ""
    seen = [Seen(gpus=2, nodes=1, local_batch=8.0, step_s=0.5)]
    assert read_points(written_points(seen)) == seen


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"kind":"other"}', '{"kind":"traced","network":{"x":1}}', "0" * 5000]
)
def test_words_of_another_release_are_passed_over(text: str) -> None:
    assert read(text) is None
    assert read_points(text) == []


def points(size: float, wire: float) -> list[Seen]:
    """A training of this size whose all-reduce takes so long between nodes."""
    return [
        Seen(
            gpus=gpus,
            nodes=nodes,
            local_batch=batch,
            step_s=size * (0.1 + 0.01 * batch + (wire if nodes > 1 else 0.02) * (gpus > 1)),
        )
        for gpus, nodes in ((1, 1), (2, 1), (4, 1), (8, 2), (16, 4))
        for batch in (4.0, 16.0)
    ]


def test_other_trainings_tell_how_slow_the_links_between_nodes_are() -> None:
    mine = Named(project="p", name="mine")
    others = {Named(project="p", name=str(size)): points(size, 0.6) for size in (0.5, 1.0, 2.0)}
    alone = [one for one in points(1.5, 0.6) if one.nodes == 1]
    taught = scaling_of(alone, believed_of(mine, others))
    guessed = scaling_of(alone, believed_of(mine, {}))

    at = [np.array([value]) for value in (8.0, 2.0, 8.0)]
    true = 1.5 * (0.1 + 0.08 + 0.6)
    said, guess = (abs(float(np.log(one.step_s(*at)[0] / true))) for one in (taught, guessed))
    assert said < guess


def test_points_at_one_size_and_the_training_itself_teach_no_scaling() -> None:
    mine = Named(project="p", name="mine")
    flat = [Seen(gpus=1, nodes=1, local_batch=float(batch), step_s=1.0) for batch in range(1, 9)]
    assert believed_of(mine, {mine: points(1.0, 0.5)}) is None
    assert believed_of(mine, {Named(project="p", name="flat"): flat}) is None


def test_another_project_speaks_of_scaling_with_one_training() -> None:
    mine = Named(project="p", name="mine")
    lies = {Named(project="q", name=str(one)): points(1.0, 1e6) for one in range(9)}
    few = believed_of(mine, dict(list(lies.items())[:1]))
    many = believed_of(mine, lies)
    assert few is not None
    assert many is not None
    assert len(few.middles) == len(many.middles)
