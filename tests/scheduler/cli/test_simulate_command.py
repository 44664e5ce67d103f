"""``gpucommons simulate``: a trace or the recorded past under other quotas, before and after."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from gpucommons.scheduler.cli import main
from gpucommons.scheduler.simulation.plot import Pair, svg

HEADER = "job_id,user,num_gpu,submit_time,duration\n"


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """Two teams; b's jobs come while a has everything."""
    rows = [f"a{i},a,8,{i},120" for i in range(6)] + [f"b{i},b,8,{60 + i},60" for i in range(4)]
    path = tmp_path / "trace.csv"
    path.write_text(HEADER + "\n".join([*rows, "z,a,1,600,10"]) + "\n")
    return path


def quotas(folder: Path, text: str) -> str:
    path = folder / "quotas.yaml"
    path.write_text(text)
    return str(path)


def test_a_trace_is_played_before_and_after(
    trace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    limit = (
        "teams: [{name: a, quotas: {train: {guaranteed_milli_gpu: 8000, limit_milli_gpu: 8000}}}]"
    )
    plot = tmp_path / "waits.svg"
    asked = ["simulate", "--trace", str(trace), "--quotas", quotas(tmp_path, limit)]

    assert main([*asked, "--plot", str(plot), "--output", "json"]) == 0

    answer = json.loads(capsys.readouterr().out)
    before, after = answer["before"]["teams"]["a"], answer["after"]["teams"]["a"]
    assert before["jobs"] == after["jobs"] == 6
    assert after["median_wait_s"] > before["median_wait_s"]
    assert answer["after"]["idle_gpu_h"] > answer["before"]["idle_gpu_h"]
    picture = ET.fromstring(plot.read_text())  # noqa: S314 - our own file
    assert len(list(picture.iter("{http://www.w3.org/2000/svg}rect"))) == 1 + 2 * 2 + 2


def test_a_picture_that_was_drawn_is_named(
    trace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plot = tmp_path / "waits.svg"

    assert main(["simulate", "--trace", str(trace), "--plot", str(plot)]) == 0

    assert capsys.readouterr().out.endswith(f"The picture is in {plot}\n")


def test_no_part_of_a_long_title_is_outside_the_picture() -> None:
    title = "Played with 312 jobs of the last 7 days, of which 12 were left out; " * 3
    pairs = {"a": Pair(before_s=60, after_s=30)}
    svg_of = {text: ET.fromstring(svg(text, pairs)) for text in (title, "Short.")}  # noqa: S314 - ours

    rows = [
        one
        for one in svg_of[title].iter("{http://www.w3.org/2000/svg}text")
        if one.get("font-weight") == "bold"
    ]
    # Half a font's height is a wide letter.
    assert all(12 + len(row.text or "") * 15 * 0.6 < 700 for row in rows)
    assert " ".join(row.text or "" for row in rows) == title.strip()
    grown = int(svg_of[title].get("height", 0)) - int(svg_of["Short."].get("height", 0))
    assert grown == 20 * (len(rows) - 1)


def test_the_table_names_teams_and_units(
    trace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    changed = quotas(tmp_path, "teams: [{name: a, quotas: {train: {guaranteed_milli_gpu: 8000}}}]")
    assert main(["simulate", "--trace", str(trace), "--quotas", changed]) == 0

    text = capsys.readouterr().out
    assert "WORST IN TEN" in text
    assert "a     before" in text
    assert "free GPU-h" in text
    assert "GPUs, simulated." in text


def test_without_other_quotas_there_is_one_side(
    trace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["simulate", "--trace", str(trace)]) == 0

    text = capsys.readouterr().out
    assert "before" not in text
    assert [line.split()[0] for line in text.splitlines()[2:5]] == ["a", "b", "all"]
    assert text.splitlines()[-1] == "Other quotas beside these: --quotas FILE.yaml"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("teams: [{name: chemistry, quotas: {train: {}}}]", "names the team chemistry"),
        ("teams: [{name: a, quotas: {train: {guaranteed_milli_gpu: 900000}}}]", "over by"),
    ],
)
def test_quotas_that_cannot_be_are_refused(
    trace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, said: str
) -> None:
    asked = ["simulate", "--trace", str(trace), "--quotas", quotas(tmp_path, text)]

    assert main(asked) in {1, 2}
    err = capsys.readouterr().err
    assert said in err
    assert "not saved" not in err


def test_a_wrong_line_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "bad.csv"
    path.write_text(HEADER + "x,a,two,0,5\n")

    assert main(["simulate", "--trace", str(path)]) in {1, 2}
    assert "line 2: num_gpu is 'two'" in capsys.readouterr().err


def test_more_gpus_are_of_the_last_days_and_of_a_pool(
    trace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["simulate", "--trace", str(trace), "--more", "gpu=8"]) == 2
    assert "--more is for the last days" in capsys.readouterr().err
    for wrong in ("8", "gpu=", "gpu=0", "gpu=1001", "g p=1"):
        with pytest.raises(SystemExit):
            main(["simulate", "--more", wrong])
        assert f"{wrong!r} is not POOL=N, such as train=8" in capsys.readouterr().err
