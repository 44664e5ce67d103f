"""Slurm's habits: a batch script becomes a job, and nothing of its lines is passed over in silence."""

from __future__ import annotations

import io
import json
import os
import subprocess
import tarfile
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from command_line import Cli
from hypothesis import given, settings
from hypothesis import strategies as st

from gpucommons.scheduler.cli.slurm_commands import options, quantities
from gpucommons.scheduler.cli.slurm_commands.batch import Script, batch_job
from gpucommons.scheduler.client.submission import request_for_file
from gpucommons.scheduler.errors import BadRequest

NOW_MS = int(datetime(2026, 11, 24, 15, 0).timestamp() * 1000)
OPTIONS = (
    "--gres", "--gpus", "--gpus-per-task", "--ntasks", "--nodes", "--mem", "--mem-per-cpu", "--time",
    "--array", "--dependency", "--signal", "--begin", "--export", "--cpus-per-gpu", "--exclusive", "-h",
)  # fmt: skip
OLD = """#!/bin/bash -l
# An old friend
#SBATCH -J Train_Digits.v2
#SBATCH --gres=gpu:2 --cpus-per-task 4   # two of them
#SBATCH --mem=8G
#SBATCH -t 0-02:30:00
#SBATCH --output=logs/%x-%j.out
#SBATCH --mail-type=END
#SBATCH --signal=B:USR1@90
#SBATCH --requeue

module load cuda
#SBATCH --this-is-no-line-for-slurm
srun python train.py "$@"
"""


@pytest.fixture
def old(home: Path) -> Path:
    folder = home / "project"
    folder.mkdir()
    (folder / "train.py").write_text("print('training')\n")
    path = folder / "old_job.sh"
    path.write_text(OLD)
    os.chdir(folder)
    return path


def asked(cli: Cli, name: str) -> dict[str, Any]:
    found: dict[str, Any] = cli("show", name, "--output", "json").json["request"]
    return found


def role_of(lines: str) -> dict[str, Any]:
    text = f"#!/bin/sh\n{lines}\ntrue\n"
    made = batch_job(
        Script(text=text), [], options.of_script(text), folder=Path("/home"), now_ms=NOW_MS
    )
    return {**made.role, **made.options, "kind": made.gpu_kind, "indices": made.indices}


def test_an_old_script_is_submitted_as_it_is(cli: Cli, old: Path) -> None:
    done = cli("sbatch", "old_job.sh", "--epochs", "5")

    assert (done.code, done.out) == (0, "Submitted batch job train-digits-v2-1\n")
    assert (
        "line 7: --output means nothing here: the log is kept with the job: gpucommons logs"
        " train-digits-v2-1\n"
    ) in done.err
    assert "line 8: --mail-type means nothing here" in done.err
    assert "line 9: --signal=B:USR1@90: the signal comes when a stop is announced" in done.err
    request = asked(cli, "train-digits-v2-1")
    (role,) = request["roles"]
    assert role["command"] == [
        "sh", "gpucommons-slurm/run", "/bin/bash", "-l", "old_job.sh", "--epochs", "5",
    ]  # fmt: skip
    assert (role["milli_gpu"], role["cpu_milli"], role["memory_mib"]) == (2000, 4000, 8192)
    assert (request["max_run_s"], request["notice_signal"]) == (9000, "SIGUSR1")
    assert "with sbatch" in cli("show", "train-digits-v2-1").out


def test_the_command_line_wins_over_the_script(cli: Cli, old: Path) -> None:
    done = cli("sbatch", "--parsable", "-J", "short", "--gpus=1", "--time", "10", str(old))

    assert done.out == "short-1\n"
    request = asked(cli, "short-1")
    assert request["max_run_s"] == 600


def test_a_command_is_wrapped(cli: Cli, old: Path) -> None:
    assert cli("sbatch", "--wrap", "nvidia-smi").out == "Submitted batch job wrap-1\n"
    command = asked(cli, "wrap-1")["roles"][0]["command"]
    assert command == ["sh", "gpucommons-slurm/run", "/bin/sh", "gpucommons-slurm/script"]


def test_a_job_waits_for_another_one(cli: Cli, old: Path) -> None:
    cli("sbatch", "--wrap", "true")
    before = cli("show", "wrap-1", "--output", "json").json["id"]
    cli("sbatch", "--dependency=afterok:wrap-1,afternotok:wrap-1", "--wrap", "true")
    request = asked(cli, "wrap-2")
    # One that must succeed and must not: what is asked is kept, and its last word holds.
    assert (request["after"], request["after_failed"]) == ([], [before])


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("#SBATCH --nodes=2", "--nodes=2: a batch script runs on one node here"),
        ("#SBATCH -N 2-4 -n 8", "gpucommons submit --workers 2"),
        ("#SBATCH --dependency=singleton --array=0-3", "write a limit of one"),
        ("#SBATCH --ntasks-per-gpu=2", "write --ntasks and --gpus-per-task"),
        ("#SBATCH --dependency=afterok:a-1?afterany:b-1", "others that succeed"),
        ("#SBATCH --array=0-3%0", "behind % stands how many run at once"),
        ("#SBATCH -G 1 --cpus-per-gpu=a100:4", "--cpus-per-gpu=a100:4: write a number from 1 on"),
        ("#SBATCH -h", "unrecognized arguments: -h"),
        ("#SBATCH --gres=shard:4", "only GPUs are known here"),
        ("#SBATCH --time=soon", "soon is no time"),
        ("#SBATCH --mem=lots", "lots is no size of memory"),
        ("#SBATCH --mem=0", "0 is no size of memory"),
        ("#SBATCH --array=5-1", "no list of numbers"),
        ("#SBATCH --array=0-100000", "more than 1,000 jobs"),
        ("#SBATCH --signal=KILL@10", "USR1 can be sent"),
        ("#SBATCH --hold", "submit it, then gpucommons pause"),
        ("#SBATCH --qos=debug", "--qos=debug is not known here"),
        ("#SBATCH --export=PATH", "do not travel with a job"),
        ("#SBATCH --nonsense=1", "line 2 (#SBATCH --nonsense=1): unrecognized arguments"),
        ("#SBATCH train.py", "only options stand in such a line"),
        ("#SBATCH -J 'half", "line 2 (#SBATCH -J 'half): No closing quotation"),
        ("#SBATCH -N", "line 2 (#SBATCH -N): argument -N/--nodes: expected one argument"),
    ],
)
def test_what_cannot_be_done_is_refused_and_nothing_is_submitted(
    cli: Cli, old: Path, line: str, says: str
) -> None:
    old.write_text(f"#!/bin/sh\n{line}\ntrue\n")
    done = cli("sbatch", "old_job.sh")
    assert done.code == 2
    assert says in done.err
    assert cli("jobs", "--output", "json").json["jobs"] == []


def test_a_file_that_is_no_script_is_refused(cli: Cli, old: Path) -> None:
    old.write_text("python train.py\n")
    assert "its first line must be #!" in cli("sbatch", "old_job.sh").err
    assert "cannot be read: No such file" in cli("sbatch", "not-there.sh").err
    old.write_bytes(b"#!/bin/sh\n\xff\xfe")
    assert "it is no text" in cli("sbatch", "old_job.sh").err


def test_a_kind_of_gpu_is_found_by_its_beginning(cli: Cli, old: Path) -> None:
    pools = cli("nodes", "--output", "json")
    assert pools.code == 0
    done = cli("sbatch", "--gres=gpu:nothing-like-it:1", "old_job.sh")
    assert (done.code, "is no single kind of GPU here. There are:" in done.err) == (2, True)


@pytest.mark.parametrize(
    ("text", "expected_s"),
    [
        ("90", 5400), ("01:30", 90), ("2:00:00", 7200), ("1-12", 129_600), ("1-00:30", 88_200),
        ("1-00:00:01", 86_401), ("UNLIMITED", None), ("0", None),
    ],
)  # fmt: skip
def test_times_are_read_as_slurm_reads_them(text: str, expected_s: int | None) -> None:
    assert quantities.seconds(text) == expected_s


def test_memory_may_be_asked_for_by_cpu_or_gpu() -> None:
    assert role_of("#SBATCH -c 4 --mem-per-cpu=2G")["memory_mib"] == 8192
    assert role_of("#SBATCH --gres=gpu:a100:2(S:0-1) --mem-per-gpu=500")["memory_mib"] == 1000
    assert role_of("#SBATCH -G a100:2")["kind"] == "a100"


def test_tasks_of_one_node_share_one_worker() -> None:
    found = role_of("#SBATCH -n 4 -c 2 --gpus-per-task=1 --mem-per-cpu=1G --exclusive=user")
    assert (found["milli_gpu"], found["cpu_milli"], found["memory_mib"]) == (4000, 8000, 8192)
    assert found["env"] == {
        "SLURM_JOB_NAME": "wrap", "SLURM_CPUS_PER_TASK": "2", "SLURM_GPUS_ON_NODE": "4",
        "SLURM_GPUS_PER_TASK": "1",
        "SLURM_MEM_PER_NODE": "8192", "SLURM_NTASKS": "4",
    }  # fmt: skip
    assert (
        role_of("#SBATCH -N 1-4 --ntasks-per-node=3 --gpus=2 --cpus-per-gpu=4")["cpu_milli"] == 8000
    )


@settings(deadline=None, max_examples=60)
@given(
    st.lists(
        st.one_of(
            st.text(max_size=40),
            st.tuples(
                st.sampled_from(OPTIONS),
                st.text(alphabet="0123456789:-,@%+.agpuknowt= ", max_size=12),
            ).map("=".join),
        ),
        max_size=5,
    )
)
def test_whatever_a_script_says_it_is_read_or_refused(lines: list[str]) -> None:
    text = "#!/bin/sh\n" + "".join(f"#SBATCH {line}\n" for line in lines)
    with suppress(BadRequest):
        asked_for = options.of_script(text)
        options.notes(asked_for, "a", options.places(text))
        batch_job(Script(text=text), [], asked_for, folder=Path("/home"), now_ms=NOW_MS)


def test_a_begin_is_local_time() -> None:
    assert role_of("#SBATCH --begin=now+2hours")["not_before_ms"] == NOW_MS + 7_200_000
    assert role_of("#SBATCH --begin=16:00")["not_before_ms"] == NOW_MS + 3_600_000
    assert role_of("#SBATCH --begin=14:00")["not_before_ms"] == NOW_MS + 23 * 3_600_000
    with pytest.raises(BadRequest, match="is no moment"):
        role_of("#SBATCH --begin=teatime")


def test_a_login_shell_finds_srun_though_its_profile_sets_another_path(tmp_path: Path) -> None:
    """As ``/etc/profile`` does for every script that begins with ``#!/bin/bash -l``."""
    text = "#!/bin/bash -l\nsrun sh -c 'echo task $SLURM_PROCID'\nscontrol show hostnames\n"
    made = batch_job(Script(text=text), [], {}, folder=tmp_path, now_ms=NOW_MS)
    _, packed = request_for_file(made.job, made.options, made.role, max_bytes=1 << 20)
    work = tmp_path / "work"
    with tarfile.open(fileobj=io.BytesIO(packed.content)) as archive:
        archive.extractall(work, filter="data")
    (tmp_path / ".bash_profile").write_text("PATH=/usr/bin:/bin\n")
    told = {"GPUCOMMONS_JOB_ID": "019a-00000fe", "GPUCOMMONS_ATTEMPT": "1"}
    done = subprocess.run(
        made.job.command, cwd=work, env={**os.environ, **told, "HOME": str(tmp_path)},
        capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    assert done.stdout.splitlines() == ["task 0", os.uname().nodename]


def test_the_script_is_told_what_slurm_tells(tmp_path: Path) -> None:
    """The files that go along, run as a worker runs them."""
    text = """#!/bin/sh
srun -n1 --gres=gpu:1 -u sh -c 'echo "$SLURM_JOB_NAME $SLURM_JOB_ID $SLURM_NTASKS $SLURM_RESTART_COUNT $1"' x "$1"
export CUDA_VISIBLE_DEVICES=0,1,2,3
srun -l sh -c 'echo "${SLURM_ARRAY_JOB_ID}_$SLURM_ARRAY_TASK_ID task $SLURM_PROCID of $SLURM_NTASKS on $CUDA_VISIBLE_DEVICES"; exit "$((SLURM_PROCID * 3))"' || echo "worst $?"
scontrol requeue "$SLURM_JOB_ID" && scontrol show hostnames
srun --ntasks 4 hostname || echo refused
"""
    asked_for: dict[str, object] = {"ntasks": 2, "gpus_per_task": "2"}
    made = batch_job(Script(text=text), ["5"], asked_for, folder=tmp_path, now_ms=NOW_MS)
    _, packed = request_for_file(made.job, made.options, made.role, max_bytes=1 << 20)
    work = tmp_path / "work"
    with tarfile.open(fileobj=io.BytesIO(packed.content)) as archive:
        archive.extractall(work, filter="data")
    told = {
        "GPUCOMMONS_JOB_ID": "019a-00000fe",
        "GPUCOMMONS_JOB_NAME": "a-1",
        "GPUCOMMONS_ATTEMPT": "2",
    }
    told |= {"SLURM_ARRAY_TASK_ID": "7", "GPUCOMMONS_PARENT_ID": "019a-00000a0"}
    told |= made.options["env"]  # type: ignore[operator] # variables
    done = subprocess.run(
        made.job.command, cwd=work, env={**os.environ, **told}, capture_output=True, text=True,
        timeout=60, check=True,
    )  # fmt: skip
    first, *tasks, node, refused = done.stdout.splitlines()
    assert (first, node, refused) == ("wrap 254 1 1 5", os.uname().nodename, "refused")
    assert sorted(tasks) == ["160_7 task 0 of 2 on 0,1", "160_7 task 1 of 2 on 2,3", "worst 3"]
    assert "gpucommons submit --workers 4 -- COMMAND" in done.stderr


def test_the_queue_is_listed_as_slurm_lists_it(cli: Cli, old: Path) -> None:
    cli("sbatch", "old_job.sh")
    header, row = cli("squeue", "--me").out.splitlines()
    assert header.split() == [
        "JOBID",
        "PARTITION",
        "USER",
        "ST",
        "TIME",
        "NODES",
        "GPUS",
        "NODELIST(REASON)",
    ]
    assert row.split()[0] == "train-digits-v2-1"
    assert row.split()[2] == "ann"
    assert cli("squeue", "-h", "-t", "SUSPENDED").out.strip() == ""
    assert "train-digits-v2-1" in cli("squeue", "-j", "train-digits-v2-1,other").out
    listed = json.loads(cli("squeue", "--output", "json").out)["jobs"]
    assert [job["name"] for job in listed] == ["train-digits-v2-1"]


def test_jobs_are_cancelled_by_name_and_all_at_once(cli: Cli, old: Path) -> None:
    for _ in range(3):
        cli("sbatch", "-J", "a", "old_job.sh")
    cli("sbatch", "-J", "b", "old_job.sh")
    assert "a-1" in cli("scancel", "a-1").out
    cli("scancel", "--name", "a")
    left = cli("jobs", "--output", "json").json["jobs"]
    assert [job["name"] for job in left if job["state"] != "cancelling"] == ["b-1"]
    assert cli("scancel").code == 2
    assert "b-1" in cli("scancel", "-u", "ann").out
    assert cli("scancel", "-u", "bob").out == "No job is like that.\n"


@pytest.mark.parametrize(
    "leaves_out", [("--states", "S"), ("--user", "bob"), ("--name", "b"), ("-t", "PD,R", "-n", "b")]
)
def test_named_jobs_are_cancelled_only_where_the_filters_leave_them(
    cli: Cli, old: Path, leaves_out: tuple[str, ...]
) -> None:
    cli("sbatch", "-J", "a", "old_job.sh")
    done = cli("scancel", *leaves_out, "a-1")
    assert (done.code, done.out) == (0, "No job is like that.\n")
    assert (
        "a-1 is not cancelled: --user, --name, --states, --account or --partition leaves it out."
        in done.err
    )
    (job,) = cli("jobs", "--output", "json").json["jobs"]
    assert job["state"] != "cancelling"
    done = cli("scancel", "-u", "ann", "-n", "a", "-t", "PD,CF,R", "a-1")
    assert "a-1" in done.out
    assert done.err == ""
