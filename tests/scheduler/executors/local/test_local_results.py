"""Jobs of this machine that did not succeed bring back what they wrote, too, once they are over."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import tarfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from launches import a_launch, attempt_id, ended, lines, python, stopping, until

from gpucommons.scheduler.core.model.types import Millis, State, Workload, WorkloadId
from gpucommons.scheduler.errors import Conflict, TooLarge
from gpucommons.scheduler.executors.base import Launch
from gpucommons.scheduler.executors.local import local_results
from gpucommons.scheduler.executors.local.attempt.own_files import send_on_errand
from gpucommons.scheduler.executors.local.attempt.plan import Plan
from gpucommons.scheduler.executors.local.copy_turns import CopyTurns
from gpucommons.scheduler.executors.local.local import LocalExecutor
from gpucommons.scheduler.executors.local.local_results import LocalResults
from gpucommons.scheduler.working_folder.giving_back import MARK

WRITES = "open('ckpt', 'w').write('42'); raise SystemExit(3)"


@pytest.fixture(autouse=True)
def _patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """One pass waits for its copies, however slow the machine is."""
    monkeypatch.setattr(local_results, "TOGETHER_S", 60.0)


class Job:
    """One job, and who looks after its results."""

    def __init__(self, executor: LocalExecutor, code: str = WRITES) -> None:
        self.executor = executor
        launch = a_launch(*python(code), results_to="runs")
        self.launch: Launch = replace(
            launch, workload=replace(launch.workload, state=State.RUNNING)
        )
        self.workload: Workload = self.launch.workload
        self.results = self.looking()

    def looking(self) -> LocalResults:
        attempts = self.executor._settings.state_dir / "attempts"
        return LocalResults(
            attempts, job_of=lambda job_id: self.workload if job_id == "w1" else None
        )

    def run(self) -> None:
        self.executor.start(self.launch)
        ended(self.executor)
        self.executor.forget(self.launch.attempt.attempt_id)

    def become(self, state: State) -> None:
        self.workload = replace(self.workload, state=state)


@pytest.mark.parametrize("state", [State.FAILED, State.CANCELLED])
def test_what_a_failed_or_cancelled_job_wrote_comes_back_once(
    executor: LocalExecutor, home: Path, state: State
) -> None:
    job = Job(executor)
    job.run()
    assert job.results.step() == 0, "it may go on"
    assert job.results.outcome(job.workload) is None
    job.become(state)

    assert [job.results.step(), job.results.step(), job.looking().step()] == [1, 0, 0]

    assert (home / "runs" / "results" / "digits-1" / "ckpt").read_text() == "42"
    found = job.results.outcome(job.workload)
    assert found is not None
    assert (found.folder, found.count) == ("runs/results/digits-1", 1)


def test_a_job_that_is_cancelled_while_it_waits_brings_what_its_last_attempt_left(
    executor: LocalExecutor, home: Path
) -> None:
    job = Job(executor)
    job.run()
    # Its next attempt was stopped before it had begun.
    second = replace(job.launch.attempt, attempt_id=attempt_id(2), number=2)
    executor.signal(stopping(replace(job.launch, attempt=second), kill_in_s=0), now_ms=Millis(0))
    job.workload = replace(job.workload, attempts=(*job.workload.attempts, second))
    job.become(State.CANCELLED)

    assert job.looking().step() == 1
    assert (home / "runs" / "results" / "digits-1" / "ckpt").exists()


def test_a_scheduler_that_is_killed_between_copy_and_record_copies_nothing_twice(
    executor: LocalExecutor, home: Path
) -> None:
    job = Job(executor)
    job.run()
    job.become(State.FAILED)
    job.results.step()
    executor.folder(attempt_id(1)).given_back.unlink()

    assert job.looking().step() == 1
    assert [path.name for path in (home / "runs" / "results").iterdir()] == ["digits-1"]


def test_what_could_not_be_copied_is_told_and_sent_when_asked_for(
    executor: LocalExecutor, home: Path
) -> None:
    (home / "runs").write_text("no folder")
    job = Job(executor)
    job.run()
    job.become(State.FAILED)
    job.results.step()

    found = job.results.outcome(job.workload)
    assert found is not None
    assert found.problem == "runs/results cannot be written: Not a directory"
    with tarfile.open(fileobj=io.BytesIO(b"".join(job.results.chunks(job.workload)))) as archive:
        assert archive.getnames() == ["ckpt"]
    assert (home / "runs").read_text() == "no folder"


def test_whether_files_come_is_known_of_jobs_that_this_release_began_alone(
    executor: LocalExecutor,
) -> None:
    job = Job(executor)
    assert (job.results.is_coming(job.workload), job.results.are_left(job.workload)) == (
        False,
        False,
    ), "it was never laid out"
    job.run()
    assert job.results.is_coming(job.workload)

    # As an earlier release laid it out.
    plan = executor.folder(attempt_id(1)).plan
    document = json.loads(plan.read_text())
    del document["job_id"]
    plan.write_text(json.dumps(document))
    job.become(State.FAILED)

    assert job.looking().step() == 0
    assert (job.results.is_coming(job.workload), job.results.are_left(job.workload)) == (
        False,
        True,
    )
    with tarfile.open(fileobj=io.BytesIO(b"".join(job.results.chunks(job.workload)))) as archive:
        assert archive.getnames() == ["ckpt"]


def test_more_than_is_sent_is_refused_in_words(executor: LocalExecutor) -> None:
    job = Job(
        executor, "import os; os.truncate(os.open('zeros', os.O_CREAT | os.O_RDWR), 17 << 30)"
    )
    job.run()

    with pytest.raises(TooLarge, match=r"more files than are sent, 1 of 17,408 MiB or more"):
        job.results.chunks(job.workload)


def test_one_file_is_sent_however_large_all_are(executor: LocalExecutor) -> None:
    job = Job(
        executor,
        "import os; os.truncate(os.open('zeros', os.O_CREAT | os.O_RDWR), 17 << 30)\n"
        "open('model', 'w').write('42')",
    )
    job.run()

    tar = io.BytesIO(b"".join(job.results.chunks(job.workload, "model")))
    with tarfile.open(fileobj=tar) as archive:
        assert archive.getnames() == ["model"]
    large = job.results.chunks(job.workload, "zeros")
    assert next(large)
    large.close()  # type: ignore[attr-defined] # a generator
    with pytest.raises(Conflict, match=r"there is no file '\.\./x' among what it wrote"):
        job.results.chunks(job.workload, "../x")


def test_a_job_that_never_ran_has_nothing_to_send(executor: LocalExecutor) -> None:
    job = Job(executor)

    with pytest.raises(Conflict, match="left no files, or they are gone by now"):
        job.results.chunks(job.workload)


def test_whoever_stops_listening_leaves_no_process(executor: LocalExecutor) -> None:
    job = Job(executor, "import os; os.truncate(os.open('zeros', os.O_CREAT | os.O_RDWR), 1 << 30)")
    job.run()
    sent = job.results.chunks(job.workload)
    next(sent)
    sent.close()  # type: ignore[attr-defined] # a generator


def test_an_attempt_with_a_successor_is_left_alone(executor: LocalExecutor, home: Path) -> None:
    job = Job(executor)
    job.run()
    second = replace(job.launch.attempt, attempt_id=attempt_id(2), number=2)
    workload = replace(job.workload, attempts=(*job.workload.attempts, second))
    job.launch = replace(job.launch, attempt=second, workload=workload)
    job.workload = workload
    job.run()
    job.become(State.FAILED)

    assert job.results.step() == 1
    assert sorted(p.name for p in (home / "runs" / "results" / "digits-1").iterdir()) == [
        MARK,
        "ckpt",
    ]


def test_how_much_is_kept_is_known_also_where_the_supervisor_was_killed(
    executor: LocalExecutor,
) -> None:
    code = "import time; open('ckpt', 'w').write('42'); print('up', flush=True); time.sleep(600)"
    launch = a_launch(*python(code))
    executor.start(launch)
    until(lambda: lines(executor, launch))
    folder = executor.folder(launch.attempt.attempt_id)
    os.kill(json.loads(folder.supervisor.read_text())["pid"], signal.SIGKILL)

    over = ended(executor)
    assert (over.exit_code, over.files_kept) == (None, 1)


def test_a_user_who_stops_the_copying_of_their_files_keeps_no_place_from_others(
    executor: LocalExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs: dict[WorkloadId, Workload] = {}
    for number, owner in enumerate(("alice", "bob"), start=1):
        launch = a_launch(*python(WRITES), number=number, owner=owner, results_to=owner)
        job = replace(launch.workload, workload_id=WorkloadId(owner), state=State.FAILED)
        executor.start(replace(launch, workload=job))
        until(executor.folder(launch.attempt.attempt_id).exit.exists)
        jobs[job.workload_id] = job

    def send(plan: Plan, words: Sequence[str], snapshot: Path | None) -> subprocess.Popen[bytes]:
        if plan.attempt_id == attempt_id(2):
            return send_on_errand(plan, words, snapshot)
        pipe = subprocess.PIPE
        return subprocess.Popen(["sleep", "600"], stdout=pipe, stderr=pipe)

    monkeypatch.setattr(local_results, "send_on_errand", send)
    monkeypatch.setattr(local_results, "TOGETHER_S", 0.1)
    attempts = executor._settings.state_dir / "attempts"
    turns = CopyTurns(places=1, turn_s=0)
    results = LocalResults(attempts, job_of=jobs.get, turns=turns)

    until(results.step)

    assert results.outcome(jobs[WorkloadId("bob")]) is not None
    assert results.outcome(jobs[WorkloadId("alice")]) is None
