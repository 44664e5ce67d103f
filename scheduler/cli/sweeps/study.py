"""A sweep as a study that Optuna's own tools read: dashboards, plots, importances."""

from __future__ import annotations

from typing import Any

from gpucommons.scheduler import models
from gpucommons.scheduler.errors import BadRequest, Misconfigured

_STATES = {"done": "COMPLETE", "ended": "PRUNED", "failed": "FAIL", "paused": "PRUNED"}


def write_study(view: models.SweepView, storage: str) -> int:
    """Write its trials into a storage of Optuna's under the sweep's name; returns how many.

    Raises
    ------
    Misconfigured
        Where Optuna is not installed.
    BadRequest
        Where it is no sweep, or the storage has a study of that name or cannot be written.
    """
    try:
        import optuna  # noqa: PLC0415 - optional, and slow to import
    except ImportError:
        message = "This needs Optuna here: pip install 'gpucommons[sweeps]'."
        raise Misconfigured(message) from None
    if not view.metric:
        raise BadRequest(f"{view.name} compares nothing: it is a {view.kind}, and no study.")
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    try:
        study = optuna.create_study(
            storage=storage,
            study_name=view.name,
            direction="maximize" if view.direction == "maximize" else "minimize",
        )
    except optuna.exceptions.DuplicatedStudyError:
        message = f"{storage} has a study {view.name} already: name another storage."
        raise BadRequest(message) from None
    trials = sorted(view.trials, key=lambda one: one.number)
    distributions = {
        name: optuna.distributions.CategoricalDistribution(_values_of(trials, name))
        if not _is_range(trials, name)
        else _range(optuna, trials, name)
        for name in {name for one in trials for name in one.values}
    }
    for one in trials:
        state = _STATES.get(one.state, "PRUNED")
        if state == "COMPLETE" and one.best is None:
            state = "FAIL"
        study.add_trial(
            optuna.trial.create_trial(
                state=optuna.trial.TrialState[state],
                value=one.best if state != "FAIL" else None,
                params=dict(one.values),
                distributions={name: distributions[name] for name in one.values},
                user_attrs={"job": one.job_name, "number": one.number},
            )
        )
    return len(trials)


def _values_of(trials: list[models.TrialView], name: str) -> list[Any]:
    return sorted({one.values[name] for one in trials if name in one.values}, key=str)


def _is_range(trials: list[models.TrialView], name: str) -> bool:
    values = _values_of(trials, name)
    numbers = [one for one in values if isinstance(one, int | float) and not isinstance(one, bool)]
    return len(numbers) == len(values) and len(values) > 1


def _range(optuna: Any, trials: list[models.TrialView], name: str) -> Any:
    values = _values_of(trials, name)
    low, high = min(values), max(values)
    if all(isinstance(one, int) for one in values):
        return optuna.distributions.IntDistribution(low, high)
    return optuna.distributions.FloatDistribution(low, high)
