"""A later snapshot leaves earlier results out, and says whose they are."""

from __future__ import annotations

from pathlib import Path

from gpucommons.scheduler.client.snapshot import preview
from gpucommons.scheduler.working_folder.giving_back import Wanted, give_back


def test_results_that_came_back_are_left_out_of_the_next_snapshot_by_name(tmp_path: Path) -> None:
    run, home = tmp_path / "run", tmp_path / "home"
    (run / "work").mkdir(parents=True)
    (run / "work" / "model.pt").write_text("weights")
    (home / "results" / "of-mine").mkdir(parents=True)
    (home / "results" / "of-mine" / "table.csv").write_text("1")
    (home / "train.py").write_text("print()")
    give_back(run, {}, Wanted(job="train-7", job_id="1", home=home, below="", max_bytes=1 << 20))

    found = preview(home)

    assert [file.path for file in found.files] == ["train.py", "results/of-mine/table.csv"]
    assert [(one.path, one.reason) for one in found.excluded] == [
        ("results/train-7", "holds results of train-7")
    ]
