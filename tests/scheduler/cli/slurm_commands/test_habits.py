"""What hands do by habit where Slurm was: further commands, filters and columns of its lists."""

from __future__ import annotations

import os
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from command_line import Cli, WatchedWorld

from gpucommons.scheduler.background_tasks.sweeps import Sweeps
from gpucommons.scheduler.cli.slurm_commands import quantities
from gpucommons.scheduler.executors.fake import Script as Played

NOW_MS = int(datetime(2026, 11, 24, 15, 0).timestamp() * 1000)


@pytest.fixture
def project(home: Path) -> Path:
    folder = home / "project"
    folder.mkdir()
    os.chdir(folder)
    return folder


def asked(cli: Cli, name: str) -> dict[str, Any]:
    found: dict[str, Any] = cli("show", name, "--output", "json").json["request"]
    return found


def test_a_singleton_waits_for_all_of_its_name(
    cli: Cli, project: Path, world: WatchedWorld
) -> None:
    cli("sbatch", "-J", "train", "--wrap", "true")
    cli("sbatch", "-J", "train", "--wrap", "true", by="ada")
    cli("sbatch", "-J", "other", "--wrap", "true")
    cli("sbatch", "-J", "train", "--array=0-1", "--wrap", "true")
    upkeep = Sweeps(world.service, epoch=lambda: world.loop.epoch)
    upkeep.step()
    upkeep.step()
    earlier = [
        job["id"]
        for job in cli("jobs", "--owner", "ann", "--output", "json").json["jobs"]
        if job["name"].startswith("train")
    ]
    assert len(earlier) == 3

    words = ("-J", "train", "--dependency=singleton", "--wrap", "true", "--parsable")
    name = cli("sbatch", *words).out.strip()
    assert sorted(asked(cli, name)["after_any"]) == sorted(earlier)
    assert (
        asked(
            cli,
            cli(
                "sbatch", "-d", "singleton", "-J", "first", "--wrap", "true", "--parsable"
            ).out.strip(),
        )["after_any"]
        == []
    )
    cli("sbatch", "-J", "few", "--array=0-3%1", "--wrap", "true")
    done = cli("sbatch", "-J", "few", "-d", "singleton", "--wrap", "true")
    assert (done.code, "few-1 has begun" in done.err) == (2, True)


def test_variables_of_a_profile_stand_between_script_and_command_line(
    cli: Cli, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SBATCH_TIMELIMIT", "7")
    (project / "job.sh").write_text("#!/bin/sh\n#SBATCH --time=5\ntrue\n")
    cli("sbatch", "job.sh")
    cli("sbatch", "--time=9", "job.sh")
    limits = [asked(cli, f"job-{number}")["max_run_s"] for number in (1, 2)]
    assert limits == [420, 540]


@pytest.mark.parametrize("name", ["sinfo", "srun", "salloc", "scontrol", "scrontab", "seff"])
def test_other_commands_of_slurm_are_answered_with_ours(cli: Cli, name: str) -> None:
    done = cli(name, "--gres=gpu:1", "-N", "2", "bash")
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith(f"gpucommons: There is no {name} here: ")
    assert "gpucommons" in done.err.partition("here: ")[2] or "notebook" in done.err


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("squeue", "-O", "jobid,state"), "-O is not done here: write -o with letters, as in -o '%i %T'."),
        (("squeue", "-i", "2"), "watch -n 5 gpucommons squeue"),
        (("squeue", "-t", "CD"), "gpucommons sacct -s COMPLETED"),
        (("squeue", "-t", "LOST"), "LOST is no state of a job. There are PENDING (PD)"),
        (("squeue", "-o", "%all"), "%all is not known here"),
        (("squeue", "-o", "%i %E"), "%E is not known here"),
        (("squeue", "--colour"), "usage: gpucommons squeue"),
        (("scancel", "--signal=USR1", "a-1"), "gpucommons pause stops it"),
        (("sacct", "-S", "soon"), "--starttime=soon is no moment"),
        (("sacct", "-o", "MaxRSS"), "gpucommons show JOB"),
    ],
)  # fmt: skip
def test_options_that_are_none_here_are_answered(
    cli: Cli, project: Path, words: tuple[str, ...], says: str
) -> None:
    try:
        done = cli(*words)
    except SystemExit as end:  # as argparse ends
        pytest.fail(f"exit {end.code} was not caught by the test's command line")
    assert done.code == 2
    assert says in done.err


def test_the_queue_has_slurms_filters_and_lists(
    cli: Cli, project: Path, world: WatchedWorld
) -> None:
    world.machine.script_of = lambda _: Played(run_ms=600_000)
    cli("sbatch", "-J", "a", "--time=30", "--mem=1500M", "-c", "2", "--wrap", "true")
    cli("sbatch", "-J", "b", "--array=0-2", "--wrap", "true")
    world.pass_time(1000)
    assert cli("squeue", "-h", "-n", "a,c", "-o", "%j %l %C %m %V").out.split()[:4] == [
        "a", "30:00", "2", "1500M",
    ]  # fmt: skip
    # Tasks that come into line by themselves wait for no limit.
    assert cli("squeue", "-h", "-n", "b", "-o", "%i %r").out == "b-1_[0-2] None\n"
    pool = cli("squeue", "-h", "-n", "a", "-o", "%P").out.strip()
    assert cli("squeue", "-h", "-p", f"{pool},other", "-n", "a", "-o", "%j").out == "a\n"
    assert cli("squeue", "-h", "-p", "other").out.strip() == ""
    assert cli("squeue", "-h", "-u", "ann,ada", "-t", "all", "-n", "a", "-o", "%u").out == "ann\n"
    assert "TIME_LIMIT" in cli("squeue", "-l").out
    assert "START_TIME" in cli("squeue", "--start").out
    assert cli("squeue", "--json").json["jobs"][0]["name"] == "a-1"
    # A state, though the option is the state folder's for all other commands.
    assert cli("squeue", "--state", "SUSPENDED", "-h").out.strip() == ""


def test_jobs_are_cancelled_by_slurms_filters(cli: Cli, project: Path, world: WatchedWorld) -> None:
    cli("sbatch", "-J", "a", "--wrap", "true")
    pool = cli("squeue", "-h", "-o", "%P").out.strip()
    team = cli("squeue", "-h", "-o", "%a").out.strip()
    for words in (("-p", "other"), ("-A", "other"), ("--me", "-t", "S"), ("--state=S",)):
        assert cli("scancel", *words).out == "No job is like that.\n"
    assert "a-1" in cli("scancel", "--me", "-p", pool, "-A", team, "--state=PENDING,CF,R").out


def test_past_jobs_are_asked_for_by_time_and_state(
    cli: Cli, project: Path, world: WatchedWorld
) -> None:
    world.machine.script_of = lambda _: Played(run_ms=1000)
    cli("sbatch", "-J", "a", "--time=30", "--mem=2G", "--wrap", "true")
    cli("sbatch", "-J", "b", "--wrap", "true")
    cli("scancel", "b-1")
    for _ in range(20):
        world.pass_time(60_000)
    columns = ("-nPo", "JobID,State,Timelimit,ReqMem,AllocTRES")
    assert cli("sacct", *columns, "-s", "CD").out == (
        "a-1|COMPLETED|00:30:00|2G|cpu=1,mem=2G,node=1\n"
    )
    assert cli("sacct", "-nPo", "JobID", "--state=CANCELLED", "-a").out == "b-1\n"
    assert cli("sacct", "-nPo", "JobID", "--name", "b").out == "b-1\n"
    assert "ElapsedRaw" in cli("sacct", "-e").out
    assert cli("sacct", "-b", "-j", "a-1").out.split() == [
        "JobID", "State", "ExitCode", "a-1", "COMPLETED", "0:0",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("now-2hours", "2026-11-24T13:00"), ("now", "2026-11-24T15:00"), ("today", "2026-11-24T00:00"),
        ("16:00", "2026-11-24T16:00"), ("1120", "2026-11-20T00:00"), ("11/20", "2026-11-20T00:00"),
        ("2026-10-01T08:30:00", "2026-10-01T08:30"),
    ],
)  # fmt: skip
def test_moments_of_the_past_are_local_time(text: str, expected: str) -> None:
    found = quantities.past_moment_ms(text, NOW_MS, option="-S")
    assert found == datetime.fromisoformat(expected).timestamp() * 1000
