"""The self-test says what really works, and withdraws the offer where it does not."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from gpucommons.gpu.parking.self_test import self_test

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux parks processes")


def test_where_it_works_it_measures(parking_driver: Path, parking_card: Any) -> None:
    ability = self_test(parking_driver)

    assert ability.can_park, ability.because
    assert ability.park_mib_per_s > 0 < ability.unpark_mib_per_s


@pytest.mark.parametrize(
    ("env", "sentence"),
    [
        ({"FAKE_CUDA_NO_CARD": "1"}, "The GPU cannot be used here (cuInit: 100)."),
        ({"FAKE_CUDA_MPS": "1"}, "This GPU or its driver cannot."),
        ({"FAKE_CUDA_MIG": "1"}, "There is not enough memory for it."),
    ],
)
def test_what_fails_withdraws_the_offer(
    parking_driver: Path,
    parking_card: Any,
    monkeypatch: pytest.MonkeyPatch,
    env: dict[str, str],
    sentence: str,
) -> None:
    for name, value in env.items():
        monkeypatch.setenv(name, value)

    ability = self_test(parking_driver)

    assert (ability.can_park, ability.because) == (False, sentence)


def test_without_a_driver_nothing_is_started() -> None:
    assert self_test(None).because == "There is no driver of NVIDIA here."
