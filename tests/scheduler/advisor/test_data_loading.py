"""Whether a training waits for its data, and what is advised: never more than was timed."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpucommons.scheduler.advisor.data_loading import (
    LoadingAdvice,
    LoadingQuestion,
    advise_loading,
)
from gpucommons.scheduler.data_loading import Loading
from gpucommons.scheduler.models.plans.loading_words import hint_text

#: Without workers: 40 ms of computing, 120 ms of loading.
ALONE = Loading(
    batches=200, batch_us=160_000, wait_us=120_000, late_percent=100, workers=0, cores=16
)


def advised(loading: Loading | None, **changes: object) -> LoadingAdvice:
    asked = LoadingQuestion(loading=loading, cpu_milli=8000, memory_mib=16_384)
    return advise_loading(replace(asked, **changes))  # type: ignore[arg-type]


def kinds(advice: LoadingAdvice) -> list[str]:
    return [hint.kind for hint in advice.hints]


def test_nothing_is_said_of_what_was_not_timed() -> None:
    assert advised(None) == LoadingAdvice(verdict="unknown")


def test_so_many_workers_are_advised_as_keep_up_with_computing() -> None:
    found = advised(ALONE)
    assert (found.verdict, found.workers, found.prefetch) == ("bound", 3, 2)
    assert (found.low_us, found.high_us) == (40_000, 44_000)
    assert kinds(found) == []


def test_no_more_workers_than_the_job_has_cores_for_each_of_its_processes() -> None:
    found = advised(ALONE, cpu_milli=2000)
    assert (found.workers, kinds(found)) == (2, ["cores"])
    assert found.hints[0].values == ("2", "3")
    assert found.low_us == 60_000
    shared = advised(replace(ALONE, processes=4))
    assert (shared.workers, shared.hints[0].values) == (2, ("2", "3"))
    few = advised(replace(ALONE, cores=2))
    assert (few.workers, kinds(few), few.hints[0].values) == (2, ["node"], ("2", "3"))


def test_where_the_cores_are_used_already_more_cores_are_named_and_nothing_is_set() -> None:
    busy = replace(ALONE, workers=2, batch_us=60_000, wait_us=20_000)
    found = advised(busy, cpu_milli=2000)
    assert (found.workers, kinds(found)) == (None, ["cores"])


def test_a_short_wait_is_none_and_busy_gpus_have_work_whatever_the_script_waits() -> None:
    assert advised(replace(ALONE, wait_us=15_999)).verdict == "fine"
    assert advised(replace(ALONE, wait_us=16_000)).verdict == "bound"
    assert advised(ALONE, gpu_busy=0.9).verdict == "busy"
    assert advised(ALONE, gpu_busy=0.89).verdict == "bound"


def test_few_late_batches_are_evened_out_by_batches_ahead() -> None:
    uneven = replace(ALONE, workers=4, prefetch=2, batch_us=50_000, wait_us=10_000, late_percent=5)
    found = advised(uneven)
    assert (found.workers, found.prefetch) == (4, 4)
    large = replace(uneven, sample_bytes=2**20, batch_samples=256)
    assert advised(large).prefetch is None
    assert advised(replace(uneven, prefetch=8)).prefetch is None


def test_a_stream_and_other_loaders_are_left_to_the_script() -> None:
    assert kinds(advised(replace(ALONE, stream=True))) == ["stream"]
    assert kinds(advised(replace(ALONE, workers=None))) == ["loader"]
    assert advised(replace(ALONE, stream=True)).workers is None


def test_workers_of_a_keras_dataset_are_named_for_its_script_and_never_set() -> None:
    keras = replace(ALONE, made_by="keras_dataset")
    found = advised(keras)
    assert (found.workers, found.prefetch) == (None, None)
    assert [(one.kind, one.values) for one in found.hints] == [("keras_dataset", ("3",))]
    few = advised(keras, cpu_milli=2000)
    assert [(one.kind, one.values) for one in few.hints] == [
        ("keras_dataset", ("2",)), ("cores", ("2", "3")),
    ]  # fmt: skip
    enough = replace(keras, workers=3, batch_us=44_000, wait_us=5_000)
    assert advised(enough, cpu_milli=4000).workers is None


def test_as_many_workers_as_there_are_cores_are_not_said_to_keep_up_where_more_are_needed() -> None:
    loading = replace(ALONE, batch_us=90_000, wait_us=80_000, made_by="keras_dataset")
    said = [hint_text(one.kind, one.values) for one in advised(loading, cpu_milli=2000).hints]
    assert "PyDataset(workers=2) it would wait less" in said[0]
    assert "2 of the 8 cores that it would need to keep up" in said[1]


def test_what_keras_makes_of_arrays_gets_no_workers_of_torch() -> None:
    found = advised(replace(ALONE, made_by="keras", workers=None))
    assert (found.workers, kinds(found)) == (None, ["keras"])


def test_data_that_fits_the_memory_may_stay_there_and_remote_files_may_come_nearer() -> None:
    fits = replace(ALONE, samples=50_000, sample_bytes=100_000, file_system="nfs4")
    found = advised(fits, far_from_data=True)
    assert kinds(found) == ["cache", "remote", "far"]
    assert found.hints[0].values == ("4.7", "16.0")
    assert kinds(advised(replace(fits, samples=100_000))) == ["remote"]
    two = replace(fits, samples=60_000, processes=2)
    assert kinds(advised(two, memory_mib=20_480)) == ["remote"]


@pytest.mark.parametrize("name", ["fuse.s3fs", "lustre", "9p"])
def test_what_comes_over_a_network_is_known_by_its_file_system(name: str) -> None:
    assert kinds(advised(replace(ALONE, file_system=name))) == ["remote"]
    assert kinds(advised(replace(ALONE, file_system="ext4"))) == []


@given(
    batch_us=st.integers(1, 10**9),
    part=st.floats(0, 1),
    workers=st.integers(0, 200) | st.none(),
    cpu_milli=st.integers(1, 256_000),
    late=st.integers(0, 100),
)
def test_what_is_advised_is_never_slower_than_now_nor_more_than_the_cores(
    batch_us: int, part: float, workers: int | None, cpu_milli: int, late: int
) -> None:
    loading = replace(
        ALONE,
        batch_us=batch_us,
        wait_us=int(batch_us * part),
        workers=workers,
        cores=None,
        late_percent=late,
    )
    found = advised(loading, cpu_milli=cpu_milli)
    if found.workers is not None:
        assert found.workers <= max(1, cpu_milli // 1000, workers or 0)
        assert 0 < found.low_us <= found.high_us <= max(batch_us, found.low_us)
        assert found.low_us <= batch_us
