from __future__ import annotations

import json
from typing import Any

NAMED = {"GPUCOMMONS_URL": "http://scheduler", "JUPYTERHUB_API_TOKEN": "secret-token"}


async def test_no_thanks_is_for_files_here_and_for_the_owner_alone(serve: Any) -> None:
    async with serve(JUPYTERHUB_USER="alice", **NAMED) as others:
        (others.root / "a.ipynb").write_text("{}")
        answer = await others.http.post("gpucommons/no-job-offer", json={"path": "a.ipynb"})
        assert answer.status_code == 403

    async with serve(**NAMED) as mine:
        (mine.root / "a.ipynb").write_text("{}")
        memory = mine.root.parent / "state" / "gpucommons" / "job-offers.json"
        for path, status in [("../a.ipynb", 404), ("missing.ipynb", 404), ("", 422)]:
            answer = await mine.http.post("gpucommons/no-job-offer", json={"path": path})
            assert answer.status_code == status, answer.text
            assert not memory.exists()

        answer = await mine.http.post("gpucommons/no-job-offer", json={"path": "a.ipynb"})
        assert answer.status_code == 204
        kept = json.loads(memory.read_text())
        assert kept["refused"] == [str((mine.root / "a.ipynb").resolve())]
