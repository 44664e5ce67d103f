from __future__ import annotations

import re
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpucommons.labextension.outputs import cell_run
from gpucommons.labextension.outputs.cell_run import LEFT_OUT, CellRun, overwritten


def a_run(**fields: Any) -> CellRun:
    base = {"id": "r", "kernel_id": "k", "path": "a.ipynb", "cell_id": "c", "code": "x"}
    return CellRun(**{**base, "session": "s", "begun_ms": 1, **fields})


def tell(run: CellRun, kind: str, **content: Any) -> None:
    number = len(run.recent)
    run.take({"msg_type": kind, "msg_id": f"m{number}"}, content, {})


def shown(run: CellRun) -> list[str]:
    return [
        one["content"].get("text") or one["content"].get("data", {}).get("text/plain", "")
        for one in run.messages
    ]


def test_text_of_one_stream_is_joined_and_of_two_kept_in_order() -> None:
    run = a_run()
    for name, text in (("stdout", "a\n"), ("stdout", "b\n"), ("stderr", "c\n"), ("stdout", "d\n")):
        tell(run, "stream", name=name, text=text)
    assert shown(run) == ["a\nb\n", "c\n", "d\n"]


def test_a_run_is_done_with_its_own_idle_and_knows_its_number() -> None:
    run = a_run()
    tell(run, "execute_input", execution_count=7)
    assert (run.state, run.execution_count) == ("running", 7)
    tell(run, "status", execution_state="busy")
    assert run.state == "running"
    tell(run, "status", execution_state="idle")
    assert run.state == "done"


def test_what_was_cleared_is_gone_at_once_or_with_the_next_output() -> None:
    run = a_run()
    tell(run, "stream", name="stdout", text="old")
    tell(run, "clear_output", wait=True)
    assert shown(run) == ["old"]
    tell(run, "stream", name="stdout", text="new")
    assert shown(run) == ["new"]
    tell(run, "clear_output", wait=False)
    assert shown(run) == []


def test_of_a_picture_that_is_drawn_again_and_again_the_last_is_kept() -> None:
    run = a_run()
    which = {"display_id": "d"}
    tell(run, "display_data", data={"text/plain": "0"}, transient=which)
    for number in range(1, 100):
        data = {"text/plain": str(number)}
        tell(run, "update_display_data", data=data, transient=which)
    assert shown(run) == ["0", "99"]


def test_a_cell_that_prints_for_hours_is_kept_by_its_end_and_that_is_said(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(cell_run, "MOST_BYTES", 20_000)
    monkeypatch.setattr(cell_run, "_MOST_JOINED", 1_000)
    run = a_run()
    for number in range(10_000):
        tell(run, "stream", name="stdout", text=f"{number}\n")
    text = "".join(shown(run))
    assert text.startswith(LEFT_OUT)
    lines = [int(line) for line in text.removeprefix(LEFT_OUT).replace(LEFT_OUT, "").split()]
    assert lines == list(range(lines[0], 10_000))
    assert run.bytes <= 20_000
    assert len(run.recent) <= cell_run.MOST_RECENT


def test_a_progress_bar_takes_no_more_room_than_its_last_states() -> None:
    run = a_run()
    tell(run, "stream", name="stderr", text="begin\n")
    for percent in range(101):
        tell(run, "stream", name="stderr", text=f"\r{percent:3} %")
    assert shown(run) == ["begin\n 99 %\r100 %"]


def _screen(text: str) -> list[str]:
    """As a page draws it: what is written after a return overwrites, sign by sign."""
    lines = []
    for line in text.replace("\r\n", "\n").split("\n"):
        seen = ""
        for part in line.split("\r"):
            seen = part + seen[len(part) :]
        lines.append(seen)
    return lines


@given(st.lists(st.text(alphabet="ab\r\n", max_size=6), max_size=20))
def test_what_is_kept_of_overwritten_lines_looks_the_same(parts: list[str]) -> None:
    run = a_run()
    for part in parts:
        tell(run, "stream", name="stdout", text=part)
    assert _screen("".join(shown(run))) == _screen("".join(parts))


def test_one_return_at_the_end_of_a_line_stays() -> None:
    assert overwritten("a\r\nb\r\n") == "a\r\nb\r\n"


def _as_pattern(text: str) -> str:
    """What is meant, slowly."""

    def seen(found: re.Match[str]) -> str:
        *parts, after = found[0].split("\r")
        drawn = ""
        for part in parts:
            drawn = part + drawn[len(part) :]
        return f"{drawn}\r{after}"

    return re.sub(r"[^\n]*\r[^\n]*\r(?!\n)", seen, text)


@given(st.text(alphabet="ab\r\n", max_size=30))
def test_of_overwritten_lines_as_much_is_kept_as_is_meant(text: str) -> None:
    assert overwritten(text) == _as_pattern(text)


@pytest.mark.parametrize(
    "text", ["\r\n\r\n" + 64_000 * "a", 500_000 * "a" + 100_000 * "\rb", 200_000 * "a\r\n"]
)
def test_long_lines_cost_no_more_than_their_length(text: str) -> None:
    begun_s = time.process_time()
    overwritten(text)
    assert time.process_time() - begun_s < 1


def test_what_a_picture_says_of_itself_takes_room_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cell_run, "MOST_BYTES", 20_000)
    run = a_run()
    for _ in range(10):
        tell(run, "display_data", data={}, metadata={"a": 5_000 * "b"})
    assert len(run.messages) < 5


BIG = 100_000 * "b"


@pytest.mark.parametrize(
    ("kind", "content", "header", "metadata"),
    [
        ("display_data", {"data": {}}, {}, {"a": BIG}),
        ("display_data", {"data": {}, "transient": {"display_id": BIG}}, {}, {}),
        ("display_data", {"data": {}}, {"username": BIG}, {}),
        ("display_data", {"data": {}}, {"msg_id": BIG}, {}),
        ("stream", {"name": BIG, "text": "a"}, {}, {}),
        ("error", {"ename": "E", "evalue": BIG, "traceback": []}, {}, {}),
    ],
)
def test_whatever_part_of_a_message_is_big_it_counts(
    monkeypatch: pytest.MonkeyPatch,
    kind: str,
    content: dict[str, Any],
    header: dict[str, Any],
    metadata: dict[str, Any],
) -> None:
    monkeypatch.setattr(cell_run, "MOST_BYTES", 300_000)
    run = a_run()
    for number in range(20):
        # A stream of the same name would be joined.
        told = content | ({"name": f"{number}{BIG}"} if kind == "stream" else {})
        run.take({"msg_type": kind, "msg_id": f"m{number}"} | header, told, metadata)
    assert run.bytes <= 300_000
    assert len(run.model_dump_json()) < 310_000
    assert shown(run)[0] == LEFT_OUT
