"""How people call metrics: what makes a number in a line a point of a training curve.

The list is short on purpose. A word that ordinary logs use as well ("error", "score", "time", "map")
is not on it, because a curve drawn from a package manager's log costs more trust than one that is
missing.
"""

from __future__ import annotations

import re

from gpucommons.scheduler.curves.points import MAX_NAME_CHARACTERS

#: One of these in a name makes it a metric.
_METRICS = frozenset(
    {
        "loss", "losses", "acc", "accuracy", "perplexity", "ppl", "bpb", "bpc", "rmse", "mse", "mae",
        "rmsle", "mape", "logloss", "mlogloss", "merror", "auc", "aucpr", "ndcg", "f1", "bleu",
        "rouge", "rouge1", "rougel", "dice", "iou", "miou", "map50", "wer", "reward", "rewards",
        "elbo", "nll", "top1", "top5", "l1", "l2", "rew", "cross", "crossentropy", "bce",
    }
)  # fmt: skip
#: Words that are too short or too common to stand alone.
_ONLY_IN_COMPANY = frozenset({"l1", "l2", "cross", "rew", "top1", "top5"})
#: Kept beside a metric, never without one.
_BESIDE = frozenset({"lr", "learning_rate", "grad_norm", "gradnorm"})
#: What stands before the word in logs that are about something else.
_OTHERS = frozenset(
    {
        "packet", "packets", "data", "precision", "connection", "frame", "signal", "power", "weight",
        "and", "heat", "hearing", "hair", "blood", "memory", "clock", "time", "sync",
    }
)  # fmt: skip
_PARTS = re.compile(r"[^a-z0-9]+")
_UNWANTED = re.compile(r"[^\w .:/-]+")


def parts_of(name: str) -> tuple[str, ...]:
    """The words of a name: ``val_loss`` → ``val``, ``loss``."""
    return tuple(part for part in _PARTS.split(name.lower()) if part)


def is_metric(name: str) -> bool:
    """Whether a name alone says that this is a training metric."""
    parts = parts_of(name)
    found = [part for part in parts if part in _METRICS]
    if not found or any(part in _OTHERS for part in parts):
        return False
    return len(parts) > 1 or found[0] not in _ONLY_IN_COMPANY


def is_of_others(word: str) -> bool:
    """Whether a word before ``loss`` says that something else is lost."""
    return word.lower() in _OTHERS


def stands_beside(name: str) -> bool:
    """Whether it is worth keeping beside a metric."""
    return name.lower() in _BESIDE


def tidy(name: str) -> str:
    """The name as a curve keeps it."""
    return _UNWANTED.sub(" ", name).strip()[:MAX_NAME_CHARACTERS].strip()
