"""A Slurm that is slow, away, full or of another opinion: a sentence, and nothing lost or doubled."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from executor_rigs import Behaviour

from gpucommons.scheduler.adapters.slurm.commands import Slurm, SlurmNode
from gpucommons.scheduler.adapters.slurm.nodes import nodes_of
from gpucommons.scheduler.adapters.slurm.settings import SlurmPool, read_settings
from gpucommons.scheduler.core.model.resources import NodeState, Pool
from gpucommons.scheduler.core.model.state import AttemptEnded
from gpucommons.scheduler.core.model.types import AttemptId, Checkpoint, PoolName, SliceId
from gpucommons.scheduler.errors import BadRequest, Misconfigured, Unavailable
from gpucommons.scheduler.executors.base import Launch
from tests.contracts.test_executor import (
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
    folders = sorted((rig._folder / "slurm" / "jobs").iterdir(), key=lambda path: int(path.name))
    return [json.loads((folder / "job.json").read_text()) for folder in folders]


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
    assert [one.running for one in rig.executor.adopt([job.attempt])] == [True]


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
    found = list(nodes_of(pool, GPU_POOL.model_copy(update=asked), [node], held=(), away=False))
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
        read_settings(file)
    assert sentence in str(refused.value)
    with pytest.raises(BadRequest, match="start the scheduler with --executor slurm=FILE"):
        read_settings(None)
