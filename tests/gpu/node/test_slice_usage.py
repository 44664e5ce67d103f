from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gpucommons.gpu.devices.devices import DeviceId
from gpucommons.gpu.node.slice_usage import Look, sample_of
from gpucommons.gpu.node.telemetry import DeviceReading, ProcessReading
from gpucommons.gpu.slices.slices import DeviceShare, GpuSlice, SliceId
from gpucommons.gpu.slices.usage import UsageSample

G0, G1 = DeviceId("g0"), DeviceId("g1")


def held(*milli: int) -> GpuSlice:
    shares = tuple(
        DeviceShare(device_id=device, milli_gpu=part)
        for device, part in zip((G0, G1), milli, strict=False)
    )
    return GpuSlice(slice_id=SliceId("s"), shares=shares, memory_mib=1000)


def process(pid: int, *, mib: int | None = 10, milli: int | None = 0) -> ProcessReading:
    return ProcessReading(pid=pid, memory_mib=mib, compute_milli_gpu=milli)


def sample(
    gpu_slice: GpuSlice, *readings: DeviceReading, shared: frozenset[DeviceId] = frozenset()
) -> UsageSample:
    by_device = dict(zip((G0, G1), readings, strict=False))
    return sample_of(gpu_slice, (1, 2), Look(at_ms=5, readings=by_device, shared=shared))


def test_compute_is_that_of_the_share_and_memory_that_of_own_processes() -> None:
    reading = DeviceReading(
        processes=(process(1, mib=100, milli=200), process(2, mib=50), process(9, mib=7, milli=700))
    )
    got = sample(held(500), reading)
    assert (got.compute_percent, got.memory_used_mib, got.processes) == (40, 150, 2)
    assert got.contention == "high"


def test_more_than_the_share_is_all_of_it() -> None:
    assert (
        sample(held(250), DeviceReading(processes=(process(1, milli=900),))).compute_percent == 100
    )


def test_two_devices_are_averaged_and_a_process_on_both_counts_once() -> None:
    one = DeviceReading(processes=(process(1, milli=1000),))
    idle = DeviceReading(processes=(process(1, milli=0),))
    got = sample(held(1000, 1000), one, idle)
    assert (got.compute_percent, got.processes, got.contention) == (50, 1, "alone")


def test_a_device_that_says_nothing_makes_the_slice_unknown() -> None:
    got = sample(held(1000, 1000), DeviceReading(processes=()))
    assert (got.compute_percent, got.memory_used_mib, got.processes) == (None, None, None)


def test_a_whole_device_without_numbers_per_process_uses_the_devices() -> None:
    reading = DeviceReading(compute_percent=42, processes=(process(1, mib=None, milli=None),))
    got = sample(held(1000), reading)
    assert (got.compute_percent, got.memory_used_mib, got.processes) == (42, None, 1)
    assert sample(held(500), reading).compute_percent is None


def test_contention_is_a_word() -> None:
    def word(milli: int | None, *, shared: bool = False) -> str:
        reading = DeviceReading(processes=(process(9, milli=milli),))
        return sample(
            held(500), reading, shared=frozenset({G0}) if shared else frozenset()
        ).contention

    assert [word(0), word(299), word(300), word(700)] == ["low", "low", "medium", "high"]
    assert word(None) == "unknown"
    alone = DeviceReading(processes=())
    assert sample(held(500), alone).contention == "alone"
    assert sample(held(500), alone, shared=frozenset({G0})).contention == "low"
    assert sample(held(500), DeviceReading(), shared=frozenset({G0})).contention == "unknown"


numbers = st.none() | st.integers(0, 1000)
processes = st.lists(
    st.builds(
        ProcessReading,
        pid=st.integers(1, 4),
        memory_mib=st.none() | st.integers(0, 10_000),
        compute_milli_gpu=numbers,
    ),
    max_size=5,
    unique_by=lambda p: p.pid,
).map(tuple)
readings = st.builds(
    DeviceReading,
    compute_percent=st.none() | st.integers(0, 100),
    memory_used_mib=st.none() | st.integers(0, 10_000),
    processes=st.none() | processes,
)


@given(readings=st.lists(readings, min_size=0, max_size=2), milli=st.sampled_from([125, 500, 1000]))
def test_unknown_never_becomes_zero_and_known_stays_in_range(
    readings: list[DeviceReading], milli: int
) -> None:
    gpu_slice = held(milli, milli)
    got = sample(gpu_slice, *readings)
    own = [[p for p in r.processes or () if p.pid in (1, 2)] for r in readings]
    lists_known = len(readings) == 2 and all(r.processes is not None for r in readings)
    memory_known = lists_known and all(p.memory_mib is not None for ps in own for p in ps)
    compute_known = lists_known and all(p.compute_milli_gpu is not None for ps in own for p in ps)
    assert (got.processes is not None) == lists_known
    assert (got.memory_used_mib is not None) == memory_known
    if compute_known:
        assert got.compute_percent is not None
    elif milli < 1000:
        assert got.compute_percent is None
    assert got.compute_percent is None or 0 <= got.compute_percent <= 100
