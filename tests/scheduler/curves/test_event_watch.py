"""TensorBoard's files as they are written, damaged, endless or not files at all."""

from __future__ import annotations

import math
import os
import struct
import subprocess
import sys
from pathlib import Path

import pytest
from event_records import NAME, START_S, event, field_bytes, record, varint

from gpucommons.scheduler.curves import event_watch
from gpucommons.scheduler.curves.event_watch import Watch, event_files, masked_crc
from gpucommons.scheduler.models import CurveReport


def version() -> bytes:
    return record(
        varint(1 << 3 | 1) + struct.pack("<d", START_S) + field_bytes(3, b"brain.Event:2")
    )


def _told(watch: Watch) -> dict[int, dict[str, float]]:
    points = watch.look()
    if points:
        CurveReport.model_validate({"points": points})
    return {int(str(p["step"])): p["metrics"] for p in points}  # type: ignore[misc]


def test_the_checksum_is_the_one_that_tensorboard_writes() -> None:
    # Every file of TensorFlow's begins with a record of 24 bytes, and so with these.
    header = bytes.fromhex("1800000000000000a37f4b22")
    assert header == struct.pack("<QI", 24, masked_crc(struct.pack("<Q", 24)))


def test_scalars_are_read_as_they_come_each_once(tmp_path: Path) -> None:
    folder = tmp_path / "runs" / "exp"
    folder.mkdir(parents=True)
    whole = version() + event(1, "train/loss", 0.5) + event(2, "train/loss", 0.25)
    watch = Watch(str(tmp_path), since_s=START_S)
    found: list[tuple[int, dict[str, float]]] = []
    for end in range(0, len(whole) + 1, 11):
        (folder / NAME).write_bytes(whole[:end])
        found += _told(watch).items()
    (folder / NAME).write_bytes(whole)
    found += _told(watch).items()
    assert found == [(1, {"train/loss": 0.5}), (2, {"train/loss": 0.25})]


def test_tags_of_one_step_are_one_point_and_data_sets_are_kept_apart(tmp_path: Path) -> None:
    for name, value in (("train", 0.5), ("validation", 0.75)):
        (tmp_path / name).mkdir()
        (tmp_path / name / NAME).write_bytes(event(3, "epoch_loss", value, tensor=True))
    assert _told(Watch(str(tmp_path), since_s=0)) == {
        3: {"train/epoch_loss": 0.5, "validation/epoch_loss": 0.75}
    }


def test_what_an_earlier_attempt_wrote_is_not_told_again(tmp_path: Path) -> None:
    old, new = event(1, "loss", 0.5, at_s=START_S - 1), event(2, "loss", 0.25)
    (tmp_path / NAME).write_bytes(old + new)
    assert _told(Watch(str(tmp_path), since_s=START_S)) == {2: {"loss": 0.25}}


def test_what_is_no_number_is_left_out(tmp_path: Path) -> None:
    bad = event(1, "loss", math.nan) + event(2, "loss", math.inf) + event(3, "loss", 0.5)
    (tmp_path / NAME).write_bytes(bad)
    assert _told(Watch(str(tmp_path), since_s=0)) == {3: {"loss": 0.5}}


def test_a_long_history_comes_thinned_in_bounded_pieces(tmp_path: Path) -> None:
    (tmp_path / NAME).write_bytes(b"".join(event(n, "loss", 0.5) for n in range(40_000)))
    watch = Watch(str(tmp_path), since_s=0)
    steps: list[int] = []
    while told := _told(watch):
        assert len(told) <= event_watch.MAX_POINTS + 1
        steps += told
    assert steps == sorted(steps)
    assert (steps[0], steps[-1]) == (0, 39_999)


@pytest.mark.parametrize(
    "damage",
    [
        b"not an event file at all, but longer than a header",
        struct.pack("<QI", 2**62, masked_crc(struct.pack("<Q", 2**62))),
        record(b"\xff" * 40),
        record(field_bytes(5, field_bytes(1, b"\x0a\xff\xff\xff\xff\x0f"))),
        event(9, "loss", 0.5)[:-1] + b"\x00" + b"x" * 20,
    ],
)
def test_a_damaged_file_keeps_what_was_whole_and_ends_nothing(
    tmp_path: Path, damage: bytes
) -> None:
    (tmp_path / NAME).write_bytes(event(1, "loss", 0.5) + damage)
    (tmp_path / f"{NAME}.2").write_bytes(event(2, "loss", 0.25))
    watch = Watch(str(tmp_path), since_s=0)
    assert _told(watch) == {1: {"loss": 0.5}, 2: {"loss": 0.25}}
    assert _told(watch) == {}


def test_a_picture_between_scalars_is_passed_over(tmp_path: Path) -> None:
    picture = record(b"\x00" * (event_watch.MAX_RECORD_BYTES + 1))
    (tmp_path / NAME).write_bytes(event(1, "loss", 0.5) + picture + event(2, "loss", 0.25))
    watch = Watch(str(tmp_path), since_s=0)
    assert {**_told(watch), **_told(watch)} == {1: {"loss": 0.5}, 2: {"loss": 0.25}}


def test_links_pipes_and_folders_of_that_name_are_not_opened(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / NAME).write_bytes(event(1, "loss", 0.5))
    work = tmp_path / "work"
    work.mkdir()
    (work / "linked").symlink_to(outside)
    (work / NAME).symlink_to(outside / NAME)
    os.mkfifo(work / f"{NAME}.pipe")
    (work / f"{NAME}.folder").mkdir()
    assert event_files(str(work)) == []
    assert _told(Watch(str(work), since_s=0)) == {}
    assert event_watch._content(str(work / f"{NAME}.pipe"), 0, 10) is None


def test_of_a_folder_with_very_many_entries_some_are_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_watch, "MAX_ENTRIES", 20)
    for number in range(50):
        (tmp_path / f"{number}.txt").touch()
    (tmp_path / "deep").mkdir()
    assert event_files(str(tmp_path)) == []


def test_names_become_what_the_scheduler_takes(tmp_path: Path) -> None:
    (tmp_path / NAME).write_bytes(
        event(1, "Loss(train)[0]", 0.5) + event(1, "  ", 0.5) + event(1, "x" * 500, 0.5)
    )
    assert set(_told(Watch(str(tmp_path), since_s=0))[1]) == {"Loss train 0", "x" * 64}


def test_a_script_with_a_thousand_tags_shows_a_few(tmp_path: Path) -> None:
    (tmp_path / NAME).write_bytes(b"".join(event(1, f"tag/{n}", 0.5) for n in range(1000)))
    assert len(_told(Watch(str(tmp_path), since_s=0))[1]) == event_watch.MAX_NAMES


def test_who_is_started_by_somebody_who_is_gone_leaves(tmp_path: Path) -> None:
    env = {
        "GPUCOMMONS_URL": "http://127.0.0.1:1",
        "GPUCOMMONS_TOKEN": "gca-secret",
        "GPUCOMMONS_WORK_DIR": str(tmp_path),
        event_watch.PARENT: "1" if os.getpid() != 1 else "2",
    }
    words = [sys.executable, "-I", event_watch.__file__]
    assert subprocess.run(words, env=env, timeout=60, check=False).returncode == 0


def test_the_token_is_left_for_its_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / event_watch.TOKEN_FILE
    event_watch.leave_token(str(path), "gca-secret")
    event_watch.leave_token(str(tmp_path / "the-jobs-own"), "gca-secret")
    assert path.read_text() == "gca-secret"
    assert path.stat().st_mode & 0o777 == 0o600
    assert sorted(tmp_path.iterdir()) == [path]
