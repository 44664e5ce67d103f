"""Arrays of Slurm's: each task by its index, begun or not, and who waits for it."""

from __future__ import annotations

import os
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from command_line import Cli, WatchedWorld
from hypothesis import given
from hypothesis import strategies as st

from gpucommons.scheduler.background_tasks.sweeps import Sweeps
from gpucommons.scheduler.cli.slurm_commands import quantities
from gpucommons.scheduler.executors.fake import Script as Played

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


def test_an_array_becomes_a_map_with_its_limit(cli: Cli, old: Path, world: WatchedWorld) -> None:
    done = cli("sbatch", "--array=1-5:2%1", "old_job.sh")

    assert done.out == "Submitted batch job train-digits-v2-1\n"
    (array,) = cli("sweep", "list", "--output", "json").json["sweeps"]
    assert (array["kind"], array["trials_of"], array["max_parallel"]) == ("map", 3, 1)
    assert "· by ann with sbatch ·" in cli("sweep", "show", array["name"]).out
    upkeep = Sweeps(world.service, epoch=lambda: world.loop.epoch)
    upkeep.step()
    upkeep.step()
    (first,) = cli("jobs", "--output", "json").json["jobs"]  # one at once
    env = asked(cli, first["id"])["env"]
    assert env["SLURM_ARRAY_TASK_ID"] == "1"
    assert [env[f"SLURM_ARRAY_TASK_{name}"] for name in ("COUNT", "MIN", "MAX")] == ["3", "1", "5"]
    assert cli("squeue", "-h", "-j", "train-digits-v2-1_1", "-o", "%F %K %T %.4D|").out == (
        "train-digits-v2-1 1 CONFIGURING    1|\n"
    )
    rows = cli("sacct", "-nP", "-j", "train-digits-v2-1_1", "-o", "JobID,State,AllocCPUS").out
    assert rows == "train-digits-v2-1_1|CONFIGURING|4\n"
    cli("scancel", "train-digits-v2-1")
    assert cli("jobs", "--output", "json").json["jobs"][0]["state"] in {"cancelling", "cancelled"}
    upkeep.step()
    (array,) = cli("sweep", "list", "--output", "json").json["sweeps"]
    assert (array["ended_ms"] is not None, array["begun"]) == (True, 1)


def test_a_task_has_the_number_of_its_index_everywhere(
    cli: Cli, old: Path, world: WatchedWorld
) -> None:
    cli("sbatch", "--array=0-4%2", "-J", "train", "--wrap", "true")
    upkeep = Sweeps(world.service, epoch=lambda: world.loop.epoch)
    for _ in range(3):
        upkeep.step()

    names = [job["name"] for job in cli("jobs", "--output", "json").json["jobs"]]
    assert sorted(names) == ["train-1-0", "train-1-1"]
    assert ", 0 of map train-1" in cli("show", "train-1-0").out
    # Only these commands read Slurm's way to write it.
    assert "no job 'train-1_0'" in cli("show", "train-1_0").err
    trials = cli("sweep", "show", "train-1", "--output", "json").json["trials"]
    assert [one["number"] for one in trials] == [0, 1]
    # What has not begun stands in one line, as Slurm has it, or in one for each task.
    listed = cli("squeue", "-h", "-o", "%i %j %T %r").out.splitlines()
    assert listed[-1] == "train-1_[2-4%2] train PENDING JobArrayTaskLimit"
    assert {line.split()[0] for line in listed[:2]} == {"train-1_0", "train-1_1"}
    apart = cli("squeue", "-hr", "-j", "train-1_[1-3]", "-o", "%i").out.split()
    assert apart == ["train-1_1", "train-1_2", "train-1_3"]
    assert "train-1_[2" not in cli("squeue", "-t", "R,CF").out
    # What a script is told as its numbers is taken, too.
    number = cli("squeue", "-h", "-j", "train-1_1", "-o", "%A").out.strip()
    assert cli("squeue", "-h", "-j", number, "-o", "%i").out == "train-1_1\n"

    assert cli("scancel", "train-1_[0-1]").out.split()[::2][:1] == ["train-1_0"]
    (array,) = cli("sweep", "list", "--output", "json").json["sweeps"]
    assert array["ended_ms"] is None  # two tasks are cancelled, and the array goes on
    assert "train-1_5: there is no such task" in cli("scancel", "train-1_5").err
    assert "train-1_4 has not begun" in cli("sacct", "-j", "train-1_4").err
    cli("scancel", str(int(array["id"][-7:], 16)))
    upkeep.step()
    (array,) = cli("sweep", "list", "--output", "json").json["sweeps"]
    assert array["ended_ms"] is not None
    assert "none of the newest 500, has the number 12" in cli("scancel", "12").err


def test_tasks_that_have_not_begun_are_cancelled_and_the_others_take_their_turn(
    cli: Cli, old: Path, world: WatchedWorld
) -> None:
    cli("sbatch", "--array=0-5%1", "-J", "train", "--wrap", "true")
    upkeep = Sweeps(world.service, epoch=lambda: world.loop.epoch)
    upkeep.step()
    upkeep.step()
    done = cli("scancel", "train-1_[1-3]")
    assert (done.code, done.out) == (0, "train-1_[1-3] cancelled before they began\n")
    assert cli("squeue", "-h", "-j", "train-1", "-o", "%i").out.split()[-1] == "train-1_[4-5%1]"
    # One that has begun and one that has not, by one name.
    done = cli("scancel", "train-1_[0,5]")
    assert "train-1_0 cancel" in done.out
    assert "train-1_5 cancelled before it began" in done.out
    for _ in range(4):
        world.pass_time(1000)
        upkeep.step()
    jobs = cli("jobs", "--all", "--output", "json").json["jobs"]
    assert sorted(job["name"] for job in jobs) == ["train-1-0", "train-1-4"]
    world.machine.script_of = lambda _: Played(run_ms=1000)
    cli("scancel", "train-1_4")
    for _ in range(8):
        world.pass_time(10_000)
        upkeep.step()
    view = cli("sweep", "show", "train-1", "--output", "json").json
    assert view["text"] == "All its jobs are over."
    told = {one["number"]: one["text"] for one in view["trials"]}
    assert {told[number] for number in (1, 2, 3, 5)} == {"It was cancelled."}


def test_filters_hold_for_tasks_that_have_not_begun(
    cli: Cli, old: Path, world: WatchedWorld
) -> None:
    cli("sbatch", "--array=0-3%1", "-J", "train", "--wrap", "true")
    upkeep = Sweeps(world.service, epoch=lambda: world.loop.epoch)
    upkeep.step()
    upkeep.step()
    done = cli("scancel", "-t", "R", "train-1_3")
    assert "train-1_3 is not cancelled" in done.err
    cli("scancel", "-u", "ann", "-t", "PD")
    assert cli("squeue", "-h", "-o", "%i").out.split() == ["train-1_0"]


def test_a_task_waits_for_the_one_of_its_index(cli: Cli, old: Path, world: WatchedWorld) -> None:
    world.machine.script_of = lambda _: Played(run_ms=60_000)
    cli("sbatch", "--array=2-4", "-J", "first", "--wrap", "true")
    upkeep = Sweeps(world.service, epoch=lambda: world.loop.epoch)
    upkeep.step()
    upkeep.step()
    before = {
        one["number"]: one["job_id"]
        for one in cli("sweep", "show", "first-1", "--output", "json").json["trials"]
    }
    words = ("--dependency=aftercorr:first-1", "-J", "then", "--wrap", "true")
    assert cli("sbatch", "--array=3-4", *words).code == 0
    upkeep.step()
    upkeep.step()
    for index in (3, 4):
        assert asked(cli, f"then-1-{index}")["after"] == [before[index]]
    # It waits for the one of its number, and for no other.
    cli("scancel", "first-1_3")
    for _ in range(30):
        world.pass_time(10_000)
        upkeep.step()
    states = cli("sacct", "-nP", "-j", "then-1", "-o", "JobID,State").out.split()
    assert "then-1_4|COMPLETED" in states
    assert "then-1_3|FAILED" in states

    assert "first-1 has no task 7" in cli("sbatch", "--array=7", *words).err
    assert "give it an --array" in cli("sbatch", *words).err
    cli("sbatch", "--array=0-2%1", "-J", "few", "--wrap", "true")
    done = cli("sbatch", "--array=0-2", "--dependency=aftercorr:few-1", "--wrap", "true")
    assert (done.code, "Leave % out of its --array" in done.err) == (2, True)


def test_tasks_that_never_began_are_known_and_over(
    cli: Cli, old: Path, world: WatchedWorld
) -> None:
    cli("sbatch", "--array=0-3", "-J", "first", "--wrap", "true")
    told = "first-1_[2-3] cancelled before they began\n"
    # Before the next look at the array, and after it.
    assert (cli("scancel", "first-1_[2-3]").out, cli("scancel", "first-1_[2-3]").out) == (
        told,
        told,
    )
    upkeep = Sweeps(world.service, epoch=lambda: world.loop.epoch)
    upkeep.step()
    upkeep.step()
    assert cli("scancel", "first-1_3").out == "first-1_3 cancelled before it began\n"
    done = cli("sacct", "-nP", "-j", "first-1_[0-2]", "-o", "JobID")
    assert (done.code, done.out.split()) == (0, ["first-1_0", "first-1_1"])
    assert "first-1_[2] was cancelled before it began: there is no job to tell of." in done.err

    for word in ("afterok", "afternotok"):
        for ref, tasks in (("first-1", "2-3"), ("first-1_[1-2]", "2")):
            done = cli("sbatch", f"--dependency={word}:{ref}", "--wrap", "true")
            assert done.code == 2
            assert f"first-1_[{tasks}] never began and never will" in done.err
    cli("sbatch", "--dependency=afterany:first-1", "-J", "last", "--wrap", "true")
    assert len(asked(cli, "last-1")["after_any"]) == 2
    words = ("--dependency=aftercorr:first-1", "-J", "then", "--wrap", "true")
    assert cli("sbatch", "--array=0-1", *words).code == 0
    assert "first-1 has no task 2 to wait for" in cli("sbatch", "--array=1-2", *words).err


def test_tasks_of_a_stopped_array_are_known(cli: Cli, old: Path, world: WatchedWorld) -> None:
    cli("sbatch", "--array=0-3%1", "-J", "first", "--wrap", "true")
    upkeep = Sweeps(world.service, epoch=lambda: world.loop.epoch)
    upkeep.step()
    upkeep.step()
    cli("scancel", "first-1")
    for _ in range(3):
        world.pass_time(1000)
        upkeep.step()
    assert cli("scancel", "first-1_2").out == "first-1_2 cancelled before it began\n"
    assert "never began" in cli("sbatch", "--dependency=afterok:first-1", "--wrap", "true").err
    assert cli("sbatch", "--dependency=afterany:first-1", "--wrap", "true").code == 0


def test_arrays_are_found_however_many_others_are_newer(
    cli: Cli, old: Path, world: WatchedWorld
) -> None:
    words = ("sbatch", "--array=0-3%1", "--wrap", "true", "-J")
    assert cli(*words, "oldest", by="ada").code == 0
    world.pass_time(1000)
    for _ in range(20):
        assert cli(*words, "newer").code == 0
    listed = cli("squeue", "-h", "-o", "%i %u", by="ada").out.splitlines()
    assert len(listed) == 21
    assert listed[-1] == "oldest-1_[0-3%1] ada"
    number = cli("squeue", "-h", "-u", "ada", "-o", "%A", by="ada").out.strip()
    told = "oldest-1_0 cancelled before it began\n"
    assert cli("scancel", f"{number}_0", by="ada").out == told
    # The number of an array none of which has begun.
    told = "oldest-1_[1-3] cancelled before they began\n"
    assert cli("scancel", number, by="ada").out == told
    assert cli("squeue", "-h", "-u", "ada", "-o", "%i", by="ada").out.strip() == ""


@given(st.sets(st.integers(0, 60), min_size=1))
def test_tasks_are_written_as_they_are_read(indices: set[int]) -> None:
    text = quantities.ranges(sorted(indices))
    assert quantities.indices(text) == tuple(sorted(indices))


def test_an_array_without_a_limit_comes_into_line_whole_and_can_be_waited_for(
    cli: Cli, old: Path, world: WatchedWorld
) -> None:
    assert cli("sbatch", "--parsable", "--array=0-2", "old_job.sh").out == "train-digits-v2-1\n"
    upkeep = Sweeps(world.service, epoch=lambda: world.loop.epoch)
    upkeep.step()
    upkeep.step()
    cli("sbatch", "--dependency=afterany:train-digits-v2-1", "-J", "last", "--wrap", "true")
    assert len(asked(cli, "last-1")["after_any"]) == 3
    cli("sbatch", "--array=0-2%1", "-J", "few", "--wrap", "true")
    done = cli("sbatch", "--dependency=afterok:few-1", "--wrap", "true")
    assert (done.code, "few-1 has begun 0 of its 3 jobs" in done.err) == (2, True)
    done = cli("sbatch", "--dependency=afterok:few-1_7", "--wrap", "true")
    assert "few-1_7: there is no such task of an array" in done.err
