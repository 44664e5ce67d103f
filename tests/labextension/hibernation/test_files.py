"""What is written beside an image, also where it was cut or is somebody's joke."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from gpucommons.labextension.hibernation.kept_kernels_file import (
    FILE,
    KeptKernel,
    read_kept,
    write_kept,
)
from gpucommons.labextension.hibernation.lost_kernels import Loss, Losses
from gpucommons.labextension.hibernation.records import (
    BufferedMessage,
    Record,
    SessionRow,
    newest,
    read_record,
    write_record,
)
from gpucommons.labextension.hibernation.reporting import kernels_report

KEPT = KeptKernel(id="k1", name="python3", path="a.ipynb", bytes=5, kept_until_ms=7)


def record(**changes: object) -> Record:
    base: dict[str, object] = {
        "kernel_id": "k1",
        "kernel_name": "python3",
        "cwd": None,
        "connection": {"ip": "127.0.0.1", "shell_port": 1},
        "sessions": [SessionRow(session_id="s", path="a.ipynb", name="a.ipynb", type="notebook")],
        "execution_state": "idle",
        "last_activity": "2026-11-24T10:00:00+00:00",
        "kernel_info": None,
        "session_key": None,
        "noted_ms": 1,
    }
    return Record.model_validate(base | changes)


def loss(kernel_id: str, path: str = "a.ipynb") -> Loss:
    return Loss(kernel_id=kernel_id, path=path, because="It was.", at_ms=1)


def test_what_is_kept_is_read_as_it_was_written(tmp_path: Path) -> None:
    write_kept(tmp_path, [KEPT])

    assert read_kept(tmp_path) == (KEPT,)
    assert stat.S_IMODE((tmp_path / FILE).stat().st_mode) == 0o600


@pytest.mark.parametrize("text", ["", "{", "[]", '{"kernels": [{}]}', '{"kernels": 3}'])
def test_a_file_that_is_none_says_that_nothing_is_known(tmp_path: Path, text: str) -> None:
    (tmp_path / FILE).write_text(text)

    assert read_kept(tmp_path) == ()


def test_a_record_comes_back_whole_and_private(tmp_path: Path) -> None:
    folder = tmp_path / "k1"
    write_record(folder, record())

    assert read_record(folder) == record()
    assert stat.S_IMODE((folder / "record.json").stat().st_mode) == 0o600


def test_a_record_of_another_kernel_is_none(tmp_path: Path) -> None:
    folder = tmp_path / "k1"
    write_record(folder, record(kernel_id="k2"))

    assert read_record(folder) is None


def test_the_newest_outputs_are_kept_where_not_all_have_room() -> None:
    messages = [BufferedMessage(channel="iopub", parts=["00" * size]) for size in (5, 4, 3)]

    assert newest(messages, 7) == messages[1:]


def test_one_loss_is_told_of_a_notebook_until_it_is_closed(tmp_path: Path) -> None:
    told: list[int] = []
    losses = Losses(tmp_path)
    losses.changed = lambda: told.append(len(list(losses)))
    losses.add(loss("k1"))
    losses.add(loss("k2"))
    losses.add(loss("k3", path=""))

    again = Losses(tmp_path)
    again.close("k2")

    assert told == [1, 1, 2]
    assert [each.kernel_id for each in again] == ["k3"]
    assert [each.kernel_id for each in Losses(tmp_path)] == ["k3"]


def test_a_report_counts_and_says_the_first_date() -> None:
    later = KeptKernel(id="k2", name="ir", path="", bytes=6, kept_until_ms=9)

    assert kernels_report([later, KEPT]).model_dump(
        include={"kernels", "kernel_bytes", "until_ms"}
    ) == {
        "kernels": 2,
        "kernel_bytes": 11,
        "until_ms": 7,
    }
    assert kernels_report([]).kernels == 0
