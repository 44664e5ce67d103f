"""What leaves a pod is what its job wrote, and nothing that a link of the job's leads to."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gpucommons.scheduler.in_pod import kept_files, worker
from gpucommons.scheduler.in_pod.kept_files import changed, has_folder


def test_links_in_results_are_left_where_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    results, others = tmp_path / "results", tmp_path / "others"
    (results / "a").mkdir(parents=True)
    others.mkdir()
    (others / "secret").write_text("not the job's")
    (results / "a" / "model").write_text("weights")
    (results / "file").symlink_to(others / "secret")
    (results / "folder").symlink_to(others)
    asked: list[str] = []

    def post(_api: worker.Api, _path: str, body: object) -> dict[str, list[str]]:
        assert isinstance(body, dict)
        asked.extend(file["path"] for file in body["files"])
        return {"files": []}

    monkeypatch.setattr(worker.Api, "post", post)
    worker.upload(worker.Api("http://scheduler", "t"), tmp_path, "results")

    assert asked == ["a/model"]


def test_results_that_are_a_link_are_refused(tmp_path: Path) -> None:
    (tmp_path / "others").mkdir()
    (tmp_path / "results").symlink_to(tmp_path / "others")

    assert not has_folder(tmp_path / "nothing")
    assert has_folder(tmp_path / "others")
    with pytest.raises(ValueError, match="'results' is a link or a file, no folder"):
        has_folder(tmp_path / "results")


def test_more_new_files_than_any_grace_suffices_for_are_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a", "b", "c"):
        (tmp_path / name).write_text("12")
    os.utime(tmp_path / "a", (0, 0))

    assert changed(["a", "b"], tmp_path, {"a": 2}) == {"b": 2}
    assert changed(["a"], tmp_path, {"a": 3}) == {"a": 2}
    monkeypatch.setattr(kept_files, "MAX_FILES", 1)
    with pytest.raises(ValueError, match="is not kept for the next attempt"):
        changed(["a", "b", "c"], tmp_path, {})


def test_a_file_that_became_a_link_is_not_sent(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("not the job's")
    (tmp_path / "model").symlink_to(tmp_path / "secret")

    with pytest.raises(OSError, match="symbolic link"):
        worker.send_part("http://127.0.0.1:1/x", tmp_path / "model", (0, 5), {})
