from __future__ import annotations

import errno
from pathlib import Path

import pytest

from gpucommons.labextension.outputs import cell_runs
from gpucommons.labextension.outputs.cell_runs import FILE, CellRuns
from tests.labextension.outputs.test_cell_run import a_run

DAY_MS = 24 * 3600 * 1000
IDLE = {"execution_state": "idle"}


class Pages:
    """Which pages are connected."""

    def __init__(self, *sessions: str) -> None:
        self.there = set(sessions)

    def __call__(self, _kernel_id: str, session: str) -> bool:
        return session in self.there


def say(runs: CellRuns, request: str, text: str) -> None:
    header = {"msg_type": "stream", "msg_id": f"{request}-{text}"}
    runs.take(request, header, {"name": "stdout", "text": text}, {})


def end(runs: CellRuns, request: str) -> None:
    runs.take(request, {"msg_type": "status", "msg_id": f"{request}-end"}, IDLE, {})


def ids(runs: CellRuns) -> list[str]:
    return [one.id for one in runs]


def test_what_its_own_page_has_shown_to_the_end_is_not_kept(tmp_path: Path) -> None:
    runs = CellRuns(tmp_path, Pages("s"), 0)
    runs.begin(a_run())
    say(runs, "r", "a")
    assert ids(runs) == ["r"], "another page may be opened meanwhile"
    end(runs, "r")
    assert ids(runs) == []


def test_what_came_while_its_page_was_away_is_kept_until_a_page_has_saved_it(
    tmp_path: Path,
) -> None:
    pages = Pages("s")
    runs = CellRuns(tmp_path, pages, 0)
    runs.begin(a_run())
    say(runs, "r", "a")
    pages.there.clear()
    say(runs, "r", "b")
    runs.forget(["r"])
    assert ids(runs) == ["r"], "it still runs"
    end(runs, "r")
    pages.there.add("s")

    [run] = runs.of("k", "")
    assert [one["content"]["text"] for one in run.messages] == ["ab"]
    assert runs.of("other", "a.ipynb") == [run], "its notebook has another kernel now"
    assert runs.of("other", "") == []
    runs.forget(["r", "unknown"])
    assert ids(runs) == []


def test_a_page_that_is_back_is_given_what_it_missed_by_jupyter(tmp_path: Path) -> None:
    runs = CellRuns(tmp_path, Pages(), 0)
    runs.begin(a_run())
    say(runs, "r", "a")
    end(runs, "r")
    runs.page_is_back("k", "another")
    assert ids(runs) == ["r"]
    runs.page_is_back("k", "s")
    assert ids(runs) == []


def test_a_cell_that_is_run_anew_has_its_old_outputs_no_more(tmp_path: Path) -> None:
    runs = CellRuns(tmp_path, Pages(), 0)
    runs.begin(a_run())
    runs.begin(a_run(id="other", cell_id="d"))
    runs.begin(a_run(id="anew"))
    assert ids(runs) == ["other", "anew"]
    say(runs, "r", "late")
    assert ids(runs) == ["other", "anew"]


def test_they_outlive_their_server_privately_and_end_after_a_month(tmp_path: Path) -> None:
    runs = CellRuns(tmp_path, Pages(), 0)
    runs.begin(a_run())
    say(runs, "r", "a")
    runs.write()
    assert (tmp_path / FILE).stat().st_mode & 0o077 == 0

    after = CellRuns(tmp_path, Pages(), DAY_MS)
    say(after, "r", "b")
    assert [one["content"]["text"] for run in after for one in run.messages] == ["ab"]
    after.end_where_not(lambda _kernel_id: False)
    say(after, "r", "c")
    assert [(run.state, run.messages[0]["content"]["text"]) for run in after] == [("ended", "ab")]
    assert ids(CellRuns(tmp_path, Pages(), 40 * DAY_MS)) == []


def test_a_file_that_is_none_costs_no_server(tmp_path: Path) -> None:
    (tmp_path / FILE).write_text("{")
    assert ids(CellRuns(tmp_path, Pages(), 0)) == []


def test_the_oldest_make_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cell_runs, "MOST_RUNS", 2)
    runs = CellRuns(tmp_path, Pages(), 0)
    for name in "abc":
        runs.begin(a_run(id=name, cell_id=name))
        say(runs, name, "x")
    assert ids(runs) == ["b", "c"]


def test_cells_that_print_nothing_make_room_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cell_runs, "MOST_BYTES", 1_000)
    runs = CellRuns(tmp_path, Pages(), 0)
    for name in "abc":
        runs.begin(a_run(id=name, cell_id=name, code=400 * "x"))
    assert ids(runs) == ["b", "c"]


def test_what_the_disk_refused_is_written_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = CellRuns(tmp_path, Pages(), 0)
    runs.begin(a_run())

    def full(*_: object) -> None:
        raise OSError(errno.EDQUOT, "quota")

    with monkeypatch.context() as patch:
        patch.setattr(cell_runs, "write_private", full)
        with pytest.raises(OSError, match="quota"):
            runs.write()
    assert runs.is_dirty
    runs.write()
    assert not runs.is_dirty
    assert ids(CellRuns(tmp_path, Pages(), 0)) == ["r"]


def test_what_a_thread_writes_late_leaves_alone_what_is_newer(tmp_path: Path) -> None:
    runs = CellRuns(tmp_path, Pages(), 0)
    runs.begin(a_run())
    late = runs.writing()
    assert not runs.is_dirty
    runs.begin(a_run(id="other", cell_id="d"))
    assert runs.is_dirty
    runs.write()
    late()
    assert ids(CellRuns(tmp_path, Pages(), 0)) == ["r", "other"]


def test_half_a_sign_costs_no_more_than_itself(tmp_path: Path) -> None:
    runs = CellRuns(tmp_path, Pages(), 0)
    runs.begin(a_run())
    say(runs, "r", "a\ud800b")
    runs.write()
    [run] = CellRuns(tmp_path, Pages(), 0)
    assert [one["content"]["text"] for one in run.messages] == ["a?b"]
