"""Schedules from a terminal."""

from __future__ import annotations

from pathlib import Path

import pytest
from command_line import Cli, WatchedWorld, submitted

from gpucommons.scheduler.background_tasks.schedules import Schedules
from gpucommons.scheduler.cli.schedules.commands import local_zone
from gpucommons.scheduler.cli.schedules.describing import describe
from gpucommons.scheduler.executors.fake import Script
from gpucommons.scheduler.models import ScheduleView

ESCAPES = "\x1b]0;owned\x07"


def test_a_script_is_scheduled_listed_run_suspended_and_removed(
    cli: Cli, world: WatchedWorld, tmp_path: Path
) -> None:
    (tmp_path / "train.py").write_text("print('epoch 1')\n")
    world.script = Script(run_ms=1000)
    when = ("--schedule", "*/10 * * * *", "--time-zone", "Europe/Berlin")
    made = cli("submit", str(tmp_path / "train.py"), "--gpus", "1/2", "--name", "nightly", *when)
    assert made.code == 0, made.err
    assert made.out.splitlines()[0] == "nightly  */10 * * * * Europe/Berlin"
    assert "½ GPU: python -u train.py" in made.out
    assert "no run was started now" in made.out
    assert cli("jobs", "--all", "--output", "json").json["jobs"] == []

    at = cli("schedule", "show", "nightly", "--output", "json").json["next_ms"][0]
    world.pass_time(at - world.now_ms)
    Schedules(world.service, epoch=lambda: world.epoch).step()
    assert "nightly-1 · starting" in cli("schedule", "show", "nightly").out
    header, row = cli("schedule", "list").out.splitlines()
    assert header.split() == ["NAME", "OWNER", "TEAM", "SCHEDULE", "TIME", "ZONE", "NEXT", "LAST"]
    assert row.split()[:3] == ["nightly", "ann", "vision"]
    assert row.split()[-1] == "nightly-1"

    again = cli("submit", str(tmp_path / "train.py"), "--name", "nightly", *when)
    assert (again.code, "write it anew with --overwrite" in again.err) == (2, True)
    assert (
        cli("submit", str(tmp_path / "train.py"), "--name", "nightly", "--overwrite", *when).code
        == 0
    )
    for _ in range(3):
        world.pass_time(2000)
    assert "nightly-1 · finished" in cli("schedule", "show", "nightly").out
    assert "starts a run within seconds" in cli("schedule", "run", "nightly").out
    assert "a run was asked for" in cli("schedule", "show", "nightly").out
    assert "no more runs start" in cli("schedule", "suspend", "nightly").out
    assert "suspended" in cli("schedule", "list").out
    assert "goes on from its next time" in cli("schedule", "resume", "ann/nightly").out
    assert "its jobs stay" in cli("schedule", "remove", "nightly").out
    gone = cli("schedule", "show", "nightly")
    assert (gone.code, "no schedule 'nightly' of ann" in gone.err) == (4, True)
    assert [job["name"] for job in cli("jobs", "--all", "--output", "json").json["jobs"]] == [
        "nightly-1"
    ]


def test_a_run_is_called_forgotten_where_that_is_said_and_nothing_where_no_state_is(
    cli: Cli, script: Path
) -> None:
    assert cli("submit", str(script), "--name", "nightly", "--schedule", "@daily").code == 0
    made = cli("schedule", "show", "nightly", "--output", "json").json

    def last(**state: str) -> str:
        run = {"outcome": "started", "due_ms": 0, "job_id": "j-1", "job_name": "nightly-1"}
        view = ScheduleView.model_validate(made | {"runs": [run | state]})
        return describe(view).splitlines()[-1]

    assert last(job_state="forgotten").endswith("nightly-1 · its job is no longer kept")
    assert last().endswith("nightly-1")


def test_a_job_that_ran_is_repeated_on_what_it_may_use(cli: Cli, world: WatchedWorld) -> None:
    job = submitted(world)
    made = cli("schedule", "repeat", job.name, "--schedule", "@daily", "--time-zone", "UTC")
    assert made.out.splitlines()[0] == "digits  @daily UTC"
    assert "on borrowed GPUs" not in made.out, "it has no GPU"
    job = submitted(world, role={"milli_gpu": 500})
    made = cli("schedule", "repeat", job.name, "--schedule", "@daily", "--name", "half")
    assert "on borrowed GPUs, unless the team's policy says otherwise" in made.out
    own = ("--in-guarantee", "--concurrency-policy", "Replace", "--name", "other")
    made = cli("schedule", "repeat", job.name, "--schedule", "@daily", *own)
    assert "on guaranteed and borrowed GPUs · while a run goes on: it is cancelled" in made.out


def test_triggers_are_written_shown_and_posted_to(
    cli: Cli, world: WatchedWorld, tmp_path: Path
) -> None:
    (tmp_path / "train.py").write_text("print('epoch 1')\n")
    data = tmp_path / "data"
    triggers = ("--after-job", "clean:any", "--when-below", "accuracy=97.5")
    looks = ("--when-data", str(data), "--when-tells", "python count.py", "--look-every", "60")
    script = str(tmp_path / "train.py")
    made = cli("submit", script, "--name", "retrain", *triggers, *looks)
    assert made.code == 0, made.err
    assert made.out.splitlines()[0] == "retrain  on triggers"
    assert [line.strip() for line in made.out.splitlines() if line.startswith("  when ")] == [
        f"when {data} changed; looked at every 1 min, not looked at yet",
        "when the output of python count.py changed; looked at every 1 min, not looked at yet",
        "when clean ended",
        "when accuracy fell below 97.5; nothing was posted yet",
    ]
    told = cli("schedule", "metric", "retrain", "accuracy", "96.9")
    assert told.out.startswith("accuracy fell below 97.5; last posted 96.9"), told.err
    Schedules(world.service, epoch=lambda: world.epoch).step()
    assert "(accuracy 96.9 is below 97.5)  retrain-1" in cli("schedule", "show", "retrain").out
    assert "accuracy fell below 97.5" in cli("schedule", "list").out
    again = ("submit", script, "--name", "retrain", "--overwrite", *triggers)
    compared = cli(*again, "--promote", "loss:lowest", "--promote-by-hand")
    text = "  no model is promoted yet; compared by loss: the lowest is best, and promoted by hand"
    assert text in compared.out, compared.err
    refused = cli("schedule", "promote", "retrain", "retrain-1")
    assert (refused.code, "retrain-1 goes on" in refused.err) == (2, True)
    assert cli(*again).code == 0
    other = cli("schedule", "metric", "retrain", "loss", "1")
    assert (other.code, "watches no metric 'loss', but: accuracy" in other.err) == (4, True)


def test_data_that_go_along_are_warned_of(cli: Cli, tmp_path: Path) -> None:
    beside, here = tmp_path / "data", tmp_path / "code"
    for folder in (beside, here / "data"):
        folder.mkdir(parents=True)
        (folder / "day-1.csv").write_text("1")
    (here / "train.py").write_text("print('epoch 1')\n")
    asked = ("submit", str(here / "train.py"), "--name", "retrain", "--overwrite", "--when-data")

    assert "would read that copy" not in cli(*asked, str(beside)).err
    copied = cli(*asked, str(here / "data"))

    assert copied.code == 0
    assert f"have the script read {here / 'data'} by its whole path" in copied.err


def test_a_file_says_the_same(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("print('epoch 1')\n")
    file = tmp_path / "schedule.yaml"
    file.write_text(
        "name: retrain\nschedule: '0 2 * * *'\ntime_zone: Europe/Berlin\n"
        "triggers:\n- data: {path: /srv/data}\n- after: {job: clean}\njob: {run: train.py}\n"
    )
    made = cli("schedule", "apply", str(file))
    assert made.code == 0, made.err
    assert made.out.splitlines()[0] == "retrain  0 2 * * * Europe/Berlin"
    assert "  when clean finished" in made.out
    file.write_text("name: retrain\ntriggers:\n- data: {path: data}\njob: {run: train.py}\n")
    refused = cli("schedule", "apply", str(file))
    assert (refused.code, "data" in refused.err) == (2, True)
    file.write_text("schedule: '@daily'\njob: {run: train.py}\n")
    assert "name is missing" in cli("schedule", "apply", str(file)).err


def test_runs_of_a_schedule_are_said_to_borrow_because_of_their_kind_and_nobody_is_stopped_now(
    cli: Cli, world: WatchedWorld, tmp_path: Path
) -> None:
    (tmp_path / "train.py").write_text("print('epoch 1')\n")
    world.script = Script(run_ms=10_000_000)
    for name in ("a", "b"):
        submitted(world, name=name)
        world.pass_time(2000)
    train = ("submit", str(tmp_path / "train.py"), "--gpus", "2", "--name", "nightly")
    made = cli(*train, "--schedule", "0 2 * * *")
    said = made.err.splitlines()[-1]
    assert said.startswith("Borrowed. Work of this kind leaves the guarantee of vision to others")
    assert "Would" not in said
    assert "would start" not in said
    inside = cli(*train, "--schedule", "0 2 * * *", "--in-guarantee", "--overwrite")
    assert "Borrowed" not in inside.err
    never = cli(*train, "--schedule", "61 2 * * *", "--overwrite")
    # Nothing is said of a job that is not made.
    assert (never.code, "Borrowed" in never.err, "minute" in never.err) == (2, False, True)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--schedule", "@daily", "--follow"), "--follow: nothing starts now"),
        (("--time-zone", "UTC"), "--time-zone: of a schedule alone. Say when with --schedule."),
        (("--schedule", "often"), "five fields"),
        (("--look-every", "60"), "of --when-data and --when-tells alone"),
        (("--promote", "loss:best", "--schedule", "@daily"), "Write loss:lowest, say"),
        (("--promote-by-hand", "--schedule", "@daily"), "by which metric?"),
        (("--promote", "loss"), "--promote: of a schedule alone"),
        (("--when-below", "accuracy"), "Write accuracy=97.5, say"),
        (("--when-below", "accuracy=nan"), "below"),
        (("--when-tells", "'"), "is no command"),
        (("--when-data", "x", "--look-every", "1"), "every_s"),
        (("--after-job", "clean:never"), "'ok', 'any' or 'failed'"),
        (("--after-job", "clean", "--after-job", "clean"), "is there twice"),
        (("--after-job", "train"), "cannot wait for its own runs"),
        (("--after-job", "clean-7"), "clean-7"),
        (("--schedule", "@daily", "--time-zone", "Mars/Base"), "such as Europe/Berlin"),
        (("--schedule", f"{ESCAPES} * * * *"), "schedule"),
    ],
)
def test_what_is_no_schedule_is_refused(
    cli: Cli, tmp_path: Path, options: tuple[str, ...], says: str
) -> None:
    (tmp_path / "train.py").write_text("print('epoch 1')\n")
    refused = cli("submit", str(tmp_path / "train.py"), *options)
    assert refused.code in (1, 2, 4)
    assert says in refused.err
    assert "\x1b" not in refused.err
    assert cli("schedule", "list", "--output", "json").json["schedules"] == []


def test_the_time_zone_of_this_machine_is_meant_where_none_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("TZ", ":Europe/Berlin")
    assert local_zone() == "Europe/Berlin"
    monkeypatch.setenv("TZ", "EET-2EEST,M3.5.0")
    assert local_zone() == "UTC"
    monkeypatch.delenv("TZ")
    link = tmp_path / "localtime"
    link.symlink_to("/usr/share/zoneinfo/America/St_Johns")
    monkeypatch.setattr("gpucommons.scheduler.cli.schedules.commands._LOCAL_TIME", link)
    assert local_zone() == "America/St_Johns"
