"""*Train* makes sweeps: of a file, as it is now, or of what a job asked for."""

from __future__ import annotations

from typing import Any

import pytest

SWEEP = {
    "space": {"lr": {"low": 0.1, "high": 1}},
    "objective": {"metric": "loss"},
    "budget": {"trials": 2},
}


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"sweep": {**SWEEP, "space": {}}}, "has nothing in it"),
        ({"sweep": SWEEP}, "Say what is to run: file or job."),
        ({"sweep": {**SWEEP, "given": []}}, "leave job and given out"),
        ({"sweep": {**SWEEP, "budget": {"trials": 0}}}, "trials"),
    ],
)
async def test_what_is_no_sweep_is_refused_before_a_file_is_packed(
    served: Any, api: Any, body: Any, words: str
) -> None:
    (served.root / "train.py").write_text("print(1)\n")
    answer = await served.http.post("gpucommons/sweep", json=body)
    assert (answer.status_code, words in answer.text) == (422, True), answer.text
    assert not [r for r in api.requests if r.method in ("PUT", "POST")]
