"""Whoever looks whether a supervisor lives may do so at the very moment in which it begins."""

from __future__ import annotations

import fcntl
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from launches import a_launch, ended, python

from gpucommons.scheduler.core.model.state import AttemptEnded
from gpucommons.scheduler.executors.local.attempt.attempt_folder import AttemptFolder, write_json
from gpucommons.scheduler.executors.local.local import LocalExecutor


def test_a_supervisor_that_begins_while_it_is_looked_for_is_not_taken_for_dead(
    executor: LocalExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    launch = a_launch(*python("print('done')"))
    executor.start(launch)
    ended(executor)
    folder = executor.folder(launch.attempt.attempt_id)
    folder.supervisor.unlink()
    folder.exit.unlink()

    def just_before(self: AttemptFolder) -> bool:
        # Nobody holds the lock yet; a moment later the supervisor does, and says so.
        write_json(self.supervisor, {"pid": os.getpid(), "created_s": 0.0})
        return False

    monkeypatch.setattr(AttemptFolder, "supervised", just_before)
    assert not [seen for seen in executor.observe() if isinstance(seen, AttemptEnded)]
    assert not executor._counts.has_begun(folder), "that is done for killed ones alone"
    # Where it is said to have begun and nobody holds the lock, it was killed.
    monkeypatch.undo()
    assert ended(executor).text == "Its supervisor was killed from outside."


def test_a_look_at_the_lock_keeps_no_supervisor_from_beginning(tmp_path: Path) -> None:
    folder = AttemptFolder(tmp_path)
    folder.lock.touch()
    look = os.open(folder.lock, os.O_RDONLY)
    fcntl.flock(look, fcntl.LOCK_SH)
    assert folder.hold_lock() is None

    with ThreadPoolExecutor() as pool:
        beginning = pool.submit(folder.hold_lock, patience_s=60)
        os.close(look)
        held = beginning.result()

    assert held is not None
    assert folder.supervised()
    os.close(held)
