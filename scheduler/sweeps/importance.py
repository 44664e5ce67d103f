"""Which parameters matter: how much of what came out each of them explains, by Optuna where it is there."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from gpucommons.scheduler.sweeps.sweep import Parameter, Sweep, Trial

#: From fewer nothing is concluded.
FEWEST = 8
_NO_OPTUNA = (
    "Not known: Optuna works it out, and is not installed where the scheduler runs"
    " (pip install 'gpucommons[sweeps]')."
)


def importance_of(
    sweep: Sweep, trials: Sequence[Trial], *, is_over: bool = False
) -> tuple[dict[str, float], str]:
    """By parameter, shares of 1, the largest first; else nothing, and why."""
    # A parameter under a condition is not compared: it is there in some of the trials only.
    space = [one for one in sweep.space if not one.when]
    told = [one for one in trials if one.best is not None]
    if not sweep.metric or not space:
        return {}, ""
    if len(told) < FEWEST:
        return {}, _too_few(sweep, len(told), is_over=is_over)
    if len({one.best for one in told}) == 1:
        return {}, f"Not known: {sweep.metric} was the same in all trials."
    try:
        optuna = import_module("optuna")
    except ImportError:
        return {}, _NO_OPTUNA
    return _worked_out(optuna, sweep, space, told), ""


def _too_few(sweep: Sweep, told: int, *, is_over: bool) -> str:
    what = "Which parameters matter most"
    if is_over:
        return (
            f"{what} is not known: that takes {FEWEST} trials that told {sweep.metric}; {told} did."
        )
    if sweep.count < FEWEST:
        return (
            f"{what} is not told: that takes {FEWEST} trials that told {sweep.metric}; this"
            f" sweep has at most {sweep.count}."
        )
    return f"{what} is told once {FEWEST} trials have told {sweep.metric}; {told} have so far."


def _worked_out(
    optuna: Any, sweep: Sweep, space: Sequence[Parameter], told: Sequence[Trial]
) -> dict[str, float]:
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(direction="maximize" if sweep.maximize else "minimize")
    distributions = {one.name: distribution(optuna.distributions, one) for one in space}
    study.add_trials(
        [
            optuna.trial.create_trial(
                value=one.best,
                params={name: one.values[name] for name in distributions},
                distributions=distributions,
            )
            for one in told
        ]
    )
    with warnings.catch_warnings():
        # Of evaluators, this one alone needs no other package; it is marked as experimental.
        warnings.simplefilter("ignore")
        with _without("sklearn"):
            # Other evaluators ask for it, where it is installed: seconds and 90 MiB for nothing.
            import_module("optuna.importance")
        evaluator = optuna.importance.PedAnovaImportanceEvaluator()
        found = optuna.importance.get_param_importances(study, evaluator=evaluator)
    return {str(name): float(share) for name, share in found.items()}


@contextmanager
def _without(name: str) -> Iterator[None]:
    """As if a package were not installed, while something is imported that can do without."""
    if name in sys.modules:
        yield
        return
    sys.modules[name] = None  # type: ignore[assignment] # what an import then refuses
    try:
        yield
    finally:
        del sys.modules[name]


def distribution(distributions: Any, parameter: Parameter) -> Any:
    """A parameter as Optuna has it."""
    if parameter.choices:
        return distributions.CategoricalDistribution(parameter.choices)
    if parameter.integer:
        step = 1 if parameter.step is None else int(parameter.step)
        low, high = int(parameter.low), int(parameter.high)
        return distributions.IntDistribution(low, high, log=parameter.log, step=step)
    return distributions.FloatDistribution(
        parameter.low, parameter.high, log=parameter.log, step=parameter.step
    )
