"""Files of jobs and snapshots are made by others: their names and headers hurt no page and no service."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import pytest
from builders import World, a_job, a_node, a_team

from gpucommons.scheduler.files.confined_files import unpack
from gpucommons.scheduler.service.jobs import environments
from gpucommons.scheduler.service.jobs.results import outcome_view
from gpucommons.scheduler.working_folder import words
from gpucommons.scheduler.working_folder.changes import ChangedFile, LeftOut, baseline
from gpucommons.scheduler.working_folder.giving_back import Outcome

NO_TEXT = b"model-\xff.pt".decode(errors="surrogateescape")


def test_a_name_that_is_no_text_is_shown_and_can_be_sent() -> None:
    world = World(a_node(), teams=[a_team(guaranteed_milli_gpu=4000)])
    job = world.get(world.run(a_job()))
    outcome = Outcome(
        folder="results/digits-1",
        count=1,
        files=(ChangedFile(path=NO_TEXT, size_bytes=1),),
        left_out=(LeftOut(path=NO_TEXT, reason=f"has the name of {NO_TEXT}"),),
        left_out_count=1,
    )
    view = outcome_view(job, outcome)
    assert "model-" in view.model_dump_json()
    assert view.not_brought[0].reason == "has the name of model-\\udcff.pt"
    assert view.files[0].path == view.not_brought[0].path == "model-\\udcff.pt"


def test_a_name_stays_one_line_and_moves_no_cursor() -> None:
    assert words.shown("a\x1b[2J\nb\N{RIGHT-TO-LEFT OVERRIDE}c") == "a\\x1b[2J\\nb\\u202ec"
    assert (
        words.shown("3\N{NARROW NO-BREAK SPACE}PM ä 猫.png")
        == "3\N{NARROW NO-BREAK SPACE}PM ä 猫.png"
    )


class Endless(io.RawIOBase):
    """A header that says it is four gigabytes, and whatever is read of it."""

    def __init__(self, kind: bytes) -> None:
        header = tarfile.TarInfo("x")
        header.type, header.size = kind, 4 << 30
        self._left = header.tobuf(tarfile.GNU_FORMAT)
        self.read_bytes = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray) -> int:  # type: ignore[override] # narrower
        piece = self._left[: len(buffer)] or bytes(len(buffer))
        self._left = self._left[len(piece) :]
        buffer[: len(piece)] = piece
        self.read_bytes += len(piece)
        assert self.read_bytes < 1 << 20, "it is read"
        return len(piece)


KINDS = [tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK]


@pytest.mark.parametrize("kind", KINDS)
def test_a_header_that_says_it_is_gigabytes_is_not_read(kind: bytes, tmp_path: Path) -> None:
    with pytest.raises(tarfile.TarError, match="at most"):
        baseline(io.BufferedReader(Endless(kind)))
    with pytest.raises(tarfile.TarError, match="at most"):
        unpack(io.BufferedReader(Endless(kind)), tmp_path / "new", max_bytes=1 << 30)


def test_a_script_behind_very_many_files_is_not_looked_for() -> None:
    looked_at = 0

    def chunks() -> object:
        nonlocal looked_at
        header = tarfile.TarInfo("x").tobuf()
        while True:
            looked_at += 1
            yield header

    assert environments._member(chunks(), "train.py") == b""  # type: ignore[arg-type] # chunks
    assert looked_at < 20_000


def test_a_name_that_shows_nothing_is_shown_by_its_codes() -> None:
    assert words.shown("a\u3164b\u2800.py") == "a\\u3164b\\u2800.py"
    assert words.shown("data/\u00a0/x") == "data/\\xa0/x"
    assert words.shown("1\ufe0f ❤\ufe0f") == "1\\ufe0f ❤\ufe0f"
