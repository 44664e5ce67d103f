"""Every way to get device memory is counted, and every way in which it ends."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gpucommons.gpu import shim

MIB = 1 << 20
DENIED, INVALID, NOT_SUPPORTED = 2, 1, 801
KEEP = (1 << 64) - 1
THRESHOLD = 4
#: CUmemAllocationProp: pinned memory, on the device, or on the host.
ON_DEVICE = struct.pack("<iiii16x", 1, 0, 1, 0).hex()
ON_HOST = struct.pack("<iiii16x", 1, 0, 2, 0).hex()
FLOAT = 0x20


@pytest.fixture
def program(client: Callable[..., Any]) -> Any:
    return client()


@pytest.fixture
def used_mib(a_slice: Path) -> Callable[[], float]:
    def used() -> float:
        view = shim.read_ledger(a_slice)
        assert view is not None
        return view.used_bytes / MIB

    return used


@pytest.mark.parametrize(
    ("call", "after"),
    [
        ("cuMemAlloc_v2", []),
        ("cuMemAllocManaged", [1]),
        ("cuMemAllocAsync", [0]),
        ("cuMemAllocAsync_ptsz", [0]),
    ],
)
@pytest.mark.parametrize("end", ["cuMemFree_v2", "cuMemFreeAsync", "cuMemFreeAsync_ptsz"])
def test_memory_is_counted_until_it_is_freed_by_any_name(
    program: Any, used_mib: Callable[[], float], call: str, after: list[int], end: str
) -> None:
    answer, address = program(call, "out", 1000 * MIB, *after)
    assert (answer, used_mib()) == (0, 1000)
    assert program(call, "out", 3097 * MIB, *after)[0] == DENIED

    assert program(end, address, *([0] if "Async" in end else [])) == [0]
    program("cuCtxSynchronize")
    assert used_mib() == 0


def test_a_pitch_is_counted_as_wide_as_the_driver_makes_it(
    program: Any, used_mib: Callable[[], float]
) -> None:
    # 513 bytes a row take 1024.
    answer, address, pitch = program("cuMemAllocPitch_v2", "out", "out", 513, 1 << 20, 4)
    assert (answer, pitch, used_mib()) == (0, 1024, 1024)

    program.free(address)
    assert used_mib() == 0
    assert program("cuMemAllocPitch_v2", "out", "out", 1 << 40, 1 << 40, 4)[0] == DENIED


def test_what_the_driver_refuses_is_not_counted(
    program: Any, used_mib: Callable[[], float]
) -> None:
    assert program("cuMemAlloc_v2", "out", 0)[0] == INVALID
    assert program("cuMemAlloc_v2", "out", KEEP)[0] == DENIED
    assert program("cuMemFree_v2", 0) == [INVALID]
    assert used_mib() == 0


def test_memory_of_the_host_is_not_counted(program: Any, used_mib: Callable[[], float]) -> None:
    assert program("cuMemHostAlloc", "out", 64 * MIB, 0)[0] == 0
    assert program("cuMemCreate", "out", 8000 * MIB, ON_HOST, 0)[0] == 0
    assert used_mib() == 0


# --- memory apart from addresses ---------------------------------------------------------------


def test_created_memory_is_counted_before_it_has_an_address(
    program: Any, used_mib: Callable[[], float]
) -> None:
    answer, handle = program("cuMemCreate", "out", 3000 * MIB, ON_DEVICE, 0)

    assert (answer, used_mib()) == (0, 3000)
    assert program("cuMemCreate", "out", 2000 * MIB, ON_DEVICE, 0)[0] == DENIED
    assert program("cuMemRelease", handle) == [0]
    assert used_mib() == 0


def test_it_lives_as_long_as_a_handle_or_a_mapping(
    program: Any, used_mib: Callable[[], float]
) -> None:
    _, handle = program("cuMemCreate", "out", 1000 * MIB, ON_DEVICE, 0)
    assert program("cuMemMap", 1 << 40, 1000 * MIB, 0, handle, 0) == [0]
    assert program("cuMemMap", 2 << 40, 1000 * MIB, 0, handle, 0) == [0]

    _, again = program("cuMemRetainAllocationHandle", "out", (2 << 40) + 5)
    assert again == handle
    assert program("cuMemRelease", handle) == [0]
    assert program("cuMemUnmap", 1 << 40, 1000 * MIB) == [0]
    assert program("cuMemUnmap", 2 << 40, 1000 * MIB) == [0]
    assert used_mib() == 1000
    assert program("cuMemRelease", again) == [0]
    assert used_mib() == 0


def test_a_mapping_outlives_its_handle(program: Any, used_mib: Callable[[], float]) -> None:
    _, handle = program("cuMemCreate", "out", 1000 * MIB, ON_DEVICE, 0)
    program("cuMemMap", 1 << 40, 1000 * MIB, 0, handle, 0)

    assert program("cuMemRelease", handle) == [0]
    assert used_mib() == 1000
    assert program("cuMemUnmap", 1 << 40, 1000 * MIB) == [0]
    assert used_mib() == 0


def test_one_call_unmaps_what_lies_side_by_side(
    program: Any, used_mib: Callable[[], float]
) -> None:
    for number in range(3):
        _, handle = program("cuMemCreate", "out", 2 * MIB, ON_DEVICE, 0)
        program("cuMemMap", (1 << 40) + number * 2 * MIB, 2 * MIB, 0, handle, 0)
        program("cuMemRelease", handle)
    assert used_mib() == 6

    program("cuMemUnmap", 1 << 40, 6 * MIB)
    assert used_mib() == 0


def test_an_import_is_its_creators_and_noted(
    program: Any, used_mib: Callable[[], float], a_slice: Path
) -> None:
    assert program("cuMemImportFromShareableHandle", "out", 7, 1)[0] == 0
    view = shim.read_ledger(a_slice)

    assert view is not None
    assert (view.used_bytes, view.uncounted) == (0, 1)


# --- pools -------------------------------------------------------------------------------------


def test_a_pool_is_charged_what_it_keeps(program: Any, used_mib: Callable[[], float]) -> None:
    _, pool = program("cuMemPoolCreate", "out", 0)
    program("cuMemPoolSetAttribute", pool, THRESHOLD, KEEP.to_bytes(8, "little").hex())
    _, first = program("cuMemAllocFromPoolAsync", "out", 3000 * MIB, pool, 0)
    program("cuMemFreeAsync", first, 0)
    program("cuCtxSynchronize")

    assert used_mib() == 3000  # empty, and still its
    assert not program.alloc(2000)
    _, second = program("cuMemAllocFromPoolAsync", "out", 2500 * MIB, pool, 0)
    assert second
    assert used_mib() == 3000  # out of what it kept
    program("cuMemFreeAsync", second, 0)
    program("cuMemPoolTrimTo", pool, 500 * MIB)
    assert used_mib() == 500
    program("cuMemPoolDestroy", pool)
    assert used_mib() == 0


def test_what_a_pool_gave_back_unseen_is_found_before_a_refusal(
    program: Any, used_mib: Callable[[], float]
) -> None:
    _, address = program("cuMemAllocAsync", "out", 3000 * MIB, 0)
    program("cuMemFreeAsync", address, 0)
    assert not program.alloc(3000)  # nobody has synchronised

    program("cuFakeTrimUnseen")
    assert used_mib() == 3000
    assert program.alloc(3000)


# --- arrays ------------------------------------------------------------------------------------


def test_arrays_are_counted_by_their_elements(program: Any, used_mib: Callable[[], float]) -> None:
    flat = struct.pack("<QQII", 1024, 1024, FLOAT, 2).hex()
    deep = struct.pack("<QQQIII", 1024, 1024, 4, FLOAT, 1, 0).hex()
    levels = struct.pack("<QQQIII", 1024, 1024, 0, FLOAT, 1, 0).hex()
    arrays = [
        program("cuArrayCreate_v2", "out", flat)[1],
        program("cuArray3DCreate_v2", "out", deep)[1],
    ]
    assert used_mib() == 8 + 16
    _, mipmap = program("cuMipmappedArrayCreate", "out", levels, 2)
    assert used_mib() == 8 + 16 + 5

    for array in arrays:
        assert program("cuArrayDestroy", array) == [0]
    assert program("cuMipmappedArrayDestroy", mipmap) == [0]
    assert used_mib() == 0


@pytest.mark.parametrize("width", [1 << 20, 1 << 62])
def test_too_large_an_array_is_denied(program: Any, width: int) -> None:
    shape = struct.pack("<QQQIII", width, 1024, 1024, FLOAT, 4, 0).hex()

    assert program("cuArray3DCreate_v2", "out", shape)[0] == DENIED


# --- contexts, old names, and what programs are told -------------------------------------------


def test_a_reset_of_the_device_ends_what_its_context_held(
    program: Any, used_mib: Callable[[], float]
) -> None:
    program("cuDevicePrimaryCtxRetain", "out", 0)
    program.alloc(1000)
    program("cuArrayCreate_v2", "out", struct.pack("<QQII", 1024, 1024, FLOAT, 1).hex())
    assert used_mib() == 1004

    assert program("cuDevicePrimaryCtxReset_v2", 0) == [0]
    assert used_mib() == 0


@pytest.mark.parametrize("name", ["cuMemAlloc", "cuMemAllocPitch", "cuArrayCreate"])
def test_the_calls_of_32_bit_times_are_refused(program: Any, name: str) -> None:
    assert program(name, "out", 8) == [NOT_SUPPORTED, 0]


def test_the_card_is_as_large_as_the_slice(program: Any) -> None:
    assert program("cuDeviceTotalMem_v2", "out", 0) == [0, 4096 * MIB]
    program.alloc(1000)
    assert program("cuMemGetInfo_v2", "out", "out") == [0, 3096 * MIB, 4096 * MIB]


def test_the_card_may_be_shown_larger_than_what_can_be_allocated(
    program: Any, a_slice: Path
) -> None:
    """Contexts take their part of the slice: the card's size must not change with them."""
    shim.resize(a_slice, 3584 * MIB, total_bytes=4096 * MIB)

    assert program("cuDeviceTotalMem_v2", "out", 0) == [0, 4096 * MIB]
    assert program("cuMemGetInfo_v2", "out", "out") == [0, 3584 * MIB, 4096 * MIB]
    assert not program.alloc(3585)
    assert program.alloc(3584)


def test_no_more_is_free_than_the_card_has(client: Callable[..., Any], program: Any) -> None:
    neighbour = client(None)  # not in the slice
    assert neighbour.alloc(14 << 10)

    assert program("cuMemGetInfo_v2", "out", "out") == [0, 2048 * MIB, 4096 * MIB]
