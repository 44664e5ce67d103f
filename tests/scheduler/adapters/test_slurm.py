"""A Slurm that is slow, away, full or of another opinion: a sentence, and nothing lost or doubled."""

from __future__ import annotations

import json
import os
import signal
import tarfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from executor_rigs import Behaviour

from gpucommons.scheduler.adapters.settings_file import read_file
from gpucommons.scheduler.adapters.slurm.commands import Slurm, SlurmNode
from gpucommons.scheduler.adapters.slurm.nodes import Held, nodes_of
from gpucommons.scheduler.adapters.slurm.settings import SlurmPool, SlurmSettings
from gpucommons.scheduler.core.model.resources import NodeState, Pool
from gpucommons.scheduler.core.model.state import AttemptEnded
from gpucommons.scheduler.core.model.types import AttemptId, Checkpoint, PoolName, SliceId, UserName
from gpucommons.scheduler.errors import BadRequest, Misconfigured, Unavailable
from gpucommons.scheduler.executors.base import Launch
from tests.contracts.test_executor import (
    ENDS,
    RUNS,
    end_of,
    has_printed,
    launch,
    lines,
    runs,
    stopping,
    until,
)
from tests.scheduler.adapters.slurm_rigs import SlurmRig, faked

GPU_POOL = SlurmPool(nodes=2, gpus_per_node=4, cpus_per_node=16, memory_gib_per_node=64)


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[SlurmRig]:
    made = faked(tmp_path)
    yield made
    made.clear()


def of_slurm(rig: SlurmRig) -> list[dict]:
    """The jobs that the fake Slurm has, oldest first."""
    # One that comes right now is written whole, or not there.
    files = (rig._folder / "slurm" / "jobs").glob("*/job.json")
    return [json.loads(one.read_text()) for one in sorted(files, key=lambda p: int(p.parent.name))]


def with_gpus(job: Launch, milli: int = 1000) -> Launch:
    """One GPU for each worker."""
    placed = tuple(
        replace(
            one,
            device_ids=(f"slurm-cpu-0-gpu-{rank}",),
            milli_gpu=milli,
            slice_id=SliceId(f"s-{rank}"),
        )
        for rank, one in enumerate(job.attempt.placements)
    )
    return replace(job, attempt=replace(job.attempt, placements=placed))


def is_cordoned(rig: SlurmRig) -> bool:
    return all(node.state is NodeState.CORDONED for node in rig.executor.nodes())


def has_answered(rig: SlurmRig) -> bool:
    try:
        return not is_cordoned(rig)
    except Unavailable:
        return False


def test_while_slurm_answers_nothing_what_runs_counts_as_running_and_what_waits_is_submitted_later(
    rig: SlurmRig, caplog: pytest.LogCaptureFixture
) -> None:
    job, later = launch(rig, Behaviour(leaves_content=True)), launch(rig, RUNS, number=2)
    rig.executor.start(job)
    runs(rig, job)
    away = rig._folder / "slurm" / "away"
    away.touch()
    until(rig, lambda: is_cordoned(rig))
    rig.executor.start(later)
    # It ends meanwhile, and Slurm alone could say that its GPUs are free.
    rig.executor.signal(stopping(rig, job), now_ms=rig.now())
    folder = rig.executor.folder(job.attempt.attempt_id)  # type: ignore[attr-defined]
    until(rig, folder.exit.exists)
    assert not any(isinstance(one, AttemptEnded) for one in rig.executor.observe())
    said = "Slurm does not answer: error: Unable to contact slurm controller (connect failure)"
    assert caplog.text.count(said) == 1
    away.unlink()
    assert end_of(rig, job).told
    runs(rig, later)
    assert [one["name"][-1] for one in of_slurm(rig)] == ["1", "2"]


def test_a_scheduler_that_starts_while_slurm_is_away_takes_over_nothing_and_is_asked_again(
    rig: SlurmRig,
) -> None:
    job = launch(rig, RUNS)
    rig.executor.start(job)
    runs(rig, job)
    (rig._folder / "slurm" / "away").touch()
    rig.restart()
    with pytest.raises(Unavailable, match="Slurm does not answer"):
        rig.executor.adopt([job.attempt])
    with pytest.raises(Unavailable, match="has not answered yet"):
        rig.executor.nodes()
    (rig._folder / "slurm" / "away").unlink()
    until(rig, lambda: has_answered(rig))
    assert [one.running for one in rig.executor.adopt([job.attempt])] == [True]


def test_the_loop_waits_once_and_no_more_for_a_slurm_that_hangs(tmp_path: Path) -> None:
    rig = faked(tmp_path, patience_s=1.0)
    squeue = tmp_path / "slurm" / "squeue"
    answers = squeue.read_text()
    squeue.write_text("#!/bin/sh\nexec sleep 600\n")
    rig.restart()
    with pytest.raises(Unavailable):
        rig.executor.adopt(())
    before_s = time.monotonic()
    for _ in range(3):
        with pytest.raises(Unavailable, match="nothing is taken over yet"):
            rig.executor.adopt(())
    assert time.monotonic() < before_s + 0.5
    squeue.write_text(answers)
    rig.clear()


def test_one_that_began_before_slurm_let_itself_be_taken_over_is_not_taken_for_a_stranger(
    rig: SlurmRig,
) -> None:
    job = launch(rig, RUNS)
    rig.executor.start(job)
    runs(rig, job)
    # As it was known when Slurm did not answer, before this one began.
    rig.executor.adopt(())
    folder = rig.executor.folder(job.attempt.attempt_id)  # type: ignore[attr-defined]
    assert not folder.stop.exists()
    assert [one["state"] for one in of_slurm(rig)] == ["RUNNING"]


def test_one_that_died_between_submitting_and_writing_that_down_submits_nothing_twice(
    rig: SlurmRig,
) -> None:
    job = launch(rig, RUNS)
    rig.executor.start(job)
    runs(rig, job)
    rig.executor.close()
    folder = rig.executor.folder(job.attempt.attempt_id)  # type: ignore[attr-defined]
    for file in (folder.path / "submitted.json", folder.supervisor):
        file.unlink()
    rig.restart()
    rig.executor.adopt([job.attempt])
    rig.executor.start(job)
    until(rig, (folder.path / "submitted.json").exists)
    assert len(of_slurm(rig)) == 1
    assert json.loads((folder.path / "submitted.json").read_text()) == {"number": "1"}


def test_one_that_began_and_whose_submission_nobody_wrote_down_does_not_run_for_ever(
    rig: SlurmRig,
) -> None:
    job = launch(rig, RUNS)
    rig.executor.start(job)
    runs(rig, job)
    rig.executor.close()
    folder = rig.executor.folder(job.attempt.attempt_id)  # type: ignore[attr-defined]
    (folder.path / "submitted.json").unlink()
    rig.restart()
    rig.executor.adopt([job.attempt])
    os.kill(json.loads(folder.supervisor.read_text())["pid"], signal.SIGKILL)
    assert end_of(rig, job).text == "Slurm ended it: FAILED"


def test_what_slurm_refuses_is_a_failed_start_in_its_own_words(tmp_path: Path) -> None:
    rig = faked(tmp_path, of_pool={"partition": "nowhere"})
    job = launch(rig, RUNS)
    rig.executor.start(job)
    end = end_of(rig, job)
    assert end.start_failed
    assert end.text.startswith("Slurm does not take this job: sbatch: error: Batch job submission")
    assert end.text.endswith("Invalid partition name specified")
    rig.executor.forget(job.attempt.attempt_id)
    rig.restart()
    rig.executor.start(job)
    assert end_of(rig, job).start_failed
    rig.clear()


def test_one_that_slurm_does_not_take_now_keeps_no_other_one_from_starting_or_stopping(
    rig: SlurmRig,
) -> None:
    slurm = Slurm(patience_s=20, folder=rig._folder / "slurm")
    number = slurm.submit(["--job-name=theirs", "--gres=gpu:4"], "exec sleep 600\n")
    waiting, stuck, other = (launch(rig, RUNS, number=number) for number in (1, 2, 3))
    waiting = with_gpus(waiting)
    rig.executor.start(waiting)
    until(rig, lambda: len(of_slurm(rig)) == 2)
    sbatch = rig._folder / "slurm" / "sbatch"
    real = sbatch.with_name("sbatch.real")
    real.write_text(sbatch.read_text().replace("Path(sys.argv[0]).name", "'sbatch'"))
    real.chmod(0o755)
    sbatch.write_text(
        f'#!/bin/sh\ncase "$*" in *{stuck.attempt.attempt_id}*)'
        f' echo "sbatch: error: something new" >&2; exit 1;; esac\nexec {real} "$@"\n'
    )
    rig.executor.start(stuck)
    rig.executor.start(other)
    runs(rig, other)
    rig.executor.signal(stopping(rig, waiting), now_ms=rig.now())
    end_of(rig, waiting)
    assert [one["name"][-1] for one in of_slurm(rig)[1:]] == ["1", "3"]
    slurm.cancel(number, kill=True)


def test_what_can_never_run_on_slurm_is_refused_with_what_can(rig: SlurmRig) -> None:
    with pytest.raises(Misconfigured, match="whole GPUs only: ask for whole ones"):
        rig.executor.start(with_gpus(launch(rig, RUNS), milli=500))
    with pytest.raises(Misconfigured, match="5 GPUs together, and a node of this pool has 4"):
        rig.executor.start(with_gpus(launch(rig, RUNS, workers=5)))
    job = launch(rig, RUNS)
    elsewhere = Checkpoint(
        attempt_id=AttemptId("elsewhere"),
        step=1,
        path="c/1",
        size_bytes=1,
        sha256="",
        at_ms=rig.now(),
    )
    with pytest.raises(Misconfigured, match="Its checkpoint lies where another pool keeps files"):
        rig.executor.start(replace(job, attempt=replace(job.attempt, resumed_from=elsewhere)))
    assert of_slurm(rig) == []


def test_what_slurm_refused_to_an_earlier_lead_is_no_end_of_what_another_replica_started(
    tmp_path: Path,
) -> None:
    rig = faked(tmp_path, of_pool={"partition": "nowhere"})
    job = launch(rig, RUNS)
    rig.executor.start(job)
    assert end_of(rig, job).start_failed
    rig.executor.rest()
    # Slurm has that partition by now, and the other replica had it started.
    sbatch = tmp_path / "slurm" / "sbatch"
    sbatch.write_text(sbatch.read_text().replace('== "nowhere"', '== "gone"'))
    mine, rig.executor = rig.executor, rig._boot()
    rig.executor.start(job)
    runs(rig, job)
    rig.executor.close()
    rig.executor = mine
    assert [one.running for one in rig.executor.adopt([job.attempt])] == [True]
    assert not any(isinstance(one, AttemptEnded) for one in rig.executor.observe())
    rig.clear()


def test_each_worker_sees_its_own_of_the_gpus_that_slurm_gave(rig: SlurmRig) -> None:
    job = with_gpus(launch(rig, RUNS, workers=2))
    tells = ("sh", "-c", "echo sees $CUDA_VISIBLE_DEVICES; exec sleep 600")
    role = replace(job.workload.spec.roles[0], command=tells)
    spec = replace(job.workload.spec, roles=(role,))
    rig.executor.start(replace(job, workload=replace(job.workload, spec=spec)))
    for rank in range(2):
        until(rig, lambda rank=rank: has_printed(rig, job, rank))  # type: ignore[misc] # bound
        assert lines(rig, job, rank) == [f"sees {rank}"]
    assert [one["gpus"] for one in of_slurm(rig)] == [[0, 1]]


def test_gpus_that_slurm_gave_to_others_are_not_the_pools_and_those_of_our_jobs_stay(
    rig: SlurmRig,
) -> None:
    until(rig, lambda: has_answered(rig))
    assert len(rig.executor.nodes()[0].devices) == 4
    slurm = Slurm(patience_s=20, folder=rig._folder / "slurm")
    stranger = ["--job-name=theirs", "--gres=gpu:3"]
    number = slurm.submit(stranger, "exec sleep 600\n")
    until(rig, lambda: len(rig.executor.nodes()[0].devices) == 1)
    job = with_gpus(launch(rig, RUNS))
    rig.executor.start(job)
    runs(rig, job)
    (node,) = rig.executor.nodes()
    assert [one.device_id for one in node.devices] == ["slurm-cpu-0-gpu-0"]
    slurm.cancel(number, kill=True)
    until(rig, lambda: len(rig.executor.nodes()[0].devices) == 4)


def test_a_gpu_that_our_job_waits_for_in_slurms_queue_is_not_free_for_another_one(
    tmp_path: Path,
) -> None:
    rig = faked(tmp_path, of_pool={"nodes": 2})
    slurm = Slurm(patience_s=20, folder=tmp_path / "slurm")
    # One of the four GPUs is left, and ours asks for two.
    number = slurm.submit(["--job-name=theirs", "--gres=gpu:3"], "exec sleep 600\n")
    until(rig, lambda: has_answered(rig) and sum(len(n.devices) for n in rig.executor.nodes()) == 1)
    job = with_gpus(launch(rig, RUNS, workers=2))
    rig.executor.start(job)
    folder = rig.executor.folder(job.attempt.attempt_id)  # type: ignore[attr-defined]
    until(rig, (folder.path / "submitted.json").exists)
    assert [len(node.devices) for node in rig.executor.nodes()] == [2, 0]
    slurm.cancel(number, kill=True)
    runs(rig, job)
    until(rig, lambda: sum(len(node.devices) for node in rig.executor.nodes()) == 4)
    rig.clear()


def test_one_that_waits_in_slurms_queue_is_taken_out_of_it_by_a_stop(rig: SlurmRig) -> None:
    slurm = Slurm(patience_s=20, folder=rig._folder / "slurm")
    number = slurm.submit(["--job-name=theirs", "--gres=gpu:4"], "exec sleep 600\n")
    job = with_gpus(launch(rig, RUNS))
    rig.executor.start(job)
    until(rig, lambda: len(of_slurm(rig)) == 2)
    rig.executor.signal(stopping(rig, job), now_ms=rig.now())
    assert end_of(rig, job).exit_code is None
    assert of_slurm(rig)[1]["state"] == "CANCELLED"
    slurm.cancel(number, kill=True)
    assert rig.starts(job) == 0


def test_one_that_slurm_killed_without_a_word_is_lost_and_not_failed(rig: SlurmRig) -> None:
    job = launch(rig, RUNS)
    rig.executor.start(job)
    runs(rig, job)
    folder = rig.executor.folder(job.attempt.attempt_id)  # type: ignore[attr-defined]
    os.kill(json.loads(folder.supervisor.read_text())["pid"], signal.SIGKILL)
    end = end_of(rig, job)
    assert (end.exit_code, end.start_failed) == (None, False)
    assert end.text == "Slurm ended it: FAILED"


def test_slurms_own_sigterm_reaches_the_workers_as_a_preemption(rig: SlurmRig) -> None:
    job = launch(rig, RUNS)
    rig.executor.start(job)
    runs(rig, job)
    folder = rig.executor.folder(job.attempt.attempt_id)  # type: ignore[attr-defined]
    supervisor = json.loads(folder.supervisor.read_text())["pid"]
    above = Path(f"/proc/{supervisor}/stat").read_text().rpartition(")")[2].split()[1]
    os.kill(int(above), signal.SIGTERM)
    end = end_of(rig, job)
    assert (end.exit_code, end.told, end.killed) == (143, True, False)


@pytest.mark.parametrize(
    ("state", "takes"), [("IDLE", True), ("MIXED", True), ("IDLE+DRAIN", False), ("DOWN*", False)]
)
def test_nodes_are_read_as_slurm_prints_them(tmp_path: Path, state: str, takes: bool) -> None:
    (tmp_path / "scontrol").write_text(
        "#!/bin/sh\necho 'NodeName=n1 Arch=x86_64 Gres=gpu:a100:4(S:0-1),gpu:h100:2 GresDrain=N/A"
        f" GresUsed=gpu:a100:3(IDX:0-2),gpu:h100:0(IDX:N/A) State={state} Partitions=gpu,long Reason=x'\n"
    )
    (tmp_path / "scontrol").chmod(0o755)
    (node,) = Slurm(patience_s=20, folder=tmp_path).nodes()
    assert node == SlurmNode(
        partitions=frozenset({"gpu", "long"}),
        takes_work=takes,
        gpus={"a100": 4, "h100": 2},
        used={"a100": 3, "h100": 0},
    )


@pytest.mark.parametrize(
    ("gres", "gpus"),
    [
        ("gpu:4", {"": 4}),
        ("gpu:3090:4(S:0-1)", {"3090": 4}),
        ("gpu:2080ti:8(IDX:0-7)", {"2080ti": 8}),
        ("gpu:1g.10gb:7,gpu:a100:1", {"1g.10gb": 7, "a100": 1}),
        ("gpu:4(S:0-1),shard:16", {"": 4}),
        ("(null)", {}),
    ],
)
def test_types_of_gpus_may_begin_with_a_digit(tmp_path: Path, gres: str, gpus: dict) -> None:
    (tmp_path / "scontrol").write_text(
        f"#!/bin/sh\necho 'NodeName=n1 Gres={gres} GresUsed=(null) State=IDLE Partitions=gpu'\n"
    )
    (tmp_path / "scontrol").chmod(0o755)
    (node,) = Slurm(patience_s=20, folder=tmp_path).nodes()
    assert node.gpus == gpus


@pytest.mark.parametrize(
    ("asked", "free"),
    [
        ({}, 3),
        ({"gpu_type": "a100"}, 1),
        ({"partition": "cpu"}, 0),
        ({"nodes": 1, "gpus_per_node": 1}, 1),
    ],
)
def test_a_pool_has_at_most_what_its_admin_said_and_what_is_free_of_its_kind(
    asked: dict, free: int
) -> None:
    node = SlurmNode(
        partitions=frozenset({"gpu"}),
        takes_work=True,
        gpus={"a100": 4, "h100": 2},
        used={"a100": 3},
    )
    pool = Pool(name=PoolName("far"), executor="slurm")
    found = list(nodes_of(pool, GPU_POOL.model_copy(update=asked), [node], held=Held(), away=False))
    assert sum(len(one.devices) for one in found) == free


def test_a_command_that_hangs_is_no_answer(tmp_path: Path) -> None:
    (tmp_path / "squeue").write_text("#!/bin/sh\nexec sleep 600\n")
    (tmp_path / "squeue").chmod(0o755)
    slurm = Slurm(patience_s=0.2, folder=tmp_path)
    with pytest.raises(Unavailable, match=r"Slurm did not answer squeue within 0.2 s"):
        slurm.jobs()
    with pytest.raises(
        Unavailable, match="Slurm's command scontrol cannot be run here: No such file"
    ):
        slurm.nodes()


@pytest.mark.parametrize(
    ("first", "refusal"),
    [
        ("AssocMaxSubmitJobLimit", Unavailable),
        ("QOSMaxSubmitJobPerUserLimit", Unavailable),
        ("QOSMaxWallDurationPerJobLimit", Misconfigured),
    ],
)
def test_a_limit_on_how_many_wait_refuses_for_now_and_one_on_the_job_for_good(
    tmp_path: Path, first: str, refusal: type[Exception]
) -> None:
    (tmp_path / "sbatch").write_text(
        f"#!/bin/sh\necho 'sbatch: error: {first}\nsbatch: error: Batch job submission failed: Job violates"
        " accounting/QOS policy (job submit limit, the size and/or time limits)' >&2\nexit 1\n"
    )
    (tmp_path / "sbatch").chmod(0o755)
    with pytest.raises(refusal, match=first):
        Slurm(patience_s=20, folder=tmp_path).submit([], "")


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("folder: shared", "folder: must be an absolute path"),
        ("trusted_users: false", "trusted_users: "),
        ("pools: {far: {partition: 'a b; rm'}}", "partition: "),
        ("pools: [", "line 1"),
    ],
)
def test_settings_that_cannot_be_are_refused_with_the_field(
    tmp_path: Path, text: str, sentence: str
) -> None:
    file = tmp_path / "slurm.yaml"
    file.write_text(text)
    with pytest.raises(BadRequest) as refused:
        read_file(file, SlurmSettings, executor="slurm")
    assert sentence in str(refused.value)
    with pytest.raises(BadRequest, match="start the scheduler with --executor slurm=FILE"):
        read_file(None, SlurmSettings, executor="slurm")


def test_a_scheduler_that_is_root_submits_nothing_as_root(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    with pytest.raises(Misconfigured, match="every user's job would be root on its nodes"):
        faked(tmp_path, jobs_as_root=False)


def test_copies_of_files_go_with_the_last_attempt_that_needs_them(
    rig: SlurmRig, tmp_path: Path
) -> None:
    content = tmp_path / "content.tar"
    with tarfile.open(content, "w"):
        pass
    executor = rig.executor
    executor._copies._path_of = lambda _sha: content  # type: ignore[attr-defined]
    jobs = [
        of_files(launch(rig, ENDS, number=number), sha) for number, sha in ((1, "aa"), (2, "bb"))
    ]
    for job in jobs:
        executor.start(job)
    copies = tmp_path / "shared" / "snapshots"
    assert {copy.name for copy in copies.iterdir()} == {"aa", "bb"}
    for job in jobs:
        end_of(rig, job)
    executor.forget(jobs[0].attempt.attempt_id)
    assert {copy.name for copy in copies.iterdir()} == {"bb"}
    rig.restart()
    rig.executor.adopt([jobs[1].attempt])
    assert {copy.name for copy in copies.iterdir()} == {"bb"}
    rig.restart()
    rig.executor.adopt([])
    assert not list(copies.iterdir())


def of_files(job: Launch, sha: str) -> Launch:
    spec = replace(job.workload.spec, snapshot=sha)
    return replace(job, workload=replace(job.workload, spec=spec))


@pytest.mark.parametrize("owner", ["..", ".", "a/../../etc"])
def test_an_owner_whose_home_would_be_elsewhere_is_refused(rig: SlurmRig, owner: str) -> None:
    job = launch(rig, RUNS)
    spec = replace(job.workload.spec, owner=UserName(owner))
    with pytest.raises(Misconfigured, match="cannot be the name of a home folder"):
        rig.executor.start(replace(job, workload=replace(job.workload, spec=spec)))


@pytest.mark.parametrize("name", ["gpucommons-", "gpucommons-.", "gpucommons-../theirs"])
def test_a_job_whose_name_is_no_id_is_somebody_elses(
    rig: SlurmRig, tmp_path: Path, name: str
) -> None:
    theirs = tmp_path / "shared" / "theirs"
    theirs.mkdir()
    slurm = Slurm(patience_s=10, folder=tmp_path / "slurm")
    slurm.submit([f"--job-name={name}"], "#!/bin/sh\nexec sleep 600\n")
    try:
        rig.executor.adopt([])
        assert [one["state"] for one in of_slurm(rig)] == ["RUNNING"]
        assert not list(theirs.iterdir())
        assert not (tmp_path / "shared" / "attempts" / "stop.json").exists()
    finally:
        slurm.cancel("1")
