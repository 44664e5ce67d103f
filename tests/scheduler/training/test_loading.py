"""How long a script waits for its data: timed where batches are handed out."""

from __future__ import annotations

import gc
import pickle
import sys
import weakref
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from gpucommons.scheduler import models
from gpucommons.scheduler.training import loaders as looked_at
from gpucommons.scheduler.training.loaders import file_system_of
from gpucommons.scheduler.training.loading import LEAST, Loading

COMPUTE_US, WAIT_US = 40_000, 60_000


class Clock:
    """Microseconds that pass when they are spent."""

    def __init__(self) -> None:
        self.us = 0

    def __call__(self) -> int:
        return self.us


class Data:
    """Samples of four bytes each, in a folder."""

    root = "/data/digits"

    def __len__(self) -> int:
        return 120


class IterableDataset(Data):
    """A stream, by its name."""


class OnTheGpu(Data):
    """Cannot be read in many forked workers, which say so with the first batch."""

    most = 0


def read(dataset: Any, workers: int) -> None:
    if isinstance(dataset, OnTheGpu) and workers > dataset.most:
        message = "Caught in worker 0.\n  File x\nRuntimeError: cannot re-initialize CUDA"
        raise RuntimeError(message)


def start(loader: Any, error: Exception) -> None:
    if loader.num_workers > 8:
        raise error
    if not loader.num_workers and loader.timeout:
        message = "requires timeout == 0"
        raise AssertionError(message)


class Batch:
    nbytes = 16


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def torch(monkeypatch: pytest.MonkeyPatch, clock: Clock) -> Any:
    """As much of torch's loaders as is looked at; each batch takes its time to load."""
    module = ModuleType("torch.utils.data.dataloader")

    class _BaseDataLoaderIter:
        def __init__(self, loader: Any) -> None:
            self._num_workers, self._dataset = loader.num_workers, loader.dataset
            self._is_shut_down = False
            self._num_yielded = 0
            self._left = loader.batches

        def __next__(self) -> Any:
            if not self._left:
                raise StopIteration
            read(self._dataset, self._num_workers)
            clock.us += WAIT_US if self._num_yielded else 10 * WAIT_US
            self._left -= 1
            self._num_yielded += 1
            return {"x": [module.Batch()], "y": (3,)}

        def __iter__(self) -> Any:
            return self

        def _shutdown_workers(self) -> None:
            self._is_shut_down = True

    class DataLoader:
        _iterator: Any = None

        def __init__(
            self, dataset: Any, batches: int = 30, num_workers: int = 0, timeout: int = 0
        ) -> None:
            self.dataset, self.batches, self.num_workers = dataset, batches, num_workers
            self.prefetch_factor = 2 if num_workers else None
            self.batch_size, self.timeout = 4, timeout
            self.persistent_workers = False

        def __iter__(self) -> Any:
            start(self, module.cannot_start)
            if self.persistent_workers and self.num_workers:
                self._iterator = self._iterator or _BaseDataLoaderIter(self)
                return self._iterator
            return _BaseDataLoaderIter(self)

    module.Batch, module.cannot_start = Batch, TypeError("cannot pickle")  # type: ignore[attr-defined]
    module.DataLoader, module._BaseDataLoaderIter = DataLoader, _BaseDataLoaderIter  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "torch", ModuleType("torch"))
    monkeypatch.setitem(sys.modules, "torch.utils.data.dataloader", module)
    return module


def trained(iterator: Any, clock: Clock) -> None:
    """One epoch."""
    while True:
        try:
            next(iterator)
        except StopIteration:
            return
        clock.us += COMPUTE_US


def loading(clock: Clock, **environ: str) -> Loading:
    found = Loading(environ, now_us=clock)
    found.watch()
    return found


def test_torchs_loaders_are_timed_without_their_first_batch(torch: Any, clock: Clock) -> None:
    found = loading(clock, LOCAL_WORLD_SIZE="2")
    loader = torch.DataLoader(Data())
    trained(iter(loader), clock)
    told = found.report()
    assert told is not None
    assert (told["batches"], told["batch_us"], told["wait_us"]) == (29, 100_000, 60_000)
    assert (told["late_percent"], told["workers"], told["processes"]) == (100, 0, 2)
    assert (told["samples"], told["sample_bytes"], told["batch_samples"]) == (120, 4, 4)
    assert told["stream"] is False
    assert "prefetch" not in told


def test_an_evaluation_between_two_batches_is_no_wait(torch: Any, clock: Clock) -> None:
    found = loading(clock)
    iterator = iter(torch.DataLoader(Data()))
    next(iterator)
    clock.us += 60_000_000
    trained(iterator, clock)
    told = found.report()
    assert told is not None
    assert told["batch_us"] == 100_000


def test_the_loader_on_which_most_time_is_spent_is_the_trainings(torch: Any, clock: Clock) -> None:
    found = loading(clock)
    trained(iter(torch.DataLoader(Data(), batches=100)), clock)
    trained(iter(torch.DataLoader(Data(), batches=25, num_workers=3)), clock)
    told = found.report()
    assert told is not None
    assert (told["workers"], told["batches"]) == (0, 99)


def test_few_batches_say_nothing(torch: Any, clock: Clock) -> None:
    found = loading(clock)
    trained(iter(torch.DataLoader(Data(), batches=20)), clock)
    assert found.report() is None


def test_a_loader_that_was_begun_before_anybody_looked_is_timed_from_then_on(
    torch: Any, clock: Clock
) -> None:
    iterator = iter(torch.DataLoader(Data(), num_workers=2))
    next(iterator)
    found = loading(clock)
    trained(iterator, clock)
    told = found.report()
    assert told is not None
    assert (told["workers"], told["wait_us"]) == (2, WAIT_US)


def test_what_was_chosen_is_set_on_each_loader_and_on_no_stream(torch: Any, clock: Clock) -> None:
    found = loading(clock, GPUCOMMONS_LOADER_WORKERS="4", GPUCOMMONS_LOADER_PREFETCH="3")
    loader, stream = torch.DataLoader(Data()), torch.DataLoader(IterableDataset())
    trained(iter(loader), clock)
    iter(stream)
    assert (loader.num_workers, loader.prefetch_factor) == (4, 3)
    assert (stream.num_workers, stream.prefetch_factor) == (0, None)
    told = found.report()
    assert told is not None
    assert (told["workers"], told["prefetch"]) == (4, 3)


def test_without_a_choice_nothing_is_set(torch: Any, clock: Clock) -> None:
    loading(clock)
    loader = torch.DataLoader(Data(), num_workers=1)
    iter(loader)
    assert (loader.num_workers, loader.prefetch_factor) == (1, 2)


@pytest.mark.parametrize(
    "error",
    [TypeError("cannot pickle"), pickle.PicklingError("cannot pickle"), MemoryError("too many")],
)
def test_a_loader_that_does_not_start_as_chosen_starts_as_the_script_says(
    torch: Any, clock: Clock, capsys: pytest.CaptureFixture[str], error: Exception
) -> None:
    torch.cannot_start = error
    loading(clock, GPUCOMMONS_LOADER_WORKERS="9")
    loader = torch.DataLoader(Data(), num_workers=1)
    trained(iter(loader), clock)
    assert (loader.num_workers, loader.prefetch_factor) == (1, 2)
    said = capsys.readouterr().err
    assert f"{error}): as its script says" in said
    assert type(error).__name__ in said


def test_a_loader_that_needs_workers_keeps_them_where_none_are_chosen(
    torch: Any, clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    found = loading(clock, GPUCOMMONS_LOADER_WORKERS="0")
    loader = torch.DataLoader(Data(), num_workers=3, timeout=60)
    trained(iter(loader), clock)
    assert (loader.num_workers, loader.prefetch_factor) == (3, 2)
    assert "AssertionError: requires timeout == 0" in capsys.readouterr().err
    told = found.report()
    assert told is not None
    assert (told["workers"], told["prefetch"], told["batches"]) == (3, 2, 29)


@pytest.mark.parametrize("own", [0, 1])
def test_workers_that_bring_no_first_batch_are_replaced_by_what_the_script_says(
    torch: Any,
    clock: Clock,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    own: int,
) -> None:
    prefetch = 2 if own else None
    monkeypatch.setattr(OnTheGpu, "most", own)
    found = loading(clock, GPUCOMMONS_LOADER_WORKERS="4")
    loader = torch.DataLoader(OnTheGpu(), num_workers=own)
    loader.persistent_workers = True
    begun = iter(loader)
    assert len(list(begun)) == loader.batches
    assert begun._is_shut_down
    assert (loader.num_workers, loader.prefetch_factor) == (own, prefetch)
    said = capsys.readouterr().err
    assert "(RuntimeError: cannot re-initialize CUDA): as its script says" in said
    told = found.report()
    assert told is not None
    assert (told["workers"], told["batches"], told.get("prefetch")) == (own, 29, prefetch)
    other = torch.DataLoader(Data())
    next(iter(other))
    assert other.num_workers == 4, "a loader that can has what was chosen"


def test_what_fails_after_the_first_batch_is_the_scripts_own(torch: Any, clock: Clock) -> None:
    loading(clock, GPUCOMMONS_LOADER_WORKERS="4")
    loader = torch.DataLoader(Data())
    begun = iter(loader)
    next(begun)
    begun._dataset = OnTheGpu()
    with pytest.raises(RuntimeError, match="cannot re-initialize"):
        next(begun)
    assert loader.num_workers == 4


def test_an_empty_loader_ends_as_it_does_without_a_choice(
    torch: Any, clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    loading(clock, GPUCOMMONS_LOADER_WORKERS="4")
    assert list(iter(torch.DataLoader(Data(), batches=0))) == []
    assert capsys.readouterr().err == ""


def test_an_error_that_the_script_has_anyway_is_raised(torch: Any, clock: Clock) -> None:
    loading(clock, GPUCOMMONS_LOADER_WORKERS="4")
    with pytest.raises(RuntimeError, match="cannot re-initialize"):
        next(iter(torch.DataLoader(OnTheGpu(), num_workers=1)))


def test_an_error_of_the_scripts_own_loader_stays_its_own(torch: Any, clock: Clock) -> None:
    loading(clock)
    with pytest.raises(TypeError, match="cannot pickle"):
        iter(torch.DataLoader(Data(), num_workers=9))


def test_any_other_loader_is_timed_by_one_word(clock: Clock) -> None:
    def slow() -> Iterator[int]:
        for number in range(30):
            clock.us += WAIT_US
            yield number

    found = Loading({}, now_us=clock)
    for _ in found.timed(slow()):
        clock.us += COMPUTE_US
    told = found.report()
    assert told is not None
    assert (told["batches"], told["batch_us"], told["wait_us"]) == (29, 100_000, 60_000)
    assert "workers" not in told


def test_the_file_system_of_data_is_that_of_the_nearest_mount(tmp_path: Path) -> None:
    mounts = tmp_path / "mounts"
    mounts.write_text("/dev/sda / ext4 rw 0 0\nserver:/d /data nfs4 rw 0 0\nbroken\n")
    assert file_system_of(Path("/data/digits"), mounts) == "nfs4"
    assert file_system_of(Path("/database"), mounts) == "ext4"
    assert file_system_of(None, mounts) == file_system_of(Path("/"), tmp_path / "none") == ""


class OfKeras(IterableDataset):
    """What Keras wraps a ``PyDataset`` into, anew for each epoch."""

    __module__ = "keras.src.trainers.data_adapters"

    def __init__(self, iterable: object) -> None:
        self.iterable = iterable


class Adapter:
    """As Keras' own, which hands batches out through a generator."""

    def __init__(self, workers: int) -> None:
        self.py_dataset, self.enqueuer = Number(workers), object() if workers > 1 else None
        self.py_dataset.workers = Number(workers)  # type: ignore[attr-defined]

    def batches(self) -> Iterator[int]:
        yield self.py_dataset.value


@pytest.mark.parametrize(("workers", "counted"), [(1, 0), (3, 3)])
def test_short_epochs_of_keras_add_up_and_its_loaders_get_nobodys_choice(
    torch: Any, clock: Clock, workers: int, counted: int
) -> None:
    found = loading(clock, GPUCOMMONS_LOADER_WORKERS="4")
    adapter = Adapter(workers)
    for _ in range(3):
        loader = torch.DataLoader(OfKeras(adapter.batches()), batches=LEAST // 2)
        trained(iter(loader), clock)
        assert loader.num_workers == 0
    told = models.LoadingReport.model_validate(found.report())
    assert (told.made_by, told.workers, told.stream) == ("keras_dataset", counted, False)
    assert told.batches == 3 * (LEAST // 2 - 1)


def test_a_generator_given_to_keras_has_no_workers(torch: Any, clock: Clock) -> None:
    found = loading(clock)
    trained(iter(torch.DataLoader(OfKeras(iter(range(9))))), clock)
    told = models.LoadingReport.model_validate(found.report())
    assert (told.made_by, told.workers) == ("keras", None)


@pytest.mark.parametrize(("split", "size"), [(False, 8), (True, 4)])
def test_a_batch_that_only_the_sampler_says_is_that_of_one_process(
    torch: Any, clock: Clock, split: bool, size: int
) -> None:
    found, loader = loading(clock), torch.DataLoader(Data())
    loader.batch_size = None
    loader.batch_sampler = SimpleNamespace(batch_size=8, split_batches=split, num_processes=2)
    trained(iter(loader), clock)
    assert (found.report() or {})["batch_samples"] == size


class Number:
    """As little of numpy as is needed: a number that is no int of Python's."""

    def __init__(self, value: int) -> None:
        self.value = value

    def __int__(self) -> int:
        return self.value

    def __gt__(self, other: int) -> bool:
        return self.value > other


def test_numbers_of_another_kind_and_out_of_bounds_are_told_as_such_that_are_taken(
    torch: Any, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(looked_at, "file_system_of", lambda _folder: "fuse.my+fs")
    found = loading(clock)
    loader = torch.DataLoader(Data(), num_workers=1)
    loader.num_workers, loader.prefetch_factor, loader.batch_size = Number(4), 20_000, True
    trained(iter(loader), clock)
    told = models.LoadingReport.model_validate(found.report())
    assert (told.workers, told.prefetch, told.batch_samples) == (4, 1024, 1)
    assert told.file_system == "fuse.my_fs"


def test_batches_that_take_no_time_are_told_as_the_least_there_is() -> None:
    found = Loading({}, now_us=lambda: 0)
    assert list(found.timed(range(30))) == list(range(30))
    assert models.LoadingReport.model_validate(found.report()).batch_us == 1


class Sized:
    """What a user's own class may be."""

    def __len__(self) -> int:
        raise NotImplementedError

    @property
    def dataset(self) -> Sized:
        return self

    def nbytes(self) -> int:
        return 16


def test_a_batch_and_a_data_set_may_be_anything(torch: Any, clock: Clock) -> None:
    torch.Batch = Sized
    found = loading(clock)
    trained(iter(torch.DataLoader(Sized())), clock)
    told = found.report()
    assert told is not None
    assert told["batches"] == 29
    assert "sample_bytes" not in told


def test_loaders_of_the_past_are_forgotten_but_the_one_that_counts(clock: Clock) -> None:
    found = Loading({}, now_us=clock)
    trainings = found.clock({"workers": 7})
    for _ in range(LEAST):
        trainings.took(batch_us=100, wait_us=0)
    past = [weakref.ref(found.clock({})) for _ in range(1000)]
    gc.collect()
    assert sum(one() is not None for one in past) < 70
    told = found.report()
    assert told is not None
    assert told["workers"] == 7
