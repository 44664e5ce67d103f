from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gpucommons.gpu.slices.slices import SliceId
from gpucommons.gpu.slices.usage import UsageSample
from gpucommons.gpu.slices.usage_minutes import KEPT_MINUTES, MINUTE_MS, UsageMinutes


def sample(at_ms: int, compute: int | None, memory: int | None, name: str = "s") -> UsageSample:
    return UsageSample(
        slice_id=SliceId(name),
        at_ms=at_ms,
        compute_percent=compute,
        memory_used_mib=memory,
        memory_limit_mib=1000,
        processes=1,
    )


def test_a_minute_is_there_when_it_is_over() -> None:
    minutes = UsageMinutes()
    minutes.add(sample(60_000, 10, 100))
    minutes.add(sample(119_999, 20, 50))
    assert minutes.after(-1, now_ms=119_999) == ()
    (minute,) = minutes.after(-1, now_ms=120_000)
    assert (minute.minute_ms, minute.samples) == (60_000, 2)
    assert (minute.compute_percent_mean, minute.compute_percent_max) == (15, 20)
    assert minute.memory_used_mib_max == 100


def test_a_minute_without_numbers_has_none() -> None:
    minutes = UsageMinutes()
    minutes.add(sample(0, None, None))
    (minute,) = minutes.after(-1, now_ms=MINUTE_MS)
    assert minute.samples == 1
    assert minute.compute_percent_mean is None
    assert minute.compute_percent_max is None
    assert minute.memory_used_mib_max is None


def test_the_last_minute_seen_is_not_given_again() -> None:
    minutes = UsageMinutes()
    for minute in range(3):
        minutes.add(sample(minute * MINUTE_MS, 1, 1))
    starts = [m.minute_ms for m in minutes.after(0, now_ms=3 * MINUTE_MS)]
    assert starts == [MINUTE_MS, 2 * MINUTE_MS]


def test_old_minutes_are_forgotten() -> None:
    minutes = UsageMinutes()
    for minute in range(500):
        minutes.add(sample(minute * MINUTE_MS, 1, 1))
    assert len(minutes.after(-1, now_ms=500 * MINUTE_MS)) == KEPT_MINUTES + 1


samples = st.tuples(
    st.integers(0, 10 * MINUTE_MS),
    st.none() | st.integers(0, 100),
    st.none() | st.integers(0, 9999),
    st.sampled_from("ab"),
)


@given(st.lists(samples, max_size=60).map(lambda s: sorted(s, key=lambda t: t[0])))
def test_rollups_are_those_of_all_samples_at_once(
    given_samples: list[tuple[int, int | None, int | None, str]],
) -> None:
    minutes = UsageMinutes()
    for at_ms, compute, memory, name in given_samples:
        minutes.add(sample(at_ms, compute, memory, name))
    rows = {(m.minute_ms, m.slice_id): m for m in minutes.after(-1, now_ms=100 * MINUTE_MS)}
    assert rows.keys() == {(at - at % MINUTE_MS, name) for at, _, _, name in given_samples}
    for (start, name), row in rows.items():
        mine = [s for s in given_samples if s[3] == name and s[0] - s[0] % MINUTE_MS == start]
        compute = [c for _, c, _, _ in mine if c is not None]
        memory = [m for _, _, m, _ in mine if m is not None]
        assert row.samples == len(mine)
        assert row.compute_percent_mean == (sum(compute) // len(compute) if compute else None)
        assert row.compute_percent_max == (max(compute) if compute else None)
        assert row.memory_used_mib_max == (max(memory) if memory else None)
