"""Jobs under accounts of their own, which only root can give them."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from launches import a_launch, attempt_id, ended, lines, python, until

from gpucommons.scheduler.executors.local.attempt.plan import Account
from gpucommons.scheduler.executors.local.local import LocalExecutor, LocalSettings
from gpucommons.scheduler.working_folder.giving_back import MARK

#: An interpreter that every account may run; ours may lie in root's home.
SYSTEM_PYTHON = shutil.which("python3", path="/usr/bin:/bin")
OURS = f"{sys.version_info.major}.{sys.version_info.minor}"
pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can change the account"),
    pytest.mark.skipif(
        SYSTEM_PYTHON is None or not Path(SYSTEM_PYTHON).resolve().name.endswith(OURS),
        reason=f"no Python {OURS} that every account may run",
    ),
]

UID = 54_321
#: What a job may find out about where it stands.
LOOK = """
import json, os
from pathlib import Path
def can(path):
    try:
        return bool(Path(path).read_bytes())
    except OSError:
        return False
attempt = Path(os.environ["GPUCOMMONS_ATTEMPT_DIR"]).parent
results = attempt / "run" / "results"
results.mkdir()
(results / "x.txt").write_text("42")
(results / "trap").symlink_to("/etc/shadow")
status = Path("/proc/self/status").read_text().split()
print(json.dumps({
    "uid": os.getresuid(), "gid": os.getresgid(), "groups": os.getgroups(),
    "no_new_privs": status[status.index("NoNewPrivs:") + 1],
    "plan": can(attempt / "plan.json"), "log": can(attempt / "logs" / "rank-0.log"),
    "supervisor": can(f"/proc/{os.getppid()}/environ"),
    # The last one lists them.
    "descriptors": [os.readlink(f"/proc/self/fd/{n}").split(":")[0] for n in range(3)],
    "more_descriptors": len(os.listdir("/proc/self/fd")) - 4,
    "writes": os.access(attempt, os.W_OK) or os.access(attempt.parent, os.W_OK | os.R_OK),
}))
"""


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder that other accounts can pass through, unlike pytest's own."""
    folder = Path(tempfile.mkdtemp(prefix="gc"))
    folder.chmod(0o711)
    home = folder / "home"
    home.mkdir(mode=0o700)
    os.chown(home, UID, UID)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def anybodys_python(place: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """What the supervisor, its errands and its workers run with."""
    folders = os.pathsep.join(path for path in sys.path if path)
    script = place / "python"
    script.write_text(f"#!/bin/sh\nPYTHONPATH='{folders}' exec {SYSTEM_PYTHON} \"$@\"\n")
    script.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(script))
    return str(SYSTEM_PYTHON)


@pytest.fixture
def theirs(place: Path, anybodys_python: str) -> Iterator[LocalExecutor]:
    made = LocalExecutor(
        LocalSettings(
            state_dir=place / "state",
            home_of=lambda _user: place / "home",
            nodes=tuple,
            account_of=lambda _user: Account(uid=UID, gid=UID, groups=(UID,)),
            python=anybodys_python,
            environ={"PATH": os.environ["PATH"], "SERVICE_SECRET": "hidden"},
        )
    )
    (place / "state").chmod(0o711)
    yield made
    made.close()


def test_a_job_is_its_user_and_reaches_nothing_of_the_services(
    theirs: LocalExecutor, place: Path
) -> None:
    launch = a_launch(*python(LOOK), results_to="runs")
    theirs.start(launch)
    over = ended(theirs)

    said = json.loads(lines(theirs, launch)[0])
    assert said == {
        "uid": [UID] * 3,
        "gid": [UID] * 3,
        "groups": [UID],
        "no_new_privs": "1",
        "plan": False,
        "log": False,
        "supervisor": False,
        "descriptors": ["/dev/null", "pipe", "pipe"],
        "more_descriptors": 0,
        "writes": False,
    }
    assert (over.exit_code, over.text) == (0, "")
    copied = place / "home" / "runs" / "results" / "digits-1"
    assert sorted(path.name for path in copied.iterdir()) == [MARK, "x.txt"]
    assert (copied / "x.txt").stat().st_uid == UID


def test_a_result_cannot_be_laid_where_only_root_may_write(
    theirs: LocalExecutor, place: Path
) -> None:
    """The copy is made by the user: a home that leads elsewhere leads them alone there."""
    (place / "private").mkdir(mode=0o700)
    (place / "home").rename(place / "moved")
    (place / "home").symlink_to(place / "private")
    launch = a_launch(*python(LOOK), results_to="runs")
    theirs.start(launch)

    assert ended(theirs).exit_code == 0
    assert "runs/results cannot be written: Permission denied" in (
        theirs.folder(launch.attempt.attempt_id).given_back.read_text()
    )
    assert list((place / "private").iterdir()) == []


def test_the_working_folder_is_handed_over_and_strays_are_found_under_their_account(
    theirs: LocalExecutor,
) -> None:
    code = "import os; open('log', 'a').write('x'); print(open('log').read(), os.getuid())"
    first = a_launch(*python(code))
    theirs.start(first)
    assert ended(theirs).exit_code == 0
    theirs.forget(first.attempt.attempt_id)
    now = replace(first.attempt, attempt_id=attempt_id(2), number=2)
    workload = replace(first.workload, attempts=(first.attempt, now))
    second = replace(first, attempt=now, workload=workload)
    theirs.start(second)

    assert ended(theirs).exit_code == 0
    assert lines(theirs, second) == [f"xx {UID}"]


def test_an_admin_who_looks_into_a_jobs_folder_is_not_taken_for_the_job(
    theirs: LocalExecutor,
) -> None:
    code = "import time; print('up', flush=True); time.sleep(600)"
    launch = a_launch(*python(code))
    theirs.start(launch)
    until(lambda: lines(theirs, launch))
    folder = theirs.folder(launch.attempt.attempt_id)
    with subprocess.Popen(["sleep", "600"], cwd=folder.run / "work") as looking:
        try:
            os.kill(json.loads(folder.supervisor.read_text())["pid"], signal.SIGKILL)

            assert ended(theirs).exit_code is None
            assert looking.poll() is None
        finally:
            looking.kill()
