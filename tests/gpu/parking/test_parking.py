"""A real process loses the GPU for a while and nothing else; what the driver refuses has a sentence."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from gpucommons.gpu.parking import driver, errand, processes, refusals
from gpucommons.gpu.parking.driver import Code, DriverRefused
from gpucommons.gpu.parking.parking import (
    ERRAND,
    NotParked,
    Parked,
    Patience,
    Unparked,
    park,
    unpark,
)
from tests.gpu.parking.conftest import Start, ask, line

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux parks processes")


def test_a_parked_process_holds_no_gpu_and_finds_its_memory_again(
    parking_driver: Path, parking_card: Any, start: Start
) -> None:
    program = start()
    assert parking_card.used_mib == 8

    parked = park(parking_driver, [program.pid])
    ask(program)

    assert isinstance(parked, Parked), parked
    assert parked.pids == (program.pid,)
    assert parking_card.used_mib == 0
    # Who parks what is parked changes nothing.
    assert isinstance(park(parking_driver, [program.pid]), Parked)
    unparked = unpark(parking_driver, [program.pid])
    assert isinstance(unparked, Unparked), unparked
    # The step that it was asked for meanwhile waited, and found what was there.
    assert line(program) == "1 0000"
    assert parking_card.used_mib == 8
    assert isinstance(unpark(parking_driver, [program.pid]), Unparked)


def test_what_holds_nothing_of_a_gpu_is_left_alone(parking_driver: Path, parking_card: Any) -> None:
    answer = park(parking_driver, [os.getpid()])

    assert answer == NotParked(because=refusals.NO_GPU_MEMORY, holds_nothing=True)


def test_what_was_forked_from_it_stands_in_nobodys_way(
    parking_driver: Path, parking_card: Any, start: Start
) -> None:
    program = start("forks")
    children = Path(f"/proc/{program.pid}/task/{program.pid}/children").read_text().split()

    parked = park(parking_driver, [program.pid, *map(int, children)])

    assert len(children) == 1
    assert isinstance(parked, Parked), parked
    assert parked.pids == (program.pid,)
    assert parking_card.used_mib == 0


REFUSED = (
    ("", {"FAKE_CUDA_BUSY": "1"}, "Its work on the GPU did not end within 0 s."),
    ("", {"FAKE_CUDA_MIG": "1", "CUDA_VISIBLE_DEVICES": "MIG-1"}, "a part of a card (MIG)"),
    ("", {"FAKE_CUDA_MPS": "1", "CUDA_MPS_PIPE_DIRECTORY": "pipes"}, "through MPS"),
    ("", {"FAKE_CUDA_MACHINE": "aarch64"}, "memory that the driver cannot park"),
    ("managed", {}, "managed memory"),
)


@pytest.mark.parametrize("refused", REFUSED, ids=["busy", "mig", "mps", "aarch64", "managed"])
def test_what_cannot_be_parked_runs_on_where_the_driver_lets_it(
    parking_driver: Path, parking_card: Any, start: Start, refused: tuple[str, dict[str, str], str]
) -> None:
    kind, env, sentence = refused
    program = start(kind, **env)

    answer = park(parking_driver, [program.pid], patience=Patience(lock_s=0.2))

    assert isinstance(answer, NotParked), answer
    assert sentence in answer.because
    # A driver that finds managed memory half-way leaves the process unusable.
    assert (answer.usable, answer.holds_nothing) == (kind != "managed", False)
    if answer.usable:
        ask(program)
        assert line(program) == "1 0000"


def test_one_that_cannot_be_parked_lets_the_others_run_on(
    parking_driver: Path, parking_card: Any, start: Start
) -> None:
    well, ill = start(), start(FAKE_CUDA_MIG="1")

    answer = park(parking_driver, [well.pid, ill.pid])

    assert isinstance(answer, NotParked), answer
    assert answer.usable
    ask(well)
    ask(ill)
    assert (line(well), line(ill)) == ("1 0000", "1 0000")


def test_a_card_without_room_costs_the_process_and_that_is_said(
    parking_driver: Path, parking_card: Any, start: Start
) -> None:
    program = start()
    assert isinstance(park(parking_driver, [program.pid]), Parked)

    parking_card.resize(4)
    full = unpark(parking_driver, [program.pid])
    parking_card.resize(1024)
    again = unpark(parking_driver, [program.pid])

    assert full == NotParked(
        because="The GPU had no room for its memory, and the driver gives it no second try.",
        usable=False,
    )
    assert isinstance(again, NotParked)
    assert not again.usable


def test_the_machines_own_memory_must_hold_it(
    parking_driver: Path, parking_card: Any, start: Start
) -> None:
    program = start()
    parking_card.resize(1 << 30)
    huge = parking_card.folder / "memory-of-others"
    with huge.open("wb") as stream:
        stream.truncate(1 << 42)
        fcntl.flock(stream, fcntl.LOCK_EX)
        answer = park(parking_driver, [program.pid])

    assert isinstance(answer, NotParked), answer
    assert answer.because.startswith("Its GPU memory may take 4194568 MiB of the machine")
    assert answer.usable
    ask(program)
    assert line(program) == "1 0000"


def test_whoever_parks_is_killed_and_nothing_is_lost(
    parking_driver: Path, parking_card: Any, start: Start
) -> None:
    """It was done, and nobody is there to hear it: it is taken back."""
    program = start()
    errand = subprocess.Popen(
        [sys.executable, "-I", "-S", str(ERRAND), "park", str(parking_driver), "1000", "", str(program.pid)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    )  # fmt: skip
    assert errand.stdout is not None
    assert errand.stdin is not None
    assert b"pids" in errand.stdout.readline()
    assert parking_card.used_mib == 0

    errand.stdin.close()

    assert errand.wait() == 1
    errand.stdout.close()
    ask(program)
    assert line(program) == "1 0000"
    # And the errand itself killed between its steps: the next one goes on from there.
    held = subprocess.Popen(
        [sys.executable, "-I", "-S", str(ERRAND), "park", str(parking_driver), "1000", "", str(program.pid)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    )  # fmt: skip
    assert held.stdout is not None
    held.stdout.readline()
    held.kill()
    held.communicate()
    assert isinstance(unpark(parking_driver, [program.pid]), Unparked)
    ask(program)
    assert line(program) == "2 0000"


def test_a_driver_that_takes_too_long_is_not_waited_for_and_takes_it_back(
    parking_driver: Path, parking_card: Any, start: Start
) -> None:
    program = start(FAKE_CUDA_BUSY="1")

    answer = park(parking_driver, [program.pid], patience=Patience(lock_s=1, answer_s=0.1))

    assert answer == NotParked(because="The driver did not finish within 0 s.")
    ask(program)
    assert line(program) == "1 0000"


def test_machines_that_cannot_say_why(
    parking: Any,
    parking_driver: Path,
    parking_card: Any,
    start: Start,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    program = start()
    pids = [program.pid]
    folder = parking_card.folder.parent
    old = parking.build(folder, ["-DWITHOUT_CHECKPOINT"])

    def because(library: Path | None) -> str:
        answer = park(library, pids)
        assert isinstance(answer, NotParked)
        return answer.because

    assert because(None) == "There is no driver of NVIDIA here."
    assert "570 or newer can" in because(old)
    assert "cannot be loaded" in because(folder / "none.so")
    monkeypatch.setenv("FAKE_CUDA_NO_CARD", "1")
    assert because(parking_driver) == "No GPU can be seen from here."
    ask(program)
    assert line(program) == "1 0000"


def test_where_its_gpu_is_missing_it_stays_parked(
    parking_driver: Path, parking_card: Any, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = start()
    parked = park(parking_driver, [program.pid])
    assert isinstance(parked, Parked), parked

    monkeypatch.setenv("FAKE_CUDA_CARD_NUMBER", "1")
    elsewhere = unpark(parking_driver, [program.pid], gpus=parked.gpus)
    monkeypatch.delenv("FAKE_CUDA_CARD_NUMBER")
    again = unpark(parking_driver, [program.pid], gpus=parked.gpus)

    assert isinstance(elsewhere, NotParked)
    assert elsewhere.usable
    assert elsewhere.because.startswith(f"It was on {parked.gpus[0]}, and this is GPU-01010101-")
    assert isinstance(again, Unparked), again


def test_a_driver_that_does_not_say_where_it_is_moves_nothing(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    asked: list[str] = []

    class Refuses:
        def __init__(self, _library: Path) -> None:
            """It starts."""

        def held_bytes_at_most(self) -> int:
            return 0

        def gpus(self) -> tuple[str, ...]:
            raise DriverRefused("name", Code.NOT_SUPPORTED)

        def __getattr__(self, call: str) -> Any:
            return lambda *_: asked.append(call)

    monkeypatch.setattr(driver, "Driver", Refuses)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(os, "read", lambda *_: b".")

    errand.main(["park", "libcuda.so.1", "1000", "", "1"])

    assert '"call": "name"' in capfd.readouterr().out
    # How it stands is asked for the answer, and nothing else.
    assert set(asked) == {"state"}


def test_nobody_parks_with_more_rights_than_the_process_has(
    parking_driver: Path, parking_card: Any, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = start()
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)

    assert park(parking_driver, [program.pid]) == NotParked(because=refusals.OF_ANOTHER_USER)


def test_what_holds_a_gpu_is_seen_before_anybody_asks_the_driver(tmp_path: Path) -> None:
    (tmp_path / "nvidia0").touch()
    with (tmp_path / "nvidia0").open():
        assert processes.holds_gpu(os.getpid(), f"{tmp_path}/nvidia")
    assert not processes.holds_gpu(os.getpid(), f"{tmp_path}/nvidia")
