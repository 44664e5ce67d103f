"""Whether kernels can be parked is tried once with each driver, and said with a sentence where not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gpucommons.gpu.parking.self_test import ParkAbility
from gpucommons.labextension.parking.ability import Ability, ability

DRIVER = Path("/usr/lib/libcuda.so.580")


class Trials:
    """Self-tests, counted."""

    def __init__(self, because: str = "") -> None:
        self.because = because
        self.loaded: list[Path | None] = []

    def __call__(self, driver: Path, _seconds: float, *, loaded: Path | None) -> ParkAbility:
        assert driver == DRIVER
        self.loaded.append(loaded)
        return ParkAbility(can_park=not self.because, because=self.because)


def found(folder: Path, trials: Trials, **environ: str) -> Ability:
    return ability(environ, folder, find=lambda: DRIVER, test=trials)


def test_it_is_tried_once_for_all_servers_of_a_machine(tmp_path: Path) -> None:
    trials = Trials()
    for gpu in ("GPU-1", "GPU-2"):
        assert found(tmp_path / "new", trials, CUDA_VISIBLE_DEVICES=gpu).driver == DRIVER
    assert len(trials.loaded) == 1


def test_what_failed_is_not_tried_at_each_start(tmp_path: Path) -> None:
    trials = Trials("This driver cannot; NVIDIA's driver 570 or newer can.")
    for _ in range(2):
        assert found(tmp_path, trials) == Ability(because=trials.because)
    assert len(trials.loaded) == 1


def test_a_part_of_a_gpu_is_tried_as_programs_use_it_there(tmp_path: Path) -> None:
    shim = tmp_path / "shim"
    shim.mkdir()
    (shim / "libcuda-real.so.1").touch()
    trials = Trials()
    found(tmp_path, trials)
    found(tmp_path, trials, LD_LIBRARY_PATH=f"/nowhere:{shim}")
    assert trials.loaded == [None, shim / "libcuda.so.1"]


@pytest.mark.parametrize(
    ("driver", "visible", "because"),
    [
        (None, "GPU-1", "There is no driver of NVIDIA here."),
        (DRIVER, "", "This server has no GPU."),
        (DRIVER, "MIG-1", "It uses a part of a card that was cut (MIG), which cannot be parked."),
    ],
)
def test_where_it_cannot_be_nothing_is_tried(
    tmp_path: Path, driver: Path | None, visible: str, because: str
) -> None:
    def never(*_: Any, **__: Any) -> ParkAbility:
        raise AssertionError

    environ = {"CUDA_VISIBLE_DEVICES": visible}
    told = ability(environ, tmp_path, find=lambda: driver, test=never)
    assert told == Ability(because=because)


@pytest.mark.parametrize(
    ("visible", "because"),
    [
        ("void", "This server has no GPU."),
        ("MIG-1", "It uses a part of a card that was cut (MIG), which cannot be parked."),
        ("GPU-1", ""),
    ],
)
def test_in_a_pod_the_runtimes_variable_says_what_it_has(
    tmp_path: Path, visible: str, because: str
) -> None:
    told = found(tmp_path, Trials(), NVIDIA_VISIBLE_DEVICES=visible)
    assert told == Ability(driver=None if because else DRIVER, because=because)


def test_a_note_that_somebody_broke_is_tried_again(tmp_path: Path) -> None:
    trials = Trials()
    (tmp_path / "park-self-test.json").write_text("[]")
    assert found(tmp_path, trials).driver == DRIVER
    assert len(trials.loaded) == 1
