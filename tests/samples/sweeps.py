"""A sweep with early stopping, as it is stored."""

from __future__ import annotations

from gpucommons.scheduler.core.model.types import Millis, TeamName, UserName
from gpucommons.scheduler.parents import ParentId, ParentKind
from gpucommons.scheduler.sweeps.sweep import Budget, Halving, Parameter, Sweep

SWEEP = Sweep(
    sweep_id=ParentId("s-1"),
    kind=ParentKind.SWEEP,
    name="search",
    owner=UserName("ann"),
    team=TeamName("vision"),
    made_ms=Millis(0),
    budget=Budget(trials=200),
    request="{}",
    space=(
        Parameter(name="learner", choices=("fast", "slow")),
        Parameter(name="rate", low=0, high=1),
    ),
    metric="accuracy",
    maximize=True,
    halving=Halving(first_step=1, last_step=9),
)
