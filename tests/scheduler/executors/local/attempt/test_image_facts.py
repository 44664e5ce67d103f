"""What a job's own files say of its image: believed only where it can be so."""

from __future__ import annotations

from typing import Any

import pytest

from gpucommons.scheduler.core.model.going_on import ProcessImage
from gpucommons.scheduler.working_folder.reported_image import image_facts, process_image

TRUE = {"size_bytes": 3 << 20, "save_ms": 40, "sha256": "0" * 64}


def test_an_image_is_described_by_its_size_its_time_and_its_checksum() -> None:
    assert image_facts({**TRUE, "more": 1}) == TRUE
    assert process_image({**TRUE, "user": "ann"}) == ProcessImage(user="ann", **TRUE)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "lie",
    [
        {"size_bytes": 10**400},
        {"size_bytes": -(10**15)},
        {"size_bytes": True},
        {"size_bytes": "x"},
        {"save_ms": None},
        {"sha256": "0" * 63},
        {"sha256": "../" * 22},
        {"sha256": 7},
    ],
    ids=str,
)
def test_what_cannot_be_so_is_no_image(lie: dict[str, Any]) -> None:
    assert image_facts({**TRUE, **lie}) is None
    assert process_image({**TRUE, "user": "ann", **lie}) is None


def test_nobody_is_named_by_what_is_no_name() -> None:
    assert process_image({**TRUE, "user": ["ann"]}) is None
