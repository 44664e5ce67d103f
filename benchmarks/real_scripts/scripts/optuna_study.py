"""A study of Optuna in a journal file: `load_if_exists` goes on with the trials that are missing."""

import time

import optuna
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend

TRIALS = 60


def objective(trial):
    x = trial.suggest_float("x", -10, 10)
    time.sleep(0.2)
    return (x - 2) ** 2


study = optuna.create_study(
    study_name="square",
    storage=JournalStorage(JournalFileBackend("journal.log")),
    load_if_exists=True,
)
finished = (optuna.trial.TrialState.COMPLETE,)
study.optimize(objective, n_trials=TRIALS - len(study.get_trials(states=finished)))
print(f"best {study.best_value:.4f} after {len(study.get_trials(states=finished))} trials")
with open("best.txt", "w") as file:
    file.write(str(study.best_params))
