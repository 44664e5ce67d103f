"""Whether kernels can be parked is tried once with each driver, and said with a sentence where not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gpucommons.gpu.parking.self_test import ParkAbility
from gpucommons.labextension.parking.ability import Ability, ability, driver_when_tested

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


def found(folder: Path, trials: Trials, at_s: float = 0.0, **environ: str) -> Ability:
    return ability(environ, folder, find=lambda: DRIVER, test=trials, now_s=lambda: at_s)


def test_it_is_tried_once_for_all_servers_of_a_machine(tmp_path: Path) -> None:
    trials = Trials()
    for gpu in ("GPU-1", "GPU-2"):
        assert found(tmp_path / "new", trials, CUDA_VISIBLE_DEVICES=gpu).driver == DRIVER
    assert len(trials.loaded) == 1


def test_what_failed_is_tried_again_soon_and_then_ever_later(tmp_path: Path) -> None:
    trials = Trials("This driver cannot; NVIDIA's driver 570 or newer can.")
    at_s, tried_s = 0.0, []
    while at_s < 2 * 24 * 3600:
        told = found(tmp_path, trials, at_s)
        assert told.because == trials.because
        tried_s.append(told.again_s)
        at_s += told.again_s or 0.0

    assert tried_s == [60, 240, 960, 3840, 15360, 61440, 86400, 86400]
    assert len(trials.loaded) == len(tried_s)
    # A server that begins meanwhile does not try.
    assert found(tmp_path, trials, at_s - 10).again_s == 10
    assert len(trials.loaded) == len(tried_s)


def test_a_clock_that_was_set_back_does_not_put_it_off(tmp_path: Path) -> None:
    trials = Trials("The driver did not finish within 60 s.")
    found(tmp_path, trials, 1e9)
    assert found(tmp_path, trials, 0.0).again_s == 240
    assert len(trials.loaded) == 2
    found(tmp_path, trials, 239.0)
    assert len(trials.loaded) == 2
    found(tmp_path, trials, 240.0)
    assert len(trials.loaded) == 3


async def test_a_busy_machine_costs_a_server_its_parking_for_a_while_only(tmp_path: Path) -> None:
    trials, now_s, said = Trials("The small process did not start."), [0.0], list[str]()

    async def sleep(seconds: float) -> None:
        now_s[0] += seconds
        if now_s[0] > 1000:
            trials.because = ""

    driver = await driver_when_tested(
        lambda: found(tmp_path, trials, now_s[0]), say=said.append, sleep=sleep
    )

    assert driver == DRIVER
    assert said == ["The small process did not start."]
    assert found(tmp_path, Trials("It is not asked again."), now_s[0]).driver == DRIVER


async def test_where_it_can_never_be_nobody_waits(tmp_path: Path) -> None:
    async def never(_seconds: float) -> None:
        raise AssertionError

    told = Ability(because="This server has no GPU.")
    assert await driver_when_tested(lambda: told, say=lambda _why: None, sleep=never) is None


def test_a_disk_that_is_full_costs_the_note_alone(tmp_path: Path) -> None:
    (tmp_path / "no-folder").touch()
    assert found(tmp_path / "no-folder", Trials()).driver == DRIVER


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
