"""What Transformers posts by itself, status by status."""

from __future__ import annotations

import pytest

from gpucommons.scheduler.curves.points import Counter, Unit
from gpucommons.scheduler.curves.trainer_status import point_of


def test_a_run_from_its_first_status_to_its_last() -> None:
    began = point_of({"total_steps": "480"}, 0)
    assert began is not None
    assert (began.counter, began.metrics) == (Counter(unit=Unit.STEP, step=0, total=480), {})

    said = {"loss": "0.5", "grad_norm": "nan", "current_step": "50", "total_steps": "480"}
    point = point_of({**said, "current_epoch": "0.31"}, 10, began.counter)
    assert point is not None
    assert point.counter == Counter(unit=Unit.STEP, step=50, total=480, epoch=0.31)
    assert point.metrics == {"loss": 0.5}

    last = point_of({"loss": "0.4", "train_loss": "0.45"}, 100, point.counter)
    assert last is not None
    assert (last.counter.step, last.metrics) == (480, {"loss": 0.4, "train_loss": 0.45})


def test_a_last_status_is_no_point_where_nobody_said_how_long_the_run_is() -> None:
    before = Counter(unit=Unit.STEP, step=175)
    assert point_of({"train_loss": "0.45"}, 100, before) is None
    assert point_of({"train_loss": "0.45"}, 100) is None
    during = point_of({"eval_loss": "0.4"}, 88, before)
    assert during is not None
    assert (during.counter.unit, during.counter.step) == (Unit.STEP, 175)


def test_a_trainer_that_names_no_step_is_followed_by_its_percentage() -> None:
    point = point_of({"accuracy": "0.9"}, 42)
    assert point is not None
    assert (point.counter.unit, point.counter.step, point.counter.total) == (Unit.PERCENT, 42, 100)


@pytest.mark.parametrize(
    "metrics",
    [
        {},
        {"loss": "not a number"},
        {"current_step": "-3"},
        {"current_step": "1e999"},
        {"loss": "9" * 64},
    ],
)
def test_a_status_without_a_place_is_no_point(metrics: dict[str, str]) -> None:
    assert point_of(metrics, None) is None
