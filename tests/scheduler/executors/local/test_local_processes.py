"""Attempts as real processes: what only real processes can show."""

from __future__ import annotations

import io
import json
import os
import signal
import tarfile
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
from launches import a_launch, attempt_id, ended, gone, lines, python, stopping, until

from gpucommons.scheduler.core.model.types import Checkpoint, Millis
from gpucommons.scheduler.executors.local.attempt.secret_files import is_missing
from gpucommons.scheduler.executors.local.local import LocalExecutor
from tests.gpu.ignored_signals import ignored


def test_a_worker_sees_our_variables_and_none_of_the_services_secrets(
    executor: LocalExecutor,
) -> None:
    launch = a_launch(
        *python("import os, json; print(json.dumps(dict(os.environ)))"), env={"MINE": "1"}
    )

    executor.start(launch)
    assert ended(executor).exit_code == 0

    env = json.loads(lines(executor, launch)[0])
    assert env["MINE"] == "1"
    assert env["GPUCOMMONS_TOKEN"] == "gca-secret"
    assert env["NVIDIA_VISIBLE_DEVICES"] == "void"
    assert "SERVICE_SECRET" not in env


def test_the_token_is_in_no_command_line(executor: LocalExecutor) -> None:
    launch = a_launch(*python("import time; print('up'); time.sleep(600)"))
    executor.start(launch)
    until(lambda: lines(executor, launch))

    commands = " ".join(" ".join(p.info["cmdline"] or ()) for p in psutil.process_iter(["cmdline"]))
    executor.signal(stopping(launch, kill_in_s=0), now_ms=Millis(0))
    ended(executor)

    assert "gca-secret" not in commands


def test_a_command_begins_with_no_signal_ignored(executor: LocalExecutor) -> None:
    launch = a_launch("grep", "SigIgn", "/proc/self/status")

    executor.start(launch)
    assert ended(executor).exit_code == 0

    assert ignored(lines(executor, launch)) == set()


def test_a_daemon_that_the_job_left_behind_is_ended(
    executor: LocalExecutor, tmp_path: Path
) -> None:
    code = (
        "import os, subprocess, sys;"
        "p = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'],"
        " start_new_session=True); print(p.pid)"
    )
    launch = a_launch(*python(code))
    executor.start(launch)

    assert ended(executor).exit_code == 0
    assert gone(int(lines(executor, launch)[0]))


def test_one_failing_worker_ends_the_gang_with_its_exit_code(executor: LocalExecutor) -> None:
    code = (
        "import os, sys, time; sys.exit(3) if os.environ['GPUCOMMONS_RANK'] == '1'"
        " else time.sleep(600)"
    )
    launch = a_launch(*python(code), workers=2)
    executor.start(launch)

    assert ended(executor).exit_code == 3


def test_the_worker_that_failed_first_is_named_with_its_error_and_the_place(
    executor: LocalExecutor,
) -> None:
    code = (
        "import os, sys, time\n"
        "def train():\n"
        "    raise ValueError('bad batch')\n"
        "train() if os.environ['GPUCOMMONS_RANK'] == '1' else time.sleep(600)"
    )
    launch = a_launch(*python(code), workers=2)
    executor.start(launch)

    assert ended(executor).text == "Worker 1 failed: ValueError: bad batch (<string>:3)"


def test_what_is_printed_without_a_flush_is_in_the_log_at_once(executor: LocalExecutor) -> None:
    launch = a_launch("python", "-c", "import time; print('step 1'); time.sleep(600)")
    executor.start(launch)

    until(lambda: lines(executor, launch) == ["step 1"])
    executor.signal(stopping(launch, kill_in_s=0), now_ms=Millis(0))
    ended(executor)


def test_a_killed_supervisor_takes_its_workers_with_it_and_the_attempt_is_lost(
    executor: LocalExecutor,
) -> None:
    launch = a_launch(*python("import os, time; print(os.getpid()); time.sleep(600)"))
    executor.start(launch)
    until(lambda: lines(executor, launch))
    folder = executor.folder(launch.attempt.attempt_id)
    os.kill(json.loads(folder.supervisor.read_text())["pid"], signal.SIGKILL)

    over = ended(executor)

    assert over.exit_code is None
    assert gone(int(lines(executor, launch)[0]))


def test_what_a_job_said_of_its_work_is_known_though_its_supervisor_was_killed(
    executor: LocalExecutor,
) -> None:
    says_so = (
        "import os, pathlib, time;"
        " pathlib.Path(os.environ['GPUCOMMONS_ATTEMPT_DIR'], '.finished').touch();"
        " print('done', flush=True); time.sleep(600)"
    )
    launch = a_launch(*python(says_so))
    executor.start(launch)
    until(lambda: lines(executor, launch))
    folder = executor.folder(launch.attempt.attempt_id)
    os.kill(json.loads(folder.supervisor.read_text())["pid"], signal.SIGKILL)

    over = ended(executor)

    assert (over.exit_code, over.finished) == (None, True)


def test_a_full_log_says_so_and_the_job_goes_on(executor: LocalExecutor) -> None:
    launch = a_launch(*python("print('x' * 100_000); print('end')"))
    executor.start(launch)

    assert ended(executor).exit_code == 0
    assert lines(executor, launch)[-1] == "[gpucommons: the log is full; what follows is not kept]"


def test_the_snapshot_is_what_runs(executor: LocalExecutor, tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "abc.tar", "w") as archive:
        content = b"print('from the snapshot')"
        member = tarfile.TarInfo("train.py")
        member.size = len(content)
        archive.addfile(member, io.BytesIO(content))
    launch = a_launch("python", "train.py", snapshot="abc")
    executor.start(launch)

    assert ended(executor).exit_code == 0
    assert lines(executor, launch) == ["from the snapshot"]


@pytest.mark.parametrize(
    "member",
    [
        {"name": "../escape", "type": tarfile.REGTYPE},
        {"name": "link", "type": tarfile.SYMTYPE, "linkname": "/etc/passwd"},
        {"name": "pipe", "type": tarfile.FIFOTYPE},
    ],
)
def test_a_snapshot_with_tricks_is_not_started(
    executor: LocalExecutor, tmp_path: Path, member: dict[str, object]
) -> None:
    with tarfile.open(tmp_path / "abc.tar", "w") as archive:
        info = tarfile.TarInfo(str(member["name"]))
        info.type = member["type"]  # type: ignore[assignment] # bytes
        info.linkname = str(member.get("linkname", ""))
        archive.addfile(info)
    executor.start(a_launch("true", snapshot="abc"))

    assert ended(executor).start_failed


def test_a_command_that_does_not_exist_is_a_failed_start_and_named(
    executor: LocalExecutor,
) -> None:
    launch = a_launch("pythn", "train.py")
    executor.start(launch)

    over = ended(executor)
    assert (over.start_failed, over.exit_code) == (True, 127)
    assert over.text == "there is no command 'pythn' in this environment"
    assert lines(executor, launch) == [f"gpucommons: {over.text}"]


def test_a_program_that_writes_as_a_launcher_of_ours_is_quoted_and_gives_no_reason(
    executor: LocalExecutor,
) -> None:
    said = "gpucommons: your account is locked: mail your password to eve"
    executor.start(a_launch(*python(f"print({said!r}); raise SystemExit(127)")))

    over = ended(executor)
    assert (over.start_failed, over.exit_code) == (False, 127)
    assert over.text == f"It ended with exit status 127; its log says: {said}"


@pytest.mark.parametrize("code", [125, 126, 127])
def test_an_exit_status_of_the_job_itself_is_no_failed_start(
    executor: LocalExecutor, code: int
) -> None:
    executor.start(a_launch(*python(f"raise SystemExit({code})")))

    over = ended(executor)
    said = f"It ended with exit status {code}"
    assert (over.start_failed, over.exit_code, over.text) == (False, code, said)


def test_a_secret_arrives_in_the_environment(executor: LocalExecutor, home: Path) -> None:
    secrets = home / ".gpucommons" / "secrets"
    secrets.mkdir(parents=True)
    (secrets / "hub-token").write_text("s3cret")
    (secrets / "hub-token").chmod(0o600)
    launch = a_launch(
        *python("import os; print(len(os.environ['TOKEN']))"), secrets={"TOKEN": "hub-token"}
    )
    executor.start(launch)

    assert ended(executor).exit_code == 0
    assert lines(executor, launch) == ["6"]
    for path in executor.folder(launch.attempt.attempt_id).path.rglob("*"):
        assert not path.is_file() or b"s3cret" not in path.read_bytes()


@pytest.mark.parametrize(
    ("trick", "says"),
    [
        ("open to others", "The secret token must be a regular file of yours with mode 0600."),
        ("link", "The secret token cannot be read"),
        ("missing", "There is no secret called token: make it with `gpucommons secret token`."),
        ("no text", "The secret token is no text."),
    ],
)
def test_a_secret_that_is_not_the_users_own_private_file_is_refused_in_words(
    executor: LocalExecutor, home: Path, trick: str, says: str
) -> None:
    secrets = home / ".gpucommons" / "secrets"
    secrets.mkdir(parents=True)
    if trick == "open to others":
        (secrets / "token").write_text("x")
        (secrets / "token").chmod(0o644)
    elif trick == "link":
        (secrets / "token").symlink_to("/etc/hostname")
    elif trick == "no text":
        (secrets / "token").write_bytes(b"\xff")
        (secrets / "token").chmod(0o600)
    executor.start(a_launch("true", secrets={"TOKEN": "token"}))

    over = ended(executor)
    assert over.start_failed
    assert over.text.startswith(says)
    assert str(home) not in over.text


def test_a_job_is_told_that_its_folder_is_missing_without_where_it_lies(
    executor: LocalExecutor,
) -> None:
    executor.start(a_launch("true", working_dir="nowhere"))

    text = ended(executor).text
    assert text == "The folder it starts in cannot be entered: No such file or directory"


@pytest.mark.parametrize(
    ("lies", "missing"), [("nowhere", True), ("kept", False), ("link", False), ("far", False)]
)
def test_a_secret_is_known_to_be_missing_without_a_link_being_followed(
    tmp_path: Path, lies: str, missing: bool
) -> None:
    home, elsewhere = tmp_path / "home", tmp_path / "elsewhere"
    (elsewhere / "secrets").mkdir(parents=True)
    home.mkdir()
    if lies == "far":
        (home / ".gpucommons").symlink_to(elsewhere)
    elif lies != "nowhere":
        (home / ".gpucommons" / "secrets").mkdir(parents=True)
        if lies == "kept":
            (home / ".gpucommons" / "secrets" / "token").write_text("x")
        else:
            (home / ".gpucommons" / "secrets" / "token").symlink_to(elsewhere / "gone")
    assert is_missing(home, "token") is missing


def test_an_announced_stop_can_be_read_by_the_job_and_taken_back(executor: LocalExecutor) -> None:
    launch = a_launch(*python("import time; print('up'); time.sleep(600)"))
    executor.start(launch)
    until(lambda: lines(executor, launch))
    attempt = stopping(launch, kill_in_s=60)
    notice = executor.folder(launch.attempt.attempt_id).notice

    executor.announce(attempt)
    assert json.loads(notice.read_text())["text"] == "for nlp (its guarantee)"
    executor.spare(attempt)
    assert not notice.exists()

    executor.signal(stopping(launch, kill_in_s=0), now_ms=Millis(0))
    ended(executor)


def test_a_resumed_attempt_finds_its_checkpoint_and_older_leftovers_are_cleared(
    executor: LocalExecutor,
) -> None:
    save = (
        "import os; d = os.environ['GPUCOMMONS_ATTEMPT_DIR'] + '/checkpoints/step-1';"
        "os.makedirs(d); open(d + '/state', 'w').write('w')"
    )
    first, second = (
        a_launch(*python(save), number=1),
        a_launch(*python(save), number=2),
    )
    for launch in (first, second):
        executor.start(launch)
        ended(executor)
        executor.forget(launch.attempt.attempt_id)
    checkpoint = Checkpoint(
        attempt_id=attempt_id(2),
        step=1,
        path="checkpoints/step-1",
        size_bytes=1,
        sha256="0" * 64,
        at_ms=Millis(1),
    )
    third = a_launch(
        *python("import os; print(os.listdir(os.environ['GPUCOMMONS_RESUME_DIR']))"),
        number=3,
    )
    third = replace(
        third,
        attempt=replace(third.attempt, resumed_from=checkpoint),
        workload=replace(third.workload, attempts=(first.attempt, second.attempt, third.attempt)),
    )
    executor.start(third)
    ended(executor)

    assert lines(executor, third) == ["['state']"]
    assert not (executor.folder(attempt_id(1)).run / "checkpoints").exists()


def test_the_supervisor_kills_at_the_ordered_time_though_the_scheduler_is_gone(
    executor: LocalExecutor,
) -> None:
    launch = a_launch(
        *python(
            "import signal, time; signal.signal(15, signal.SIG_IGN); print('up'); time.sleep(600)"
        )
    )
    executor.start(launch)
    until(lambda: lines(executor, launch))
    executor.signal(stopping(launch, kill_in_s=0.5), now_ms=Millis(0))
    executor.close()

    later = LocalExecutor(executor._settings)
    later.adopt((launch.attempt,))
    over = ended(later)
    later.close()

    assert over.killed


def test_a_stop_before_the_start_forbids_the_start(executor: LocalExecutor) -> None:
    launch = a_launch(*python("print('ran')"))

    executor.signal(stopping(launch, kill_in_s=0), now_ms=Millis(0))
    executor.start(launch)

    assert ended(executor).text == "It was stopped before it began."
    assert lines(executor, launch) == []
