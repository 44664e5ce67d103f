"""Logs of parts that say too much."""

from __future__ import annotations

from pathlib import Path

from gpucommons.scheduler.up.part_logs import keep_short, older


def test_a_log_that_is_too_long_begins_anew_and_its_end_is_kept(tmp_path: Path) -> None:
    log = tmp_path / "hub.log"
    with log.open("ab") as writer:
        writer.write(b"old" * 100)
        writer.flush()
        keep_short([log], most_bytes=30)
        writer.write(b"new")
        writer.flush()

        assert log.read_bytes() == b"new"
        assert older(log).read_bytes() == b"old" * 10


def test_a_log_within_its_length_stays_as_it_is(tmp_path: Path) -> None:
    log = tmp_path / "hub.log"
    log.write_bytes(b"short")

    keep_short([log, tmp_path / "not there.log"], most_bytes=5)

    assert log.read_bytes() == b"short"
    assert not older(log).exists()


def test_a_log_that_cannot_be_put_aside_is_cut_off_all_the_same(tmp_path: Path) -> None:
    log = tmp_path / "hub.log"
    log.write_bytes(b"x" * 100)
    older(log).symlink_to(tmp_path / "no" / "such" / "folder")

    keep_short([log], most_bytes=5)

    assert log.read_bytes() == b""
