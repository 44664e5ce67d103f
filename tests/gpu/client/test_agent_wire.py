from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpucommons.gpu.client import wire
from gpucommons.gpu.devices.devices import Device, DeviceId
from gpucommons.gpu.devices.driver_versions import driver_version_from
from gpucommons.gpu.slices.slices import DeviceShare, GpuSlice, SliceId
from gpucommons.gpu.slices.usage import CONTENTION, UsageMinute, UsageSample

numbers = st.integers(0, 1 << 40)
unknown = st.none() | numbers
names = st.from_regex(r"[a-z0-9][a-z0-9-]{0,40}", fullmatch=True).map(SliceId)
samples = st.builds(
    UsageSample,
    slice_id=names,
    at_ms=numbers,
    compute_percent=unknown,
    memory_used_mib=unknown,
    memory_limit_mib=numbers,
    processes=unknown,
    contention=st.sampled_from(CONTENTION),
    simulated=st.booleans(),
    active_ms=unknown,
)
minutes = st.builds(
    UsageMinute,
    slice_id=names,
    minute_ms=numbers,
    samples=numbers,
    compute_percent_mean=unknown,
    compute_percent_max=unknown,
    memory_used_mib_max=unknown,
)
devices = st.builds(
    Device,
    device_id=st.text(min_size=1, max_size=40).map(DeviceId),
    index=numbers,
    kind=st.text(max_size=40),
    memory_mib=numbers,
    simulated=st.booleans(),
)
slices = st.builds(
    GpuSlice,
    slice_id=names,
    shares=st.lists(
        st.builds(
            DeviceShare,
            device_id=st.text(min_size=1, max_size=40).map(DeviceId),
            milli_gpu=st.integers(1, 1000),
        ),
        min_size=1,
        max_size=64,
        unique_by=lambda share: share.device_id,
    ).map(tuple),
    memory_mib=st.integers(1, 1 << 30),
)


@given(samples)
def test_a_sample_arrives_as_it_was_sent(sample: UsageSample) -> None:
    line = wire.encode(wire.sample_json(sample))
    assert line.count(b"\n") == 1
    assert wire.sample_from(wire.decode(line)) == sample


@given(minutes)
def test_a_minute_arrives_as_it_was_sent(minute: UsageMinute) -> None:
    assert wire.minute_from(wire.decode(wire.encode(wire.minute_json(minute)))) == minute


@given(devices)
def test_a_device_arrives_as_it_was_sent(device: Device) -> None:
    assert wire.device_from(wire.decode(wire.encode(wire.device_json(device)))) == device


@given(slices)
def test_a_slice_arrives_as_it_was_sent(gpu_slice: GpuSlice) -> None:
    assert wire.slice_from(wire.decode(wire.encode(wire.slice_json(gpu_slice)))) == gpu_slice


def test_an_agent_without_a_door_loads_neither_http_nor_tls() -> None:
    code = (
        "import sys, gpucommons.gpu.agent.__main__;"
        "print(sorted({'ssl', 'http.client', 'http.server', 'grpc'} & sys.modules.keys()))"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout == "[]\n"


@pytest.mark.parametrize(
    ("told", "is_one"),
    [
        ("550.54.15", True),
        ("535.104.05-grid", True),
        ("simulated", True),
        ("", False),
        (None, False),
        (580, False),
        (["580"], False),
        ("5" * 65, False),
        ("=1+1", False),
        ("580\n95", False),
        ("<b>580</b>", False),
        ("580\ud800", False),
    ],
)
def test_a_drivers_version_is_checked_before_it_is_kept_and_shown(
    told: object, is_one: bool
) -> None:
    assert driver_version_from(told) == (told if is_one else "")
