"""The working folder in many attempts: handed over whole, to one at a time, through any crash."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import tarfile
from dataclasses import replace
from pathlib import Path

import pytest
from launches import a_launch, attempt_id, ended, gone, lines, python, stopping, until

from gpucommons.scheduler.core.model.types import Attempt, Millis
from gpucommons.scheduler.executors.base import Launch
from gpucommons.scheduler.executors.local.local import LocalExecutor, LocalSettings
from gpucommons.scheduler.working_folder.holders import kill_holders
from gpucommons.scheduler.working_folder.taking_over import make_new, take_over


def attempt(launch: Launch, number: int, *before: Attempt, code: str | None = None) -> Launch:
    """Attempt ``number`` of the same job."""
    now = replace(launch.attempt, attempt_id=attempt_id(number), number=number)
    spec = launch.workload.spec
    if code is not None:
        spec = replace(spec, roles=(replace(spec.roles[0], command=python(code)),))
    workload = replace(launch.workload, spec=spec, attempts=(*before, now))
    return replace(launch, attempt=now, workload=workload)


def run_on(executor: LocalExecutor, launch: Launch) -> list[str]:
    executor.start(launch)
    over = ended(executor)
    assert not over.start_failed, over.text
    executor.forget(launch.attempt.attempt_id)
    return lines(executor, launch)


def in_order(executor: LocalExecutor, code: str, *, attempts: int, **spec: object) -> list[str]:
    """One script run as so many attempts of one job; what the last one printed."""
    launch = a_launch(*python(code), **spec)
    before: list[Attempt] = []
    said: list[str] = []
    for number in range(1, attempts + 1):
        one = attempt(launch, number, *before)
        said = run_on(executor, one)
        before.append(one.attempt)
    return said


APPENDS = "open('log', 'a').write('x'); print(open('log').read())"
IN_PLACE = """
import os
if not os.path.exists('n'): open('n', 'w').write('000')
with open('n', 'r+') as f:
    n = int(f.read()) + 1; f.seek(0); f.write(f'{n:03}')
print(n)
"""
MAPPED = """
import mmap, os
if not os.path.exists('m'): open('m', 'wb').write(bytes(4096))
with open('m', 'r+b') as f, mmap.mmap(f.fileno(), 4096) as m:
    m[0] += 1; print(m[0])
"""
DATABASE = """
import sqlite3
db = sqlite3.connect('study.db'); db.execute('pragma journal_mode=wal')
db.execute('create table if not exists t (n)'); db.execute('insert into t values (1)'); db.commit()
print(db.execute('select count(*) from t').fetchone()[0], flush=True)
import os; os._exit(1)
"""


@pytest.mark.parametrize(
    ("code", "says"), [(APPENDS, "xxx"), (IN_PLACE, "3"), (MAPPED, "3"), (DATABASE, "3")]
)
def test_a_script_finds_the_files_that_it_keeps_beside_itself(
    executor: LocalExecutor, code: str, says: str
) -> None:
    assert in_order(executor, code, attempts=3) == [says]


def a_snapshot(folder: Path, **files: str) -> None:
    with tarfile.open(folder / "abc.tar", "w") as archive:
        for name, text in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(text)
            archive.addfile(member, io.BytesIO(text.encode()))


def test_the_snapshot_is_not_unpacked_over_files_that_changed(
    executor: LocalExecutor, tmp_path: Path
) -> None:
    a_snapshot(tmp_path, settings="as submitted")
    code = "print(open('settings').read()); open('settings', 'w').write('as changed')"

    assert in_order(executor, code, attempts=2, snapshot="abc") == ["as changed"]


def test_a_job_that_is_run_again_begins_with_a_new_folder(executor: LocalExecutor) -> None:
    run_on(executor, a_launch(*python(APPENDS)))
    again = attempt(a_launch(*python(APPENDS)), 2)

    assert run_on(executor, replace(again, attempt=replace(again.attempt, number=1))) == ["x"]


def test_an_earlier_attempts_folder_is_gone_from_its_place(executor: LocalExecutor) -> None:
    launch = a_launch(*python(APPENDS))
    first, second = attempt(launch, 1), None
    run_on(executor, first)
    second = attempt(launch, 2, first.attempt)
    run_on(executor, second)

    assert not (executor.folder(first.attempt.attempt_id).run / "work").exists()
    assert (executor.folder(second.attempt.attempt_id).run / "work" / "log").exists()


def test_a_folder_that_a_restored_store_does_not_know_is_found_at_any_start(
    executor: LocalExecutor, home: Path, tmp_path: Path
) -> None:
    launch = a_launch(*python(APPENDS))
    run_on(executor, attempt(launch, 1))
    # The backup was made before, and its first start has passed: nobody asks what began since then.
    executor.close()
    settings = LocalSettings(
        state_dir=tmp_path / "state",
        home_of=lambda _user: home,
        nodes=tuple,
        environ={"PATH": os.environ["PATH"]},
    )
    later = LocalExecutor(settings)
    later.adopt([])
    try:
        assert run_on(later, attempt(launch, 2)) == ["xx"]
    finally:
        later.close()


@pytest.mark.parametrize("way", ["stands in it", "writes a file", "mapped a file"])
def test_who_can_still_write_in_a_folder_is_ended(tmp_path: Path, way: str) -> None:
    (tmp_path / "f").write_bytes(bytes(4096))
    code = {
        "stands in it": f"import os; os.chdir({str(tmp_path)!r})",
        "writes a file": f"f = open({str(tmp_path / 'f')!r}, 'a')",
        "mapped a file": (
            f"import mmap\nwith open({str(tmp_path / 'f')!r}, 'r+b') as f: m = mmap.mmap(f.fileno(), 0)"
        ),
    }[way]
    with a_process(code) as process:
        assert kill_holders(tmp_path.resolve())
        assert process.wait(60) == -signal.SIGKILL
    until(lambda: not kill_holders(tmp_path.resolve()))


@pytest.mark.parametrize("way", ["reads a file", "stands beside it"])
def test_who_cannot_write_in_it_is_left_alone(tmp_path: Path, way: str) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "work-of-others").mkdir()
    (tmp_path / "work" / "f").write_text("x")
    code = {
        "reads a file": f"f = open({str(tmp_path / 'work' / 'f')!r})",
        "stands beside it": f"import os; os.chdir({str(tmp_path / 'work-of-others')!r})",
    }[way]
    with a_process(code) as process:
        assert not kill_holders((tmp_path / "work").resolve())
        assert process.poll() is None
        process.kill()


def a_process(code: str) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", f"{code}\nprint('ready', flush=True)\nimport time; time.sleep(600)"],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


#: A process that hides: no mark in its environment, a session of its own, its parent is gone.
HIDES = """
import os, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.execve(sys.executable, [sys.executable, '-c', '''
import os, time
print(os.getpid(), flush=True)
f = open("log", "a", buffering=1)
while True:
    f.write("late"); time.sleep(0.01)
'''], {})
    os._exit(0)
time.sleep(600)
"""


def test_a_late_process_of_the_attempt_before_does_not_reach_the_next_one(
    executor: LocalExecutor,
) -> None:
    first = attempt(a_launch(*python(HIDES)), 1)
    executor.start(first)
    until(lambda: lines(executor, first))
    late = int(lines(executor, first)[0])
    # Its supervisor is killed, so nobody is above it any more who would end it.
    folder = executor.folder(first.attempt.attempt_id)
    os.kill(json.loads(folder.supervisor.read_text())["pid"], signal.SIGKILL)
    assert ended(executor).exit_code is None
    executor.forget(first.attempt.attempt_id)
    assert gone(late)

    looks = "import time; a = open('log').read(); time.sleep(0.3); print(open('log').read() == a)"
    second = attempt(first, 2, first.attempt, code=looks)
    assert run_on(executor, second) == ["True"]


def test_what_runs_on_though_its_node_was_fenced_is_ended_before_the_next_attempt(
    executor: LocalExecutor,
) -> None:
    first = attempt(
        a_launch(
            *python(
                "import os, time; print(os.getpid(), flush=True)\n"
                "while True: open('log', 'a').write('x'); time.sleep(0.01)"
            )
        ),
        1,
    )
    executor.start(first)
    until(lambda: lines(executor, first))
    looks = "import time; a = open('log').read(); time.sleep(0.3); print(open('log').read() == a)"
    second = attempt(first, 2, first.attempt, code=looks)
    executor.start(second)
    until(executor.folder(second.attempt.attempt_id).exit.exists)

    assert lines(executor, second) == ["True"]
    assert gone(int(lines(executor, first)[0]))


@pytest.mark.parametrize("moment", ["before the rename", "after the rename"])
def test_a_scheduler_or_supervisor_that_dies_between_rename_and_start_loses_nothing(
    executor: LocalExecutor, moment: str
) -> None:
    launch = a_launch(*python(APPENDS))
    first, second, third = (attempt(launch, number) for number in (1, 2, 3))
    run_on(executor, first)
    never = executor.folder(second.attempt.attempt_id)
    never.run.mkdir(parents=True)
    if moment == "after the rename":
        assert take_over(never.run, [executor.folder(first.attempt.attempt_id).run])
    third = attempt(launch, 3, first.attempt, second.attempt)

    assert run_on(executor, third) == ["xx"]


def test_half_a_snapshot_is_never_handed_over(tmp_path: Path) -> None:
    first, second = tmp_path / "1", tmp_path / "2"
    first.mkdir()
    second.mkdir()

    def killed(folder: Path) -> None:
        (folder / "half").touch()
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        make_new(first, killed)
    assert not take_over(second, [first])
    make_new(first, lambda folder: (folder / "whole").touch())
    assert take_over(second, [first])
    assert [one.name for one in (second / "work").iterdir()] == ["whole"]
    assert take_over(second, [first])


def test_a_link_in_the_place_of_the_folder_is_not_handed_on(tmp_path: Path) -> None:
    (tmp_path / "1").mkdir()
    (tmp_path / "2").mkdir()
    (tmp_path / "1" / "work").symlink_to("/etc")

    assert not take_over(tmp_path / "2", [tmp_path / "1"])
    assert not (tmp_path / "2" / "work").exists()


def test_links_fifos_and_many_files_are_handed_over_as_they_are(executor: LocalExecutor) -> None:
    code = (
        "import os\n"
        "if not os.path.exists('pipe'):\n"
        "    os.mkfifo('pipe'); os.symlink('/etc/passwd', 'link')\n"
        "    for n in range(2000): open(f'f{n}', 'w').close()\n"
        "print(len(os.listdir()), os.path.islink('link'))"
    )
    assert in_order(executor, code, attempts=2) == ["2002 True"]


def test_the_end_of_a_stopped_attempt_says_how_much_it_keeps(
    executor: LocalExecutor, tmp_path: Path
) -> None:
    a_snapshot(tmp_path, same="as submitted", other="as submitted")
    code = (
        "import time; open('other', 'w').write('changed'); open('new', 'w').write('12345');"
        "print('up', flush=True); time.sleep(600)"
    )
    launch = a_launch(*python(code), snapshot="abc")
    executor.start(launch)
    until(lambda: lines(executor, launch))
    executor.signal(stopping(launch, kill_in_s=5), now_ms=Millis(0))
    assert ended(executor).files_kept == 2

    written = json.loads(executor.folder(launch.attempt.attempt_id).exit.read_text())
    assert written["kept"] == {"files": 2, "size_bytes": 12, "more": False}


def test_how_much_is_kept_is_known_also_of_a_script_that_had_to_be_killed(
    executor: LocalExecutor,
) -> None:
    code = (
        "import signal, time; signal.signal(15, signal.SIG_IGN); open('new', 'w').write('12345');"
        "print('up', flush=True); time.sleep(600)"
    )
    launch = a_launch(*python(code))
    executor.start(launch)
    until(lambda: lines(executor, launch))
    executor.signal(stopping(launch, kill_in_s=0), now_ms=Millis(0))

    over = ended(executor)
    assert (over.killed, over.files_kept) == (True, 1)
