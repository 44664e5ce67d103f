"""An errand runs as a job's user, who can make it say anything: nobody else is hurt by that."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from launches import a_launch, attempt_id, ended, python, until

from gpucommons.scheduler.core.model.types import State, UserName, WorkloadId
from gpucommons.scheduler.errors import TooManyRequests
from gpucommons.scheduler.executors.local.attempt import errand_answers, own_files, supervision
from gpucommons.scheduler.executors.local.attempt.attempt_folder import AttemptFolder, write_json
from gpucommons.scheduler.executors.local.attempt.errand_answers import Answer
from gpucommons.scheduler.executors.local.attempt.plan import Plan
from gpucommons.scheduler.executors.local.local import LocalExecutor
from gpucommons.scheduler.executors.local.local_results import LocalResults

REAL = sys.executable
PLAN = Plan(
    attempt_id="a1",
    job="digits-1",
    workers=(),
    working_dir=".",
    snapshot=None,
    max_unpacked_bytes=1 << 20,
    max_log_bytes=4096,
    home="/",
    results_to=None,
)


def an_errand(code: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-S", "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )


@pytest.fixture
def as_errand(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """What runs in place of each errand."""
    program = tmp_path / "errand"
    program.write_text("#!/bin/sh\nenv\n")
    program.chmod(0o755)
    monkeypatch.setattr(own_files.sys, "executable", str(program))
    return program


def test_nothing_of_the_services_environment_reaches_an_errand(
    monkeypatch: pytest.MonkeyPatch, as_errand: Path
) -> None:
    monkeypatch.setenv("JUPYTERHUB_API_TOKEN", "of-the-service")
    with Answer(own_files.send_on_errand(PLAN, [], None)) as answer:
        done = answer.hear(20)
    assert done is not None
    assert b"PATH=" in done.said
    assert b"of-the-service" not in done.said


@pytest.mark.parametrize("said", ["", "{", "[1]", "7", "[" * 100_000, "\\xff", "null"])
def test_what_is_no_answer_is_an_empty_one(said: str) -> None:
    with Answer(an_errand(f"import sys; sys.stdout.buffer.write(b'{said}')")) as answer:
        done = answer.hear(20)
    assert done is not None
    assert done.document() == {}


@pytest.mark.parametrize("to", ["stdout", "stderr"])
def test_an_errand_cannot_fill_the_memory_of_who_listens(to: str) -> None:
    code = f"import sys\nwhile True: sys.{to}.write('x' * 65536)"
    with Answer(an_errand(code)) as answer:
        done = answer.hear(60)
        assert sum(map(len, answer._said.values())) <= 2 * errand_answers.MAX_BYTES
    assert done is not None
    assert done.problem == "it said more than is listened to"


def test_a_child_that_holds_the_pipe_open_keeps_nobody_waiting() -> None:
    code = "import os, time\nif os.fork() == 0: time.sleep(60)\nprint('{}', flush=True)"
    with Answer(an_errand(code)) as answer:
        done = answer.hear(20)
    assert done is not None
    assert done.said == b"{}\n"


@pytest.mark.parametrize("answer", ["echo '[]'", 'echo \'{"files": "<b>"}\'', "kill -STOP $$"])
def test_the_end_of_an_attempt_does_not_wait_for_a_count_that_its_user_spoils(
    monkeypatch: pytest.MonkeyPatch, as_errand: Path, tmp_path: Path, answer: str
) -> None:
    monkeypatch.setattr(own_files, "_LATE_S", -own_files.COUNT_S)
    as_errand.write_text(f"#!/bin/sh\n{answer}\n")
    folder = AttemptFolder(tmp_path / "a1")
    folder.path.mkdir()
    write_json(folder.plan, PLAN.as_json())
    counts = own_files.Counts()
    found: list[object] = []

    def is_known() -> bool:
        found[:] = [counts.of(folder)]
        return found[0] is not None

    until(is_known)
    assert found == [{}]


def test_a_count_that_only_takes_long_on_a_busy_machine_is_waited_for(
    monkeypatch: pytest.MonkeyPatch, as_errand: Path, tmp_path: Path
) -> None:
    monkeypatch.setattr(own_files, "_LATE_S", -own_files.COUNT_S)
    held, answer = tmp_path / "held", '{"files": 1, "size_bytes": 2, "more": false}'
    os.mkfifo(held)
    as_errand.write_text(f"#!/bin/sh\nread line < {held}\necho '{answer}'\n")
    folder = AttemptFolder(tmp_path / "a1")
    folder.path.mkdir()
    write_json(folder.plan, PLAN.as_json())
    counts = own_files.Counts()
    assert [counts.of(folder) for _ in range(3)] == [None] * 3

    held.write_text("go on\n")
    found: list[object] = []
    until(lambda: found.append(counts.of(folder)) or found[-1] is not None)  # type: ignore[func-returns-value] # one expression
    assert found[-1] == {"files": 1, "size_bytes": 2, "more": False}


def test_no_file_among_some_that_were_looked_at_is_no_count(
    as_errand: Path, tmp_path: Path
) -> None:
    as_errand.write_text('#!/bin/sh\necho \'{"files": 0, "size_bytes": 0, "more": true}\'\n')
    folder = AttemptFolder(tmp_path / "a1")
    folder.path.mkdir()
    write_json(folder.plan, PLAN.as_json())
    counts = own_files.Counts()
    found: list[object] = []
    until(lambda: found.append(counts.of(folder)) or found[-1] is not None)  # type: ignore[func-returns-value] # one expression
    assert found[-1] == {}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can change the account")
def test_a_process_of_another_account_is_not_ended_for_what_a_job_handed_it(tmp_path: Path) -> None:
    folder = AttemptFolder(tmp_path / "a1")
    folder.run.mkdir(parents=True)
    write_json(folder.plan, {"account": {"uid": 54_321, "gid": 54_321, "groups": []}})
    with (folder.run / "trap").open("w") as file:
        stranger = subprocess.Popen(["/bin/sleep", "60"], stdout=file, user=54_322)
    try:
        assert not supervision.kill_those_in(folder)
        assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.wait()


class TwoOwners:
    """Two failed jobs, of ann and of bob."""

    def __init__(self, executor: LocalExecutor) -> None:
        self.jobs = {}
        for number, owner in enumerate(("ann", "bob"), start=1):
            launch = a_launch(*python("open('x', 'w').write('1'); raise SystemExit(3)"))
            spec = replace(launch.workload.spec, owner=UserName(owner), name=f"of-{owner}")
            attempt = replace(launch.attempt, attempt_id=attempt_id(number))
            workload = replace(
                launch.workload,
                workload_id=WorkloadId(owner),
                spec=spec,
                attempts=(attempt,),
                state=State.RUNNING,
            )
            executor.start(replace(launch, attempt=attempt, workload=workload))
            ended(executor)
            executor.forget(attempt.attempt_id)
            self.jobs[workload.workload_id] = replace(workload, state=State.FAILED)
        attempts = executor._settings.state_dir / "attempts"
        self.results = LocalResults(attempts, job_of=self.jobs.get)


def test_who_stops_the_copying_of_their_results_holds_up_nobody_elses(
    executor: LocalExecutor, as_errand: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()
    both = TwoOwners(executor)
    monkeypatch.setattr("gpucommons.scheduler.executors.local.local_results.TOGETHER_S", 0.1)
    monkeypatch.setattr(own_files.sys, "executable", str(as_errand))
    as_errand.write_text(
        f'#!/bin/sh\ncase "$*" in */a1-*) exec sleep 120;; esac\nexec {REAL} "$@"\n'
    )
    until(lambda: both.results.step() == 1, timeout_s=60)
    assert both.results.outcome(both.jobs[WorkloadId("bob")]) is not None
    assert both.results.outcome(both.jobs[WorkloadId("ann")]) is None


def test_fetches_that_say_nothing_are_few(
    executor: LocalExecutor, as_errand: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()
    both = TwoOwners(executor)
    monkeypatch.setattr(own_files.sys, "executable", str(as_errand))
    as_errand.write_text("#!/bin/sh\necho something; exec sleep 30\n")
    ann, bob = (both.jobs[WorkloadId(name)] for name in ("ann", "bob"))
    under_way = [both.results.chunks(ann), both.results.chunks(ann)]
    with pytest.raises(TooManyRequests, match="2 of them of jobs of ann"):
        both.results.chunks(ann)
    under_way.append(both.results.chunks(bob))
    for one in under_way:
        assert next(one) == b"something\n"
        one.close()  # type: ignore[attr-defined] # a generator
    again = both.results.chunks(ann)
    assert next(again) == b"something\n"
    again.close()  # type: ignore[attr-defined] # a generator
