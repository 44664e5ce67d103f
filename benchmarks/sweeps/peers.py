"""Ray Tune and Syne Tune as searchers: their own sampler and their own ASHA, on our virtual clock.

Neither is in our environment: without them there is nothing here. What each decides is its own code;
what would start its processes is left out, for the trials are curves.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from types import SimpleNamespace
from typing import Any

from benchmarks.sweeps.curves import Problem
from gpucommons.scheduler.sweeps.importance import distribution
from gpucommons.scheduler.sweeps.sweep import Parameter, Values


@dataclass
class RayTune:
    """``ASHAScheduler`` with ``OptunaSearch``, as its guide has them."""

    problem: Problem
    seed: int
    trials_of: int
    asked: dict[int, Values] = field(default_factory=dict)
    keeps: bool = False

    def __post_init__(self) -> None:
        """Make both."""
        from optuna import distributions  # noqa: PLC0415 - of its environment
        from ray.tune.schedulers import AsyncHyperBandScheduler  # noqa: PLC0415 - as above
        from ray.tune.search.optuna import OptunaSearch  # noqa: PLC0415 - as above

        space = {one.name: distribution(distributions, one) for one in self.problem.space}
        self.search = OptunaSearch(space=space, metric="accuracy", mode="max", seed=self.seed)
        self.scheduler = AsyncHyperBandScheduler(
            metric="accuracy",
            mode="max",
            max_t=self.problem.epochs,
            grace_period=1,
            reduction_factor=3,
        )

    def next(self) -> int | None:
        """A new one."""
        if len(self.asked) >= self.trials_of:
            return None
        number = len(self.asked) + 1
        self.asked[number] = self.search.suggest(str(number))
        self.scheduler.on_trial_add(None, SimpleNamespace(trial_id=str(number)))
        return number

    def told(self, number: int, epoch: int, value: float) -> bool:
        """Tell both, as Tune's controller does."""
        result = {"accuracy": value, "training_iteration": epoch}
        trial = SimpleNamespace(trial_id=str(number))
        self.search.on_trial_result(str(number), result)
        goes_on = self.scheduler.on_trial_result(None, trial, result) == "CONTINUE"
        if not goes_on:
            self.scheduler.on_trial_complete(None, trial, result)
            self.search.on_trial_complete(str(number), result)
        return goes_on

    def values(self, number: int) -> Values:
        """As they were drawn."""
        return self.asked[number]


@dataclass
class SyneTune:
    """One of its baselines with ASHA; ``baseline`` by the name that its package has for it."""

    problem: Problem
    seed: int
    trials_of: int
    baseline: str
    asked: dict[int, Any] = field(default_factory=dict)
    keeps: bool = False

    def __post_init__(self) -> None:
        """Make it."""
        from syne_tune import config_space  # noqa: PLC0415 - of its environment
        from syne_tune.optimizer import baselines  # noqa: PLC0415 - as above

        space = {one.name: _syne_range(config_space, one) for one in self.problem.space}
        self.scheduler = getattr(baselines, self.baseline)(
            config_space=space,
            metric="accuracy",
            do_minimize=False,
            time_attr="epoch",
            max_t=self.problem.epochs,
            grace_period=1,
            reduction_factor=3,
            random_seed=self.seed,
        )

    def next(self) -> int | None:
        """A new one."""
        from syne_tune.backend.trial_status import Trial  # noqa: PLC0415 - of its environment

        if len(self.asked) >= self.trials_of:
            return None
        number = len(self.asked) + 1
        config = self.scheduler.suggest().config
        self.asked[number] = Trial(
            trial_id=number, config=config, creation_time=datetime.fromtimestamp(0, UTC)
        )
        self.scheduler.on_trial_add(self.asked[number])
        return number

    def told(self, number: int, epoch: int, value: float) -> bool:
        """Tell it, as its tuner does."""
        result = {"accuracy": value, "epoch": epoch}
        trial = self.asked[number]
        if epoch == self.problem.epochs:
            self.scheduler.on_trial_complete(trial, result)
            return False
        goes_on = self.scheduler.on_trial_result(trial, result) == "CONTINUE"
        if not goes_on:
            self.scheduler.on_trial_remove(trial)
        return goes_on

    def values(self, number: int) -> Values:
        """As they were drawn."""
        return dict(self.asked[number].config)


def _syne_range(config_space: Any, one: Parameter) -> Any:
    if one.choices:
        return config_space.choice(list(one.choices))
    if one.integer:
        kind = config_space.lograndint if one.log else config_space.randint
        return kind(int(one.low), int(one.high))
    return (config_space.loguniform if one.log else config_space.uniform)(one.low, one.high)


_SYNE = {"syne-tune ASHA": "ASHA", "syne-tune BOHB": "BOHB"}
Make = Callable[..., "RayTune | SyneTune"]


def installed() -> dict[str, Make]:
    """Those that are here, by the name of their row."""
    found: dict[str, Make] = {}
    if importlib.util.find_spec("ray") and importlib.util.find_spec("pandas"):
        found["ray-tune"] = RayTune
    if importlib.util.find_spec("syne_tune"):
        for name, baseline in _SYNE.items():
            found[name] = partial(SyneTune, baseline=baseline)
    return found
