"""A script that knows nothing of us, stopped and begun again by the loop: it goes on from its own file."""

from __future__ import annotations

from pathlib import Path

from launches import python
from real_box import Box

from gpucommons.scheduler.core.going_on.ways import Way, way_to_go_on
from gpucommons.scheduler.core.model.intents import Pause, Resume
from gpucommons.scheduler.core.model.types import State
from gpucommons.scheduler.executors.local.local_results import LocalResults

STEPS = """
import json, os, time
step = json.load(open("ckpt.json"))["step"] if os.path.exists("ckpt.json") else 0
while step < 400:
    step += 1
    open("history", "a").write(f"{step}\\n")
    json.dump({"step": step}, open("ckpt.tmp", "w"))
    os.replace("ckpt.tmp", "ckpt.json")
    time.sleep(0.01)
"""


def test_a_stopped_script_goes_on_from_the_file_that_it_keeps_beside_itself(tmp_path: Path) -> None:
    box = Box(tmp_path)
    try:
        job = box.submit("steps", 1000, python(STEPS))
        box.until(lambda: job in box.loop.cluster.workloads and box.gpu_of(job) is not None)
        history = box.executor.folder(box.get(job).attempts[0].attempt_id).run / "work" / "history"
        box.until(lambda: history.exists() and len(history.read_text().splitlines()) > 20)
        box.ask(Pause(workload_id=job))
        box.until(lambda: box.get(job).state is State.PAUSED)
        (first,) = box.get(job).attempts
        assert first.files_kept in (2, 3)  # the file that it is about to rename
        way = way_to_go_on(box.get(job))
        assert way is not None
        assert way.way is Way.WORKING_FOLDER
        box.ask(Resume(workload_id=job))
        box.until(lambda: job not in box.loop.cluster.workloads)
    finally:
        box.close()
    over = box.store.workload(job)
    assert over is not None
    assert (over.state, len(over.attempts)) == (State.SUCCEEDED, 2)
    steps = [
        int(one) for one in (tmp_path / "results" / over.spec.name / "history").read_text().split()
    ]
    # At most the step in which it was stopped is done twice.
    assert sorted(set(steps)) == list(range(1, 401))
    assert len(steps) <= 401
    found = LocalResults(tmp_path / "state/attempts", job_of=lambda _: over).outcome(over)
    assert found is not None
    assert found.folder == f"results/{over.spec.name}"
