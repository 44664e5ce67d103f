"""What a job nests without end is refused in words, before anything of it is handed over."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpucommons.scheduler.in_pod.worker import Api, upload


@pytest.mark.parametrize(("depth", "asked"), [(101, 0), (100, 1)])
def test_results_in_more_folders_than_a_walk_goes_through_are_not_handed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, depth: int, asked: int
) -> None:
    batches = []

    def post(_api: Api, _path: str, body: object) -> dict[str, list[str]]:
        batches.append(body)
        return {"files": []}

    monkeypatch.setattr(Api, "post", post)
    folder = tmp_path / "results"
    for _ in range(depth):
        folder /= "a"
    folder.mkdir(parents=True)
    (folder / "leaf").write_text("deep")
    if asked:
        assert upload(Api("http://scheduler", "t"), tmp_path, "results") == len("deep")
    else:
        with pytest.raises(OSError, match="results has more than 100 folders in one another"):
            upload(Api("http://scheduler", "t"), tmp_path, "results")
    assert len(batches) == asked
