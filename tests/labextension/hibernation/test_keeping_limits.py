from __future__ import annotations

import pytest

from gpucommons.labextension.hibernation.keeping_limits import (
    DAY_MS,
    SPARE_DISK_BYTES,
    Candidate,
    Limits,
    limits_of,
    refused,
)

GIB = 1 << 30
PLENTY = 1 << 50


def kernel(name: str, gib: int, used: str = "2026-11-24T10:00:00Z") -> Candidate:
    return Candidate(kernel_id=name, bytes=gib * GIB, last_activity=used)


def test_kernels_within_the_limit_are_all_kept() -> None:
    limits = Limits(most_bytes=10 * GIB)

    assert refused([kernel("a", 5), kernel("b", 5)], limits, free_bytes=PLENTY) == {}


def test_what_was_used_last_is_kept_first() -> None:
    older, newer = kernel("older", 6, "2026-11-23"), kernel("newer", 6, "2026-11-24")

    reasons = refused([older, newer], Limits(most_bytes=10 * GIB), free_bytes=PLENTY)

    assert reasons == {
        "older": "Its memory (6.0 GiB) is more than what may be kept"
        " (10.0 GiB for all kernels of your servers)."
    }


def test_what_other_servers_keep_leaves_less_room() -> None:
    limits = Limits(most_bytes=10 * GIB)
    kernels = [kernel("a", 5)]

    assert refused(kernels, limits, free_bytes=PLENTY, elsewhere_bytes=5 * GIB) == {}
    assert list(refused(kernels, limits, free_bytes=PLENTY, elsewhere_bytes=6 * GIB)) == ["a"]


def test_a_smaller_one_is_kept_where_a_larger_one_has_no_room() -> None:
    large, small = kernel("large", 20, "2026-11-24"), kernel("small", 1, "2026-11-23")

    assert list(refused([large, small], Limits(most_bytes=10 * GIB), free_bytes=PLENTY)) == [
        "large"
    ]


def test_the_disk_is_not_filled() -> None:
    reasons = refused([kernel("a", 2)], Limits(), free_bytes=2 * GIB + SPARE_DISK_BYTES - 1)

    assert reasons == {"a": "The disk has no room for its memory (2.0 GiB)."}


def test_kernels_are_kept_for_days() -> None:
    assert Limits(days=2).kept_until_ms(1000) == 1000 + 2 * DAY_MS


@pytest.mark.parametrize(
    ("environ", "allowed", "days"),
    [
        ({}, True, 21),
        ({"GPUCOMMONS_HIBERNATE_KERNELS": "0"}, False, 21),
        ({"GPUCOMMONS_KERNELS_KEPT_DAYS": "3"}, True, 3),
        ({"GPUCOMMONS_KERNELS_KEPT_DAYS": "0"}, False, 0),
        ({"GPUCOMMONS_KERNELS_KEPT_DAYS": "-3"}, True, 21),
        ({"GPUCOMMONS_KERNELS_KEPT_DAYS": "soon"}, True, 21),
    ],
)
def test_an_admin_sets_limits_by_environment(
    environ: dict[str, str], allowed: bool, days: int
) -> None:
    is_allowed, limits = limits_of(environ)

    assert (is_allowed, limits.days) == (allowed, days)


@pytest.mark.parametrize(
    ("own", "of_pool", "days"), [(None, 60, 60), ("3", 60, 3), ("30", 7, 7), (None, None, 21)]
)
def test_of_the_server_and_its_pool_the_shorter_time_counts(
    own: str | None, of_pool: int | None, days: int
) -> None:
    environ = {"GPUCOMMONS_KERNELS_KEPT_DAYS": own} if own else {}

    _, limits = limits_of(environ, pool_days=of_pool, pool_gib=2)

    assert (limits.days, limits.most_bytes) == (days, 2 * GIB)


def test_a_kernel_whose_day_is_over_is_said_to_have_been_kept_for_one() -> None:
    assert Limits(days=1).over == "It was kept for one day, and that is over."
