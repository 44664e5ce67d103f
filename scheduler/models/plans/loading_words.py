"""Whether a job waits for its data, in English words."""

from __future__ import annotations

from collections.abc import Sequence

from gpucommons.scheduler.data_loading import loader_in_words
from gpucommons.scheduler.models.plans.loading import DataAdvice

_UNKNOWN = (
    "How it waits for its data is not known: its script reports nothing of it. torch's data loaders are timed"
    " in scripts that call training.current() or use a callback; run.batches(loader) times any other."
)
_NOT_STARTED = "How it waits for its data is not known: it has not started yet."
_NEVER_STARTED = "How it waits for its data is not known: it never started."
_HINTS = {
    "cores": "Its loader has {0} of the {1} cores that it would need to keep up: ask for more (--cpu-milli).",
    "node": "Its loader has {0} of the {1} cores that it would need to keep up, fewer than the job asks for: its"
    " node has no more.",
    "stream": "Its data is a stream: more workers would each read all of it, unless it shares itself out.",
    "loader": "Its loader is not torch's, so it has to be told in the script to load ahead.",
    "keras": "Keras makes its batches in the training's own process: give fit() a PyDataset with workers, or"
    " torch's DataLoader.",
    "keras_dataset": "Its batches come from a PyDataset of Keras, whose workers its script sets: with"
    " PyDataset(workers={0}) it would wait less, also use_multiprocessing=True where batches are computed.",
    "cache": "All of its data takes {0} GiB once it is loaded, and each worker of the job has {1} GiB of memory,"
    " shared by its training processes: where samples are the same each time, keep them there.",
    "remote": "Its files lie on {0}, behind a network: copy them to a disk of the node first.",
    "far": "It ran on nodes that do not have the data which it names.",
}


def hint_text(kind: str, values: Sequence[str]) -> str:
    """One sentence."""
    return _HINTS[kind].format(*values)


def advice_text(view: DataAdvice) -> str:
    """The finding, what would help, and where the numbers are from."""
    if view.verdict == "unknown" and not view.has_started:
        return _NOT_STARTED if view.can_choose else _NEVER_STARTED
    if view.verdict == "unknown":
        return _UNKNOWN
    percent = round(100 * view.wait_ms / view.batch_ms)
    wait = f"{_ms(view.wait_ms)} of {_ms(view.batch_ms)} per batch ({percent} %)"
    source = f"Timed over the newest {view.batches} batches of attempt {view.attempt}, in its first process."
    if view.verdict == "fine":
        return f"It hardly waits for its data: {wait}. {source}"
    if view.verdict == "busy":
        return (
            f"It waits for its data for {wait}, and its GPUs are busy all the same ({view.gpu_percent} %):"
            f" nothing would be won. {source}"
        )
    found = f"It waits for its data for {wait}."
    if view.advised is not None and view.advised.workers is not None:
        span = f"{_ms(view.low_ms)} to {_ms(view.high_ms)}"
        chosen = loader_in_words(view.advised.workers, view.advised.prefetch)
        now = (
            ""
            if view.workers is None
            else f", now {loader_in_words(view.workers, view.prefetch or 2)}"
        )
        found += (
            f" With {chosen}{now}: likely {span} (the longer of computing and loading ÷ workers)."
        )
    return " ".join([found, *(hint.text for hint in view.hints), source])


def _ms(value: float) -> str:
    return f"{value / 1000:.1f} s" if value >= 1000 else f"{value:.3g} ms"  # noqa: PLR2004 - milliseconds of a second
