"""A metric is meant whatever its upper and lower case, where just one fits."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from samples.stored_rows import SWEEP

from gpucommons.scheduler.core.model.types import Millis
from gpucommons.scheduler.metric_spelling import metric_called
from gpucommons.scheduler.store.base import LogPoint
from gpucommons.scheduler.sweeps.sweep import Trial
from gpucommons.scheduler.sweeps.trial_progress import told

NAMES = st.lists(st.sampled_from(["loss", "Loss", "LOSS", "acc", "Accuracy"]), unique=True)


@given(told_names=NAMES, wanted=st.sampled_from(["loss", "Loss", "ACC", "accuracy", "f1"]))
def test_the_very_same_name_wins_then_the_only_one_alike(
    told_names: list[str], wanted: str
) -> None:
    found = metric_called(wanted, told_names)
    alike = [one for one in told_names if one.lower() == wanted.lower()]
    if wanted in told_names:
        assert found == wanted
    else:
        assert found == (alike[0] if len(alike) == 1 else None)


@pytest.mark.parametrize(
    ("metrics", "best"),
    [
        ([{"Accuracy": 0.8, "Loss": 0.3}, {"Accuracy": 0.869}], 0.869),
        # As the name is written wins, also where another is better or told first.
        ([{"Accuracy": 0.9}, {"accuracy": 0.5}], 0.5),
        ([{"Accuracy": 0.9, "ACCURACY": 0.8}], None),
        ([{"val accuracy": 0.9}], None),
    ],
)
def test_a_trial_is_judged_by_what_its_script_prints(
    metrics: list[dict[str, float]], best: float | None
) -> None:
    points = [
        LogPoint(attempt_number=1, step=step, metrics=one, at_ms=Millis(step))
        for step, one in enumerate(metrics, 1)
    ]
    assert told(SWEEP, Trial(number=1, values={}), points).best == best
