"""A badge speaks for runs of the same code in the same environment, variables included."""

from __future__ import annotations

from dataclasses import replace

from builders import a_job

from gpucommons.scheduler.core.going_on.badges import badge_key
from gpucommons.scheduler.core.model.types import Spec
from gpucommons.scheduler.parents import Parent, ParentId, ParentKind


def spec(number: int | None = None, **env: str) -> Spec:
    part_of = None
    if number is not None:
        part_of = Parent(
            parent_id=ParentId("s"), kind=ParentKind.SWEEP, name="sweep-1", number=number
        )
    return replace(a_job(), snapshot="a" * 64, env=env, part_of=part_of)


def test_another_variable_or_value_is_another_environment() -> None:
    keys = [
        badge_key(one)
        for one in (
            spec(),
            spec(SAVE_EVERY="100"),
            spec(SAVE_EVERY="0"),
            spec(MODE="fast"),
            replace(spec(), secrets={"WANDB_API_KEY": "wandb"}),
        )
    ]
    assert len(set(keys)) == len(keys)
    assert badge_key(spec(A="x", B="y")) == badge_key(spec(B="y", A="x"))


def test_a_job_with_links_has_a_badge_of_its_own_only() -> None:
    # What they lead to may be its code, and changes without a submit.
    assert badge_key(replace(spec(), links=("train.py",), links_from="project")) is None


def test_numbers_that_a_sweep_gives_its_trials_do_not_count() -> None:
    assert badge_key(spec(1, LR="0.1")) == badge_key(spec(2, LR="0.2"))
    assert badge_key(spec(1, OPTIMIZER="adam")) != badge_key(spec(2, OPTIMIZER="sgd"))
