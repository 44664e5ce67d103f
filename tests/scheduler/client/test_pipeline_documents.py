"""What is read of a file of steps, before anybody is asked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gpucommons.scheduler.client import snapshot
from gpucommons.scheduler.client.documents.jobs import Bounds
from gpucommons.scheduler.client.documents.pipelines import read_pipeline, steps_in_order
from gpucommons.scheduler.errors import BadRequest, Misconfigured


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    own = tmp_path / "own"
    own.mkdir()
    (own / "train.py").write_text("print(1)\n")
    (tmp_path / "secret.py").write_text("print(2)\n")
    return own


def names_in_order(folder: Path, steps: str) -> list[str]:
    path = folder / "pipeline.yaml"
    path.write_text(f"steps: {steps}\n")
    read = read_pipeline(path, bounds=Bounds(max_bytes=1 << 20, within=folder))
    return [step.name for step in steps_in_order(read.request)]


def test_a_step_stands_behind_what_it_needs_whether_it_names_all_combinations_or_one(
    folder: Path,
) -> None:
    steps = """
  last: {run: train.py, after: {train-2: any}, inputs: [clean/data.csv]}
  train: {run: train.py, after: clean, each: {SEED: [1, 2], LR: [0.1]}}
  clean: {run: train.py}"""
    assert names_in_order(folder, steps) == ["clean", "train", "last"]


def test_steps_of_one_folder_run_from_the_same_files_though_it_changes_meanwhile(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def changing(root: Path, **bounds: Any) -> snapshot.Packed:
        packed = pack(root, **bounds)
        (root / "train.py").write_text("print(2)\n")
        return packed

    pack = snapshot.pack
    monkeypatch.setattr(snapshot, "pack", changing)
    path = folder / "pipeline.yaml"
    path.write_text("steps: {a: {run: train.py}, b: {run: train.py}}\n")
    read = read_pipeline(path, bounds=Bounds(max_bytes=1 << 20))
    assert len({step.job.snapshot for step in read.request.steps}) == len(read.folders) == 1


@pytest.mark.parametrize(
    ("steps", "words"),
    [
        ("{a: {run: train.py, after: b}, b: {run: train.py, after: a}}", "wait for each other"),
        ("{a: {run: train.py, after: b}}", "there is no step 'b'. Steps: a."),
        (
            "{a: {run: train.py, after: t-3}, t: {run: train.py, each: {S: [1, 2]}}}",
            "no step 't-3'",
        ),
        ("{a: {run: train.py, each: {S: []}}}", "a: each: S has no values"),
        (
            "{a: {run: train.py}, b: {run: train.py, each: {S: [1, 2], L: "
            + str([*range(50)])
            + "}}}",
            "steps: these are 101 with all combinations of each, at most 100",
        ),
    ],
)
def test_an_order_that_cannot_be_is_refused_as_the_scheduler_would(
    folder: Path, steps: str, words: str
) -> None:
    with pytest.raises(Misconfigured, match=words):
        names_in_order(folder, steps)


@pytest.mark.parametrize(
    "step",
    [
        "{run: ../secret.py}",
        "{run: link.py}",
        "{module: secret, folder: ..}",
        "{folder: .., roles: [{command: [ls]}]}",
    ],
)
def test_nothing_outside_of_the_folder_is_read(folder: Path, step: str) -> None:
    (folder / "link.py").symlink_to(folder.parent / "secret.py")
    with pytest.raises(BadRequest, match="which is outside of"):
        names_in_order(folder, f"{{a: {step}}}")


def test_too_many_steps_are_refused_before_any_file_is_read(folder: Path) -> None:
    steps = "".join(f"\n  s{number}: {{run: gone.py}}" for number in range(101))
    with pytest.raises(BadRequest, match="steps: these are 101, at most 100"):
        names_in_order(folder, steps)


@pytest.mark.parametrize(
    ("steps", "words"),
    [
        ("{a: {run: train.py, each: {S: [[1]]}}}", "each must be a mapping"),
        ("{a: {run: train.py, inputs: [[x, y]]}}", "not a list or mapping"),
        ("{a: {run: train.py, inputs: [" + "1" * 300 + "]}}", "not 1{80}….$"),
        ("{" + "a" * 300 + ": 1}", "step a{80}… must be"),
    ],
)
def test_what_is_no_single_value_is_refused_in_a_short_sentence(
    folder: Path, steps: str, words: str
) -> None:
    with pytest.raises(BadRequest, match=words):
        names_in_order(folder, steps)
