"""What of a log is whole: lines that ended, and what a progress bar has drawn over."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpucommons.scheduler.files.log_reader import cut_log, read_tail


@pytest.mark.parametrize(
    ("content", "lines"),
    [
        (b"one\ntwo", ("one",)),
        (b"one\r\ntwo\r\n", ("one", "two")),
        # The newline of this line's end is still to come.
        (b"one\r\ntwo\r", ("one",)),
        (b"\r 1/9\r 2/9\r 3/9", ("\r 1/9\r 2/9",)),
        (b"begun\n 1/9\r 2/9\r 3/9", ("begun", " 1/9\r 2/9")),
        (b"\r 1/9", ()),
        (b"", ()),
    ],
)
def test_a_bar_that_never_ends_its_line_is_read_as_it_is_drawn(
    content: bytes, lines: tuple[str, ...]
) -> None:
    chunk = cut_log(content, more=False, offset=7, over=False, limit_bytes=100)
    assert chunk.lines == lines


def test_pieces_of_a_redrawn_line_are_the_whole_line() -> None:
    content = b"start\n" + b"\r".join(b"%d/50" % n for n in range(50)) + b"\nend\n"
    read, offset = "", 0
    for end in range(0, len(content) + 3, 3):
        piece = content[offset:end]
        chunk = cut_log(piece, more=False, offset=offset, over=False, limit_bytes=1000)
        assert "" not in chunk.lines
        read += "|".join(chunk.lines)
        offset = chunk.next_offset
    assert offset == len(content)
    assert read.count("49/50") == 1


def test_the_end_of_a_log_is_read_without_the_rest(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(b"x" * 1000 + b"the end")
    assert read_tail(log, 7) == "the end"
    assert read_tail(tmp_path / "none", 7) == ""
