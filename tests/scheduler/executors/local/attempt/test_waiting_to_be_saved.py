"""Jobs that are stopped together: who waits for the disk is saved when others need less than they said.

What a user's jobs may save together counts when it is written, and not when they are stopped.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from gpucommons.gpu.hibernation.tree import HibernatableTree, Refused
from gpucommons.scheduler.executors import errand
from gpucommons.scheduler.executors.local.attempt import hibernating
from gpucommons.scheduler.executors.local.attempt.attempt_folder import AttemptFolder, write_json
from gpucommons.scheduler.executors.local.attempt.errand_answers import Done
from gpucommons.scheduler.executors.local.attempt.hibernating import Hibernating
from gpucommons.scheduler.executors.local.attempt.plan import HibernationPlan, Plan, WorkerPlan
from gpucommons.scheduler.working_folder import own_image
from gpucommons.scheduler.working_folder.own_image import NAME

MIB = 1 << 20
GRACE_S = 30.0


@dataclass
class Errand:
    """One that saves, as it is heard by the supervisor."""

    words: list[str]
    done: Done | None = None

    def hear(self, _patience_s: float) -> Done | None:
        return self.done

    def __exit__(self, *_: object) -> None:
        """Nothing to end."""

    @property
    def most_mib(self) -> int:
        [most] = [word for word in self.words if word.startswith("--max-bytes=")]
        return int(most.partition("=")[2]) // MIB


@dataclass
class Disk:
    """Jobs of one user on one machine, 10 MiB/s, at a time that the test sets."""

    root: Path
    now_s: float = 1_000_000.0
    errands: list[Errand] = field(default_factory=list)

    def job(self, name: str, limit_mib: int) -> Hibernating:
        plan = Plan(
            attempt_id=name,
            job=name,
            workers=(WorkerPlan(rank=0, command=("true",), env={"USER": "mia"}),),
            working_dir=".",
            snapshot=None,
            max_unpacked_bytes=1,
            max_log_bytes=1,
            home="/",
            results_to=None,
            hibernation=HibernationPlan(save_mib_per_s=10, max_image_bytes=limit_mib * MIB),
        )
        folder = AttemptFolder(self.root / name)
        (folder.run / NAME).mkdir(parents=True)
        return Hibernating(folder, plan, lambda *_: Done())

    def stop(self, job: Hibernating, mib: int) -> bool:
        return job.begin(mib, self.now_s + GRACE_S)

    def answers(self, document: bytes) -> None:
        self.errands[-1].done = Done(said=document)


@pytest.fixture
def disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Disk:
    found = Disk(tmp_path / "attempts")

    def answer(words: Any) -> Errand:
        found.errands.append(Errand(list(words)))
        return found.errands[-1]

    send: Callable[..., Any] = lambda _plan, words, _snapshot: words  # noqa: E731 - one of three stand-ins
    monkeypatch.setattr(hibernating, "send_on_errand", send)
    monkeypatch.setattr(hibernating, "Answer", answer)
    monkeypatch.setattr(hibernating, "memory_bytes", lambda mib: mib * MIB)
    monkeypatch.setattr(hibernating, "time", SimpleNamespace(time=lambda: found.now_s))
    return found


def test_one_that_says_it_needs_all_of_the_time_takes_it_from_nobody(disk: Disk) -> None:
    large, small, huge = (disk.job(name, 1_000) for name in ("large", "small", "huge"))
    assert disk.stop(large, 140)  # 14.5 s of 15
    assert large.turn()
    assert disk.stop(small, 50)
    assert disk.stop(huge, 130)
    assert small.turn() is huge.turn() is True
    assert len(disk.errands) == 1

    disk.now_s += 3
    # It cannot be over in time any more, and SIGTERM still finds most of the grace.
    assert not huge.turn()
    assert huge.not_saved == (
        "saving its 130 MiB after other jobs would take more than half of its grace"
    )
    assert small.turn()
    disk.answers(b'{"saved": true}')
    assert large.turn()
    assert small.turn()
    assert len(disk.errands) == 2
    assert not large.is_at_it()


def test_jobs_stopped_together_save_no_more_than_their_users_limit(disk: Disk) -> None:
    jobs = [disk.job(name, 100) for name in "abc"]
    for job in jobs:
        assert disk.stop(job, 40)
    first, second, third = jobs
    assert first.turn()
    assert disk.errands[-1].most_mib == 100
    # It takes longer than it said, and may still fill all of the limit.
    disk.now_s += 5
    assert second.turn()
    assert len(disk.errands) == 1
    disk.answers(b'{"saved": true}')
    assert first.turn()
    assert second.turn()
    assert [one.most_mib for one in disk.errands] == [100, 60]

    # What was saved counts as it is from the record of its end on.
    write_json(
        disk.root / "a" / "exit.json",
        {"image": {"user": "mia", "size_bytes": 70 * MIB, "save_ms": 1, "sha256": "0" * 64}},
    )
    disk.answers(b'{"refused": "It holds a network connection."}')
    assert not second.turn()
    disk.now_s += 5
    assert not third.turn()
    assert third.not_saved == (
        "it uses 40 MiB, 70 MiB of mia's jobs are saved already, and 100 MiB may be"
    )


def test_a_save_that_says_nothing_leaves_half_of_the_grace_to_sigterm(disk: Disk) -> None:
    job = disk.job("silent", 1_000)
    begun_s = disk.now_s
    assert disk.stop(job, 40)
    assert job.turn()
    [errand] = disk.errands
    assert f"--until={begun_s + GRACE_S / 2:.3f}" in errand.words
    # What saves has let go of it by then, and it hears SIGTERM.
    assert f"--let-go={GRACE_S / 4:.3f}" in errand.words
    disk.now_s = begun_s + GRACE_S / 2
    assert job.turn()
    disk.now_s += 0.5
    assert not job.turn()
    assert job.not_saved == "it took longer than half of its grace"
    assert not job.is_at_it()


@pytest.mark.parametrize(("late_s", "expected"), [(0, (15, 7.5)), (20, (0, 2.5)), (60, (0, 0))])
def test_an_errand_that_begins_late_lets_go_no_later(
    disk: Disk, monkeypatch: pytest.MonkeyPatch, late_s: float, expected: tuple[float, float]
) -> None:
    asked: list[tuple[float, float]] = []

    def save(_tree: object, seconds: float, *, let_go_s: float, **_: object) -> Refused:
        asked.append((seconds, let_go_s))
        return Refused(because="It was not saved in time.", alive=True)

    job = disk.job("slow", 1_000)
    assert disk.stop(job, 40)
    assert job.turn()
    monkeypatch.setattr(HibernatableTree, "save", save)
    monkeypatch.setattr(own_image, "time", SimpleNamespace(time=lambda: disk.now_s))
    (disk.root / "slow" / "run" / NAME / "lived.json").write_text(json.dumps({"run": "/"}))
    disk.now_s += late_s

    monkeypatch.setattr("sys.argv", ["errand", *disk.errands[-1].words])
    assert errand.main() == 0

    [found] = asked
    assert found == pytest.approx(expected)


def test_who_has_no_grace_left_is_told_to_leave_at_once(disk: Disk) -> None:
    job = disk.job("late", 1_000)
    assert not job.begin(1, disk.now_s - 1)
    assert job.not_saved == (
        "saving its 1 MiB of memory would take 1 s at 10 MiB/s, and half of its grace is 0 s (a grace of"
        " 2 s or more would save it)"
    )
    assert disk.errands == []


def test_its_memory_is_on_record_while_it_runs_and_small_changes_are_not(disk: Disk) -> None:
    job, memory = disk.job("seen", 1_000), disk.root / "seen" / "memory.json"

    def seen(mib: int, now_s: float) -> int | None:
        job.look([mib], now_s)
        return json.loads(memory.read_text())["memory_mib"] if memory.exists() else None

    assert seen(10, 100) is None, "it had no time to load what it works with"
    assert seen(800, 115) == 800
    assert seen(2_000, 118) == 800, "the next look is due after four seconds"
    assert seen(840, 119) == 800
    assert seen(860, 127) == 860


def test_memory_of_one_that_is_not_to_be_saved_is_not_looked_at(disk: Disk) -> None:
    job = disk.job("plain", 1_000)
    job._hindrance = "it cannot be saved"
    for now_s in (100, 200):
        job.look([800], now_s)
    assert not (disk.root / "plain" / "memory.json").exists()
