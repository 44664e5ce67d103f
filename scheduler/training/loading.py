"""How long a script waits for its data: told with its progress, so that its page can say what would help.

torch's ``DataLoader`` is timed where it hands out batches, without a line in the script. The first batch of
an epoch is left out: workers start, and files are opened. What somebody chose for the next attempt on the
job's page is set on each loader before its first batch, and in no other way; a loader that brings no first
batch so begins anew as its script says.
"""

from __future__ import annotations

import os
import statistics
import sys
import time
import traceback
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib import import_module
from typing import Any, TypeVar

from gpucommons.scheduler.data_loading import PREFETCH_VARIABLE, WORKERS_VARIABLE
from gpucommons.scheduler.training import loaders

#: Fewer batches say nothing; and so many of the newest are looked at.
LEAST, WINDOW = 20, 256
#: A batch that took so many times the usual one had a save or an evaluation in it.
_UNUSUAL = 10
#: Of a batch: less than this part of it is no wait that anybody would see.
_LATE = 0.02
#: A script that makes a loader for each epoch does not fill memory with those of the past.
_MOST_CLOCKS = 64
_Batch = TypeVar("_Batch")


class LoaderClock:
    """The newest batches of one loader: how long each took, and how long of that it was waited for."""

    def __init__(self, about: Mapping[str, Any] | None = None) -> None:
        self.begun_as = dict(about or {})
        self.about: dict[str, Any] = dict(self.begun_as)
        self.spent_us = 0
        self._batches: deque[tuple[int, int]] = deque(maxlen=WINDOW)

    def took(self, *, batch_us: int, wait_us: int) -> None:
        """One more batch."""
        self.spent_us += batch_us
        self._batches.append((batch_us, wait_us))

    def report(self) -> dict[str, Any] | None:
        """Means over the usual ones; None while they are too few."""
        if len(self._batches) < LEAST:
            return None
        usual_us = statistics.median(batch for batch, _ in self._batches)
        kept = [one for one in self._batches if one[0] <= _UNUSUAL * usual_us]
        late = sum(wait > _LATE * batch for batch, wait in kept)
        return {
            **self.about,
            "batches": len(kept),
            "batch_us": max(1, round(statistics.fmean(batch for batch, _ in kept))),
            "wait_us": round(statistics.fmean(wait for _, wait in kept)),
            "late_percent": round(100 * late / len(kept)),
        }


class Loading:
    """All loaders of this process; the one on which most time is spent counts."""

    def __init__(
        self,
        environ: Mapping[str, str],
        *,
        now_us: Callable[[], int] = lambda: time.perf_counter_ns() // 1000,
    ) -> None:
        self.workers = _number(environ, WORKERS_VARIABLE)
        self.prefetch = _number(environ, PREFETCH_VARIABLE)
        self._processes = _number(environ, "LOCAL_WORLD_SIZE") or 1
        self._now_us = now_us
        self._clocks: list[LoaderClock] = []
        self._watches = False

    def report(self) -> dict[str, Any] | None:
        """What was measured of the training's loader; None while that is too little."""
        found = max(self._clocks, key=_spent, default=None)
        return None if found is None else found.report()

    def clock(self, about: Mapping[str, Any]) -> LoaderClock:
        """For one more loader."""
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 0
        shared = {"processes": self._processes, **({"cores": cores} if cores else {})}
        again = loaders.MADE_BY in about and self._begun_as({**shared, **about})
        if again:
            return again
        if len(self._clocks) >= _MOST_CLOCKS:
            best = max(self._clocks, key=_spent)
            newest = [one for one in self._clocks if one is not best][2 - _MOST_CLOCKS :]
            self._clocks = [best, *newest]
        self._clocks.append(LoaderClock({**shared, **about}))
        return self._clocks[-1]

    def _begun_as(self, about: Mapping[str, Any]) -> LoaderClock | None:
        """Keras makes a loader for each epoch: they go on with one clock, or short epochs never told anything."""
        return next((one for one in self._clocks if one.begun_as == about), None)

    def timed(self, batches: Iterable[_Batch]) -> Iterator[_Batch]:
        """The same batches, of any loader, and how long they are waited for."""
        clock, source, before_us = self.clock({}), iter(batches), None
        while True:
            begun_us = self._now_us()
            try:
                batch = next(source)
            except StopIteration:
                return
            got_us = self._now_us()
            if before_us is not None:
                clock.took(batch_us=got_us - before_us, wait_us=got_us - begun_us)
            before_us = got_us
            yield batch

    def watch(self) -> None:
        """Time torch's loaders from now on; where the script has not imported torch yet, later."""
        if self._watches:
            return
        if self.workers is not None and "torch" not in sys.modules:
            try:  # what was chosen must be there before the first batch
                import_module("torch.utils.data")
            except ImportError:
                self._watches = True
                return
        module = sys.modules.get("torch.utils.data.dataloader")
        if module is not None:
            self._watches = True
            self._hook(module)

    def _hook(self, module: Any) -> None:
        loader, iterator = module.DataLoader, getattr(module, "_BaseDataLoaderIter", None)
        begin = loader.__iter__
        if iterator is None:
            return  # another torch than those that are known: nothing is timed, nothing breaks
        fetch = iterator.__next__

        def begin_with_choice(this: Any) -> Any:
            is_new = not hasattr(this, "_gpucommons_clock")
            return self._as_chosen(begin, this) if is_new else _begun(begin, this)

        def next_of_those_chosen(this: Any) -> Any:
            if hasattr(this, "_gpucommons_otherwise"):
                return _first_as_chosen(timed_next, this)
            if hasattr(this, "_gpucommons_instead"):
                return next(this._gpucommons_instead)
            return timed_next(this)

        def timed_next(this: Any) -> Any:
            clock = getattr(this, "_gpucommons_clock", None)
            if clock is None:  # it was begun before anybody looked
                clock = this._gpucommons_clock = self.clock(loaders.known_of(this))
            is_first = this._num_yielded == 0 or not hasattr(this, "_gpucommons_got_us")
            begun_us = self._now_us()
            batch = fetch(this)
            got_us = self._now_us()
            if is_first:
                size = clock.about.get("batch_samples")
                clock.about.update(_quietly(loaders.sample_bytes, batch, size))
            else:
                clock.took(batch_us=got_us - this._gpucommons_got_us, wait_us=got_us - begun_us)
            this._gpucommons_got_us = got_us
            return batch

        loader.__iter__, iterator.__next__ = begin_with_choice, next_of_those_chosen

    def _as_chosen(self, begin: Callable[[Any], Any], loader: Any) -> Any:
        """A loader's first iterator. Where chosen workers cannot begin, those that its script says do."""
        before = (loader.num_workers, loader.prefetch_factor)
        self._choose(loader)
        loader._gpucommons_clock = self.clock(_quietly(loaders.about, loader))
        if (loader.num_workers, loader.prefetch_factor) == before:
            return _begun(begin, loader)

        def as_its_script_says(why: str) -> Any:
            _say(f"its data loader does not start with chosen workers ({why}): as its script says")
            loader.num_workers, loader.prefetch_factor = before
            # Where it keeps its workers, it would go on with those that failed.
            loader._iterator = None
            loader._gpucommons_clock.about.pop("prefetch", None)
            loader._gpucommons_clock.about.update(_quietly(loaders.about, loader))
            return _begun(begin, loader)

        try:
            iterator = _begun(begin, loader)
        except Exception as error:  # noqa: BLE001 - whatever a user's own class cannot do
            why = _last_line(error)
        else:
            iterator._gpucommons_otherwise = as_its_script_says
            return iterator
        return as_its_script_says(why)

    def _choose(self, loader: Any) -> None:
        """What somebody chose. A stream is left alone: each worker would read all of it once more.

        So is what Keras makes: it forks workers of its own, and its arrays may lie on a GPU.
        """
        if self.workers is None or loaders.is_stream(loader) or loaders.is_of_keras(loader):
            return
        loader.num_workers = self.workers
        if self.workers > 0:
            loader.prefetch_factor = self.prefetch or loader.prefetch_factor or 2
        else:
            loader.prefetch_factor = None


def _begun(begin: Callable[[Any], Any], loader: Any) -> Any:
    iterator = begin(loader)
    iterator._gpucommons_clock = loader._gpucommons_clock
    return iterator


def _first_as_chosen(fetch: Callable[[Any], Any], iterator: Any) -> Any:
    """Its first batch. Forked workers say only here that they cannot work: the script has got nothing yet."""
    otherwise = iterator._gpucommons_otherwise
    del iterator._gpucommons_otherwise
    try:
        return fetch(iterator)
    except StopIteration:
        raise
    except Exception as error:  # noqa: BLE001 - whatever a user's own class cannot do
        why = _last_line(error)
    _quietly(getattr(iterator, "_shutdown_workers", dict))
    iterator._gpucommons_instead = otherwise(why)
    return next(iterator._gpucommons_instead)


def _last_line(error: Exception) -> str:
    """An error of a worker comes with the lines of its traceback, the error itself last."""
    return "".join(traceback.format_exception_only(error)).strip().splitlines()[-1]


def _spent(clock: LoaderClock) -> int:
    return clock.spent_us


def _number(environ: Mapping[str, str], name: str) -> int | None:
    text = environ.get(name, "")
    return int(text) if text.isdecimal() else None


def _quietly(look: Callable[..., dict[str, Any]], *arguments: Any) -> dict[str, Any]:
    """What is looked at never ends a training: a user's own class may raise anything."""
    try:
        return look(*arguments)
    except Exception:  # noqa: BLE001 - see above
        return {}


def _say(text: str) -> None:
    sys.stderr.write(f"{time.strftime('%H:%M:%S')} gpucommons: {text}\n")
