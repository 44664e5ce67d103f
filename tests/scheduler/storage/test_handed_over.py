"""What leaves a pod is what its job wrote, and nothing that a link of the job's leads to."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpucommons.scheduler.storage import command, worker


def handed_over(root: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[int, list[str]]:
    """The exit status, and which files were asked links for."""
    asked: list[str] = []

    def post(_api: worker.Api, _path: str, body: object) -> dict[str, list[str]]:
        assert isinstance(body, dict)
        asked.extend(file["path"] for file in body["files"])
        return {"files": []}

    monkeypatch.setattr(worker.Api, "post", post)
    return command._hand_over_results(worker.Api("http://scheduler", "t"), root), asked


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

    assert handed_over(tmp_path, monkeypatch) == (0, ["a/model"])


def test_results_that_are_a_link_are_not_handed_over_and_the_job_has_not_succeeded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "others").mkdir()
    (tmp_path / "others" / "secret").write_text("not the job's")
    (tmp_path / "results").symlink_to(tmp_path / "others")

    assert handed_over(tmp_path, monkeypatch) == (worker.NOT_KEPT, [])
    assert "'results' is a link or a file, no folder" in capsys.readouterr().err


def test_a_file_that_became_a_link_is_not_sent(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("not the job's")
    (tmp_path / "model").symlink_to(tmp_path / "secret")

    with pytest.raises(OSError, match="symbolic link"):
        worker.send_part("http://127.0.0.1:1/x", tmp_path / "model", (0, 5), {})
