"""Shares of devices: text at the edge, memory of a share, names of models."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpucommons.gpu.devices.devices import Device, DeviceId
from gpucommons.gpu.devices.kinds import kind_of, memory_mib_of
from gpucommons.gpu.slices.memory_of_share import share_memory_mib
from gpucommons.gpu.slices.slices import format_milli_gpu, parse_milli_gpu


@given(st.integers(0, 10_000_000))
def test_every_share_reads_back_as_it_was_written(milli: int) -> None:
    assert parse_milli_gpu(format_milli_gpu(milli)) == milli
    assert parse_milli_gpu(f"{milli}m") == milli


@pytest.mark.parametrize(
    ("text", "milli"),
    [
        ("½", 500),
        ("1½", 1500),
        ("1 1/2", 1500),
        ("0.5", 500),
        ("1/2", 500),
        ("500m", 500),
        ("4", 4000),
        (" ¼ ", 250),
    ],
)
def test_shares_are_read_the_way_people_write_them(text: str, milli: int) -> None:
    assert parse_milli_gpu(text) == milli


@pytest.mark.parametrize(
    "text",
    [
        "",
        "half",
        "-1",
        "0.0005",
        "1/0",
        "1 1/0",
        "1 2",
        "1/3",
        "½½",
        "nan",
        "inf",
        "1e999999m",
        "1e999999999",
        "9" * 99,
        "m",
        "0x4",
    ],
)
def test_what_is_no_share_is_refused_with_a_sentence(text: str) -> None:
    with pytest.raises(ValueError, match="is not a number of GPUs"):
        parse_milli_gpu(text)


@given(memory=st.integers(1024, 300_000), parts=st.lists(st.integers(1, 1000), max_size=20))
def test_shares_of_a_card_never_come_to_more_than_the_card(memory: int, parts: list[int]) -> None:
    device = Device(device_id=DeviceId("d"), index=0, kind="K-1", memory_mib=memory)
    taken: list[int] = []
    for part in parts:
        if sum(taken) + part <= 1000:
            taken.append(part)
    assert sum(share_memory_mib(device, one) for one in taken) <= memory - device.reserve_mib


@pytest.mark.parametrize(
    ("name", "memory_mib", "kind"),
    [
        ("NVIDIA A100-SXM4-40GB", 40960, "A100-40"),
        ("NVIDIA A100-PCIE-40GB", 40536, "A100-40"),
        ("NVIDIA A100 80GB PCIe", 81920, "A100-80"),
        ("NVIDIA H100 80GB HBM3", 81559, "H100-80"),
        ("NVIDIA H200", 143771, "H200-140"),
        ("Tesla T4", 15360, "T4-15"),
        ("NVIDIA GeForce RTX 4090", 24564, "RTX-4090-24"),
        ("NVIDIA RTX A6000", 49140, "RTX-A6000-48"),
        ("", 2048, "GPU-2"),
    ],
)
def test_kinds_are_model_and_memory(name: str, memory_mib: int, kind: str) -> None:
    assert kind_of(name, memory_mib) == kind
    assert memory_mib_of(kind) > 0


@given(name=st.text(max_size=96), memory_mib=st.integers(0, 1 << 20))
def test_every_name_of_a_card_gives_a_kind(name: str, memory_mib: int) -> None:
    assert memory_mib_of(kind_of(name, memory_mib)) > 0
