"""Folders of attempts are removed when they are old, over and not needed: whole, or not yet."""

from __future__ import annotations

import os
import time
from pathlib import Path

from launches import a_launch, ended, python, stopping, until

from gpucommons.scheduler.core.model.types import AttemptId
from gpucommons.scheduler.executors.errand import clear
from gpucommons.scheduler.executors.local.images_of_ended_jobs import remove_images
from gpucommons.scheduler.executors.local.local import LocalExecutor
from gpucommons.scheduler.working_folder.own_image import NAME

LATER_S = time.time() + 3600


def nobody(_name: str) -> bool:
    return False


def test_an_old_folder_goes_with_all_that_the_job_left(
    executor: LocalExecutor, tmp_path: Path
) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "kept").touch()
    code = (
        "import os; os.chdir(os.environ['GPUCOMMONS_ATTEMPT_DIR']); os.makedirs('results/shut');"
        "open('results/shut/x', 'w').write('42'); os.chmod('results/shut', 0o500);"
        f"os.symlink({str(tmp_path / 'outside')!r}, 'results/link')"
    )
    launch = a_launch(*python(code))
    executor.start(launch)
    assert ended(executor).exit_code == 0
    folder = executor.folder(launch.attempt.attempt_id)
    executor.forget(launch.attempt.attempt_id)

    assert executor.prune(needed=nobody, before_s=folder.exit.stat().st_mtime) == 0
    assert executor.prune(needed=launch.attempt.attempt_id.__eq__, before_s=LATER_S) == 0
    assert (folder.run / "results" / "shut" / "x").exists()

    assert executor.prune(needed=nobody, before_s=LATER_S) == 1
    assert not folder.path.exists()
    assert (tmp_path / "outside" / "kept").exists()


def test_an_old_folder_goes_however_deep_and_shut_it_is(
    executor: LocalExecutor, tmp_path: Path
) -> None:
    code = (
        "import os; os.chdir(os.environ['GPUCOMMONS_ATTEMPT_DIR'])\n"
        "for n in range(1200): os.mkdir('d'); os.chdir('d')\n"
        "open('x', 'w').close(); os.chmod('.', 0o500); os.chdir('..'); os.chmod('.', 0)"
    )
    launch = a_launch(*python(code))
    executor.start(launch)
    assert ended(executor).exit_code == 0
    folder = executor.folder(launch.attempt.attempt_id)
    executor.forget(launch.attempt.attempt_id)

    assert executor.prune(needed=nobody, before_s=LATER_S) == 1
    assert not folder.path.exists()


def test_what_earlier_attempts_left_is_cleared_however_deep(tmp_path: Path) -> None:
    deep = tmp_path / "work"
    deep.mkdir()
    (tmp_path / "results").mkdir()
    below = os.open(deep, os.O_RDONLY)
    for _ in range(1200):
        os.mkdir("d", dir_fd=below)
        above, below = below, os.open("d", os.O_RDONLY, dir_fd=below)
        os.close(above)
    os.close(below)
    clear([tmp_path])
    assert [one.name for one in tmp_path.iterdir()] == ["results"]


def test_what_runs_is_never_removed(executor: LocalExecutor) -> None:
    launch = a_launch(*python("import time; time.sleep(600)"))
    executor.start(launch)
    folder = executor.folder(launch.attempt.attempt_id)
    until(folder.started.exists)

    assert executor.prune(needed=nobody, before_s=LATER_S) == 0

    now_ms = int(time.time() * 1000)
    executor.signal(stopping(launch, kill_in_s=0), now_ms=now_ms)  # type: ignore[arg-type] # ms
    ended(executor)


def test_a_folder_that_never_began_goes_too(executor: LocalExecutor) -> None:
    folder = executor.folder(AttemptId("a0"))
    folder.path.mkdir()
    os.utime(folder.path, (100, 100))

    assert executor.prune(needed=nobody, before_s=200) == 1


def test_what_was_saved_ends_with_its_job_also_where_nobody_wrote_down_its_end(
    executor: LocalExecutor,
) -> None:
    launch = a_launch("true")
    executor.start(launch)
    assert ended(executor).exit_code == 0
    folder = executor.folder(launch.attempt.attempt_id)
    (folder.run / NAME).mkdir()
    folder.exit.unlink()

    assert remove_images(folder.path.parent, is_over=nobody) == 0
    assert remove_images(folder.path.parent, is_over=launch.workload.workload_id.__eq__) == 1
    assert not (folder.run / NAME).exists()
