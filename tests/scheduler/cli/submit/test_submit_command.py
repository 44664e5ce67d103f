"""Submitting: by options, by YAML, by REST; and everything that can be wrong with it."""

from __future__ import annotations

import io
import json
import os
import stat
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from command_line import Cli, WatchedWorld

from gpucommons.scheduler.cli import main
from gpucommons.scheduler.cli.submit.command import SIGNAL_ENDS_IT
from gpucommons.scheduler.client import SchedulerClient, calls
from gpucommons.scheduler.client.submission import FileJob, request_for_file
from gpucommons.scheduler.core.model.types import WorkloadId
from gpucommons.scheduler.store.codec import encode
from gpucommons.scheduler.working_folder.giving_back import Wanted, give_back

ROOT = Path(__file__).parents[4]


def stored(world: WatchedWorld, job_id: str) -> str:
    """The spec as the store keeps it, but for the name, which is unique."""
    workload = world.store.workload(WorkloadId(job_id))
    assert workload is not None
    return encode(replace(workload.spec, name="digits"))


def a_notebook(path: Path) -> Path:
    cell = {
        "cell_type": "code", "source": "alpha = 0.1\n", "metadata": {"tags": ["parameters"]},
        "outputs": [], "execution_count": None,
    }  # fmt: skip
    path.write_text(json.dumps({"cells": [cell], "metadata": {}, "nbformat": 4}))
    return path


def test_a_script_is_packed_submitted_and_named(cli: Cli, script: Path) -> None:
    done = cli("submit", str(script), "--gpus", "½")

    assert (done.code, done.out) == (0, "train-1 submitted\n")
    job = cli("show", "train-1", "--output", "json").json
    assert job["milli_gpu"] == 500
    assert job["request"]["roles"][0]["command"] == ["python", "-u", "train.py"]


def test_what_follows_two_dashes_belongs_to_the_script(cli: Cli, script: Path) -> None:
    job = cli(
        "submit", str(script), "--output", "json", "--", "--epochs", "5", "--output", "x"
    ).json

    command = job["request"]["roles"][0]["command"]
    assert command == ["python", "-u", "train.py", "--epochs", "5", "--output", "x"]


def test_options_yaml_and_rest_store_the_same_bytes(
    cli: Cli, script: Path, state: Path, world: WatchedWorld
) -> None:
    # The YAML file lies in the project too, so it is there before anything is packed.
    yaml = script.parent / "job.yaml"
    yaml.write_text(
        "name: digits\nrun: train.py\narguments: [--epochs, 5]\n"
        "roles: [{milli_gpu: 500, count: 2, cpu_milli: 1500, memory_mib: 2048}]\n"
        "min_workers: 1\npriority: low\nmax_run_s: 600\nenv: {SEED: '7'}\nresults_to: runs\n"
        "data: [images]\n"
    )
    by_options = cli(
        "submit", str(script), "--name", "digits", "--gpus", "0.5", "--workers", "2",
        "--min-workers", "1", "--cpu-milli", "1500", "--memory-mib", "2048", "--priority", "low",
        "--max-run-s", "600", "--env", "SEED=7", "--results-to", "runs", "--data", "images",
        "--output", "json", "--", "--epochs", "5",
    ).json  # fmt: skip
    by_yaml = cli("submit", "-f", str(yaml), "--output", "json").json
    request, packed = request_for_file(
        FileJob(root=script.parent, path="train.py", arguments=("--epochs", "5")),
        {
            "name": "digits",
            "min_workers": 1,
            "priority": "low",
            "max_run_s": 600,
            "env": {"SEED": "7"},
            "results_to": "runs",
            "data": ["images"],
        },
        {"milli_gpu": 500, "count": 2, "cpu_milli": 1500, "memory_mib": 2048},
        max_bytes=1 << 20,
    )
    with SchedulerClient(f"unix:{state / 'api.sock'}", token="ann-token") as client:
        client.send(calls.put_snapshot(packed.sha256, packed.content))
        by_rest = client.send(calls.submit(request))

    assert stored(world, by_options["id"]) == stored(world, by_yaml["id"])
    assert stored(world, by_yaml["id"]) == stored(world, by_rest.id)


def test_a_job_without_files_is_a_yaml_of_the_apis_fields(cli: Cli, home: Path) -> None:
    (home / "job.yaml").write_text("name: hello\nfolder: none\nroles: [{command: [echo, hello]}]\n")

    assert cli("submit", "-f", "job.yaml").out == "hello-1 submitted\n"


def test_what_others_could_stop_is_called_borrowed_before_it_is_submitted(
    cli: Cli, script: Path
) -> None:
    borrowed = cli("submit", str(script), "--gpus", "4")
    assert borrowed.err.splitlines()[-1].startswith("Borrowed. ")
    assert "Borrowed" not in cli("submit", str(script), "--gpus", "0").err


def test_a_notebooks_function_comes_from_option_or_yaml(cli: Cli, home: Path) -> None:
    (home / "train.ipynb").write_text("{}")
    (home / "job.yaml").write_text("run: train.ipynb\nfunction: train\n")

    by_option = cli("submit", "train.ipynb", "--function", "train", "--output", "json").json
    by_yaml = cli("submit", "-f", "job.yaml", "--output", "json").json

    assert by_option["request"]["roles"] == by_yaml["request"]["roles"]
    assert by_yaml["request"]["roles"][0]["command"][-2:] == ["--function", "train"]


def test_a_script_that_is_not_there_is_said_before_its_folder_is_packed(cli: Cli) -> None:
    done = cli("submit", "/nope.py")

    assert done.code == 2
    assert "There is no file /nope.py: name a script or notebook that is there." in done.err


def test_what_goes_along_is_said(cli: Cli, script: Path) -> None:
    (script.parent / "data.bin").write_bytes(b"x" * 2030)
    said = cli("submit", str(script)).err
    assert said == f"takes along: 2 files of {script.parent}, 2.0 KiB\n"


def test_a_name_without_room_for_its_number_is_told_what_it_became(cli: Cli, script: Path) -> None:
    asked = "a" + "-123456789" * 4 + "-12345678"
    done = cli("submit", str(script), "--name", asked)
    called = done.out.split()[0]

    assert f"{asked} is too long with a number behind it: everywhere, the job is called" in done.err
    assert done.err.splitlines()[-1].endswith(called)
    # It is never cut any further, so it can be copied from any list.
    assert cli("jobs", "--all").out.splitlines()[1].split()[0] == called
    assert cli("show", called).out.startswith(f"{called}  ")
    assert "too long" not in cli("submit", str(script)).err


def test_a_bad_name_is_refused_in_words(cli: Cli, script: Path) -> None:
    answer = cli("submit", str(script), "--name", "My Job")
    assert answer.code == 2
    assert "name: a name has lower-case letters, digits and hyphens" in answer.err
    assert "^" not in answer.err


def test_what_stays_behind_is_said(cli: Cli, script: Path) -> None:
    (script.parent / "data").symlink_to("/etc")
    os.mkfifo(script.parent / "pipe")
    (script.parent / ".npm").mkdir()
    (script.parent / ".env").write_text("TOKEN=1")

    done = cli("submit", str(script))

    assert done.code == 0
    assert "left out, hidden: .npm, .env\n" in done.err
    assert "left out: data is a link\n" in done.err
    assert "left out: pipe is not a regular file\n" in done.err


def test_results_of_earlier_jobs_are_counted_and_not_named(
    cli: Cli, script: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    for number in (1, 2):
        run = tmp_path_factory.mktemp("run")
        (run / "work").mkdir()
        (run / "work" / "model.pt").write_text("weights")
        wanted = Wanted(
            job=f"t-{number}",
            job_id=str(number),
            home=script.parent,
            below="",
            max_bytes=1 << 20,
        )
        give_back(run, {}, wanted)

    done = cli("submit", str(script))

    assert [line for line in done.err.splitlines() if line.startswith("left out")] == [
        "left out: results of earlier jobs: 2"
    ]


@pytest.mark.parametrize(
    ("given", "command", "name"),
    [
        (("--", "torchrun", "--nproc-per-node", "2", "train.py"),
         ["torchrun", "--nproc-per-node", "2", "train.py"], "train-1"),
        (("--", "bash", "-c", "echo a | cat"), ["bash", "-c", "echo a | cat"], "bash-1"),
        (("-m", "train", "--", "--x"), ["python", "-u", "-m", "train", "--x"], "train-1"),
        (("-m", "installed.tool"), ["python", "-u", "-m", "installed.tool"], "installed-1"),
    ],
)  # fmt: skip
def test_any_command_runs_in_a_snapshot_of_the_current_folder(
    cli: Cli, script: Path, given: tuple[str, ...], command: list[str], name: str
) -> None:
    os.chdir(script.parent)  # the home's fixture restores it
    job = cli("submit", "--output", "json", *given).json
    assert job["request"]["roles"][0]["command"] == command
    assert job["name"] == name
    assert job["request"]["snapshot"] is not None


def test_parameters_come_one_by_one_from_a_file_or_from_the_job_file(cli: Cli, home: Path) -> None:
    a_notebook(home / "train.ipynb")
    (home / "params.yaml").write_text("alpha: 0.5\n")
    (home / "job.yaml").write_text("run: train.ipynb\nparameters: {alpha: 0.25}\n")
    given = {
        '{"alpha":0.5}': ("train.ipynb", "-f", "params.yaml"),
        '{"alpha":1}': ("train.ipynb", "-f", "params.yaml", "-p", "alpha", "1"),
        '{"alpha":0.25}': ("-f", "job.yaml"),
        '{"alpha":0.75}': ("train.ipynb", "-p", "alpha=0.75"),
        '{"alpha":""}': ("-p", "alpha=", "train.ipynb"),
        '{"alpha":-1}': ("-p", "alpha", "-1", "train.ipynb"),
        '{"alpha":"-x=y"}': ("--parameter", "alpha=-x=y", "train.ipynb"),
    }
    for text, words in given.items():
        job = cli("submit", *words, "--output", "json").json
        assert job["request"]["roles"][0]["command"][-2:] == ["--parameters", text]


def test_what_a_signal_does_is_said_before_it_comes(cli: Cli, home: Path) -> None:
    (home / "train.py").write_text("print()\n")
    succeeds = "An exit with status 0 after a signal means that it has succeeded"

    assert SIGNAL_ENDS_IT in cli("submit", "train.py", "--notice-signal", "SIGUSR1").err
    assert succeeds in cli("submit", "train.py", "--exit-after-signal", "success").err
    plain = cli("submit", "train.py", "--notice-signal", "none").err
    assert SIGNAL_ENDS_IT not in plain
    assert succeeds not in plain
    (home / "job.yaml").write_text("run: train.py\nnotice_signal: SIGUSR1\n")
    assert SIGNAL_ENDS_IT in cli("submit", "-f", "job.yaml").err


def test_every_interface_says_the_same_of_a_signal() -> None:
    sources = ("src/trainform/messages.ts", "widgets/train.js")
    for source in sources:
        assert SIGNAL_ENDS_IT in (ROOT / "labextension" / source).read_text()


def a_large_file(path: Path) -> None:
    path.parent.mkdir(exist_ok=True)
    with path.open("wb") as file:
        file.truncate((32 << 20) + 1)


def test_large_files_that_stay_behind_are_linked_where_that_is_asked(
    cli: Cli, script: Path
) -> None:
    a_large_file(script.parent / "data" / "images.bin")
    a_large_file(script.parent / "checkpoints" / "last.ckpt")
    (script.parent / ".hidden").touch()

    without = cli("submit", str(script), "--output", "json")
    linked = cli("submit", str(script), "--left-out", "link", "--output", "json")

    assert without.json["request"]["links"] == []
    assert "the job cannot read what was left out: --left-out link" in without.err
    assert linked.json["request"]["links"] == ["checkpoints", "data/images.bin"]
    assert linked.json["request"]["links_from"] == "project"
    assert "linked from" in linked.err

    (script.parent / "job.yaml").write_text("run: train.py\n")
    by_file = cli("submit", "-f", str(script.parent / "job.yaml"), "--left-out", "link")
    assert "linked from" in by_file.err


def test_on_a_terminal_it_is_asked(cli: Cli, script: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    a_large_file(script.parent / "images.bin")
    for answer, links in (("y\n", ["images.bin"]), ("\n", [])):
        terminal = io.StringIO(answer)
        monkeypatch.setattr(terminal, "isatty", lambda: True)
        monkeypatch.setattr("sys.stdin", terminal)
        monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
        done = cli("submit", str(script), "--output", "json")
        assert done.json["request"]["links"] == links
        assert "images.bin would stay here. Link from your home? [y/N]" in done.err


def test_what_lies_outside_of_the_home_is_not_linked(cli: Cli, tmp_path: Path) -> None:
    a_large_file(tmp_path / "away" / "images.bin")
    (tmp_path / "away" / "train.py").touch()
    done = cli("submit", str(tmp_path / "away" / "train.py"), "--left-out", "link")
    assert done.code == 2
    assert "does not lie in your home folder" in done.err


def test_workers_that_would_not_find_each_other_are_warned_of(cli: Cli, script: Path) -> None:
    script.write_text("import torch.distributed as dist\n\ndist.init_process_group('gloo')\n")
    plain = ("--launcher", "plain")
    alone = cli("submit", str(script), "--workers", "2", *plain, "--output", "json")
    launched = cli("submit", str(script), "--workers", "2", "--output", "json")
    chosen = cli("submit", str(script), "--workers", "2", "--launcher", "torchrun")
    (warning,) = alone.json["warnings"]
    assert warning.startswith("train.py (line 3) starts torch.distributed. Without its launcher")
    assert f"warning: {warning}" in alone.err
    assert launched.json["request"]["launcher"] == "torchrun"
    assert (
        "launcher: torchrun, as train.py (line 3) starts torch.distributed (else: --launcher)"
        in launched.err
    )
    assert "warning" not in launched.err
    assert "launcher" not in chosen.err
    assert "launcher" not in cli("submit", str(script)).err


BAD_YAML = {
    "not YAML": ("name: [", "is not YAML"),
    "no mapping": ("- a\n- b\n", "must be a mapping"),
    "empty": ("", "must be a mapping"),
    "keys that are numbers": ("1: 2\n", "must be a mapping"),
    "unknown field": ("colour: red\nroles: [{command: [true]}]\n", "colour"),
    "no roles": ("name: x\n", "roles"),
    "empty gang": ("roles: []\n", "roles"),
    "negative GPUs": ("roles: [{command: [a], milli_gpu: -1}]\n", "roles.0.milli_gpu"),
    "GPUs as text": ("roles: [{command: [a], milli_gpu: many}]\n", "roles.0.milli_gpu"),
    "one and a half GPUs": ("roles: [{command: [a], milli_gpu: 1500}]\n", "Ask for 1 or 2"),
    "a name with markup": ("name: <b>\nroles: [{command: [a]}]\n", "name"),
    "a folder outside": ("results_to: ../..\nroles: [{command: [a]}]\n", "results_to"),
    "missing script": ("run: nothing.py\n", "nothing.py: name a script or notebook that is there"),
    "script outside": ("run: ../outside.py\n", "is not among the files"),
    "no script": ("run: 7\n", "run must be the name"),
    "arguments as text": ("run: train.py\narguments: --epochs 5\n", "arguments must be a list"),
    "a wrong field": ("run: train.py\npriority: urgent\n", "line 2, priority: "),
    "a wrong field of a role": (
        "run: train.py\nroles:\n- count: 0\n",
        "line 3, workers of the first role (roles.0.count): ",
    ),
    "a wrong field without run": ("name: x\nroles:\n- command: [a]\n  count: 0\n", "line 4, "),
    "a wrong field of a manifest": (
        "apiVersion: gpucommons.io/v1alpha1\nkind: TrainingJob\nmetadata: {name: x}\n"
        "spec:\n  priority: urgent\n  roles: [{command: [a]}]\n",
        "line 5, priority: ",
    ),
    "roles that are none": ("run: train.py\nroles: [1]\n", "a list of mappings"),
    "two roles of one name": ("run: train.py\nroles: [{}, {}]\n", "the same name"),
    "run and command": ("run: train.py\nroles: [{command: [a]}]\n", "either run or command"),
    "run and snapshot": ("run: train.py\nsnapshot: abc\n", "either run or snapshot"),
    "python tags": ("!!python/object/apply:os.system [id]\n", "is not YAML"),
    "a date": ("name: 2026-11-21\nroles: [{command: [a]}]\n", "name"),
}


@pytest.mark.parametrize(("content", "says"), BAD_YAML.values(), ids=BAD_YAML)
def test_a_bad_job_file_is_refused_and_nothing_is_submitted(
    cli: Cli, script: Path, content: str, says: str
) -> None:
    (script.parent / "job.yaml").write_text(content)
    (script.parent.parent / "outside.py").write_text("")

    done = cli("submit", "-f", str(script.parent / "job.yaml"))

    assert done.code == 2
    assert says in done.err
    assert "Traceback" not in done.err
    assert cli("jobs", "--all", "--output", "json").json["jobs"] == []


BAD_OPTIONS = {
    "nothing": ((), "Name one thing to run"),
    "two things": (("train.py", "-f", "job.yaml"), "Name one thing to run"),
    "no such script": (("nothing.py",), "nothing.py: name a script or notebook that is there"),
    "no such folder": (("a/b/train.py",), "name a script or notebook that is there"),
    "no such file": (("-f", "nothing.yaml"), "nothing.yaml cannot be read: No such file"),
    "a folder": (("-f", "."), "cannot be read: Is a directory"),
    "a kind that cannot run": (("notes.txt",), "cannot run as a job"),
    "GPUs": (("train.py", "--gpus", "some"), "is not a number of GPUs"),
    "negative GPUs": (("train.py", "--gpus", "-1"), "must be 0 or more"),
    "env": (("train.py", "--env", "a", "--env", "b"), "--env names one environment, not a and b"),
    "module and script": (("train.py", "-m", "pack"), "a script or a module, not both"),
    "no such module": (("-m", "empty"), "empty cannot be run"),
    "arguments of a file": (("-f", "job.yaml", "--", "x"), "gets its arguments from the file"),
    "options beside a file": (
        ("-f", "job.yaml", "--gpus", "2", "--name", "x", "--env", "A=1", "-p", "alpha", "1"),
        "write into it what you gave as options: milli_gpu, name, env, parameter.",
    ),
    "no such program": (("--", "./run.sh"), "There is no program ./run.sh in"),
    "a notebook's arguments": (("a.ipynb", "--", "x"), "give it parameters by name"),
    "a script's parameters": (("train.py", "-p", "a", "1"), "takes no parameters"),
    "a parameter without a value": (
        ("a.ipynb", "-p", "alpha", "--gpus", "1"),
        "-p alpha is no parameter with a value: write -p NAME VALUE, as in -p alpha 0.5.",
    ),
    "a parameter without a name": (("a.ipynb", "-p"), "write -p NAME VALUE, as in -p lr 0.5."),
    "a parameter of two words": (("a.ipynb", "-p", "a b=1"), "-p a b=1 is no parameter"),
    "a parameter with spaces": (
        ("a.ipynb", "-p", "lr", "=", "3"),
        "-p lr = 3 has a space beside its =: write -p lr=3 or -p lr 3.",
    ),
    "a parameter with a space before": (
        ("a.ipynb", "-p", "lr", "=3"),
        "-p lr =3 has a space beside its =: write -p lr=3 or -p lr 3.",
    ),
    "a parameter with a space behind": (
        ("-p", "lr=", "3", "a.ipynb"),
        "-p lr= 3 has a space beside its =: write -p lr=3 or -p lr 3.",
    ),
    "a parameter with nothing behind its =": (
        ("a.ipynb", "-p", "lr", "="),
        "-p lr = has a space beside its =: write -p lr=0.5 or -p lr 0.5.",
    ),
    "unknown parameter": (
        ("a.ipynb", "-p", "beta", "1"),
        "Its cell tagged parameters sets: alpha.",
    ),
    "left out": (("train.py", "--left-out", "all"), "invalid choice"),
    "env name": (("train.py", "--env", "A B=1"), "env"),
    "workers": (("train.py", "--workers", "0"), "is not a number from 1"),
    "huge": (("train.py", "--memory-mib", "9" * 30), "is not a number from 1"),
    "too much memory": (("train.py", "--memory-mib", "99999999"), "memory_mib"),
    "priority": (("train.py", "--priority", "urgent"), "invalid choice"),
    "name": (("train.py", "--name", "../x"), "name"),
    "bounds": (("train.py", "--min-workers", "3", "--max-workers", "2"), "is more than"),
}


@pytest.mark.parametrize(("options", "says"), BAD_OPTIONS.values(), ids=BAD_OPTIONS)
def test_a_bad_command_line_is_refused_with_a_sentence(
    cli: Cli, script: Path, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...], says: str
) -> None:
    monkeypatch.chdir(script.parent)
    (script.parent / "notes.txt").write_text("")
    (script.parent / "empty").mkdir()
    a_notebook(script.parent / "a.ipynb")

    done = cli("submit", *options)

    assert done.code == 2
    assert says in done.err
    assert cli("jobs", "--all", "--output", "json").json["jobs"] == []


@pytest.mark.parametrize(
    ("option", "code"),
    [(("--team", "nowhere"), 4), (("--pool", "nowhere"), 4), (("--team", "nlp"), 5)],
)
def test_teams_and_pools_must_exist_and_be_ours(
    cli: Cli, script: Path, option: tuple[str, str], code: int
) -> None:
    done = cli("submit", str(script), *option)

    assert done.code == code
    assert option[1] in done.err


def test_a_snapshot_that_is_too_large_names_the_largest_file(cli: Cli, script: Path) -> None:
    (script.parent / "data.bin").write_bytes(bytes(2 << 20))

    done = cli("submit", str(script), "--max-mib", "1")

    assert done.code == 1
    assert "data.bin" in done.err


def test_a_secret_is_kept_for_its_owner_alone(
    cli: Cli, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("s3cret\n"))

    done = cli("secret", "token")

    path = home / ".gpucommons" / "secrets" / "token"
    assert done.code == 0
    assert "s3cret" not in done.out + done.err
    assert path.read_text() == "s3cret"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_a_secret_of_several_lines_is_kept_whole(
    cli: Cli, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("-----BEGIN KEY-----\nabc\n-----END KEY-----\n"))
    assert cli("secret", "key").code == 0
    path = home / ".gpucommons" / "secrets" / "key"
    assert path.read_text() == "-----BEGIN KEY-----\nabc\n-----END KEY-----"


def test_a_secret_that_a_job_would_not_get_whole_is_refused(
    cli: Cli, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("x" * (64 * 1024 + 1)))
    done = cli("secret", "data")
    assert done.code == 2
    assert "64 KiB" in done.err
    assert not (home / ".gpucommons").exists()


@pytest.mark.parametrize("name", ["../x", "A", "", "a/b"])
def test_a_secrets_name_is_no_path(
    cli: Cli, home: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("s3cret\n"))

    assert cli("secret", name).code == 2
    assert list(home.rglob("*")) == []


def test_an_option_that_is_the_scripts_is_told_to_stand_behind_two_hyphens(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["submit", "train.py", "--epochs", "3"])

    assert ended.value.code == 2
    said = capsys.readouterr().err
    assert "submit has no option --epochs." in said
    assert "behind --: gpucommons submit train.py -- --epochs 3" in said


def test_a_command_without_two_hyphens_is_told_where_they_stand(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit):
        main(["submit", "bash", "job.sh"])

    assert "behind --: gpucommons submit -- bash job.sh" in capsys.readouterr().err


def test_a_price_that_is_not_paid_is_said_and_waited_for(cli: Cli, script: Path) -> None:
    pool = {"name": "gpu", "executor": "fake", "prices": [{"per_gpu_h": 2.5}], "currency": "EUR"}
    known = cli("config", "--output", "json", by="root").json
    before = next(one for one in known["pools"] if one["name"] == "gpu")
    priced = script.parent / "prices.yaml"
    priced.write_text(yaml.safe_dump({"pools": [{**before, **pool}]}))
    assert cli("apply", "-f", str(priced), by="root").code == 0
    asked = ("submit", str(script), "--gpus", "1", "--max-price", "1.5", "--output", "json")
    job = cli(*asked).json
    assert job["request"]["max_price"] == 1.5
    told = cli("why", job["name"]).out
    assert "costs 2.50 EUR per hour now, and it pays at most 1.50 EUR (max_price)." in told
    assert "once one of its pools costs no more" in told
    refused = cli("submit", str(script), "--max-price", "-1")
    assert (refused.code, "max_price" in refused.err) == (2, True)
