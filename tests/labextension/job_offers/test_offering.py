"""Offers of one server, its slice and cells under the hand of the test."""

from __future__ import annotations

import errno
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from gpucommons.labextension.job_offers.offered_before import FILE, Memory
from gpucommons.labextension.job_offers.offering import Offering
from gpucommons.labextension.live.fanout import Fanout, Tab
from gpucommons.labextension.outputs.cell_run import CellRun
from gpucommons.scheduler.errors import NotFound, PolicyRefused, Unreachable

MINUTE = 60_000
NOW = 1_800_000_000_000
JOINS = "from accelerate import Accelerator\nAccelerator()"


class Scheduler:
    """Quotes: what starts up to so many GPUs."""

    def __init__(self) -> None:
        self.free = 4
        self.asked: list[int] = []
        self.error: Exception | None = None

    async def send(self, call: Any) -> Any:
        if self.error is not None:
            raise self.error
        (role,) = call.body.roles
        gpus = role.count * role.milli_gpu // 1000
        self.asked.append(gpus)
        return SimpleNamespace(starts_now=gpus <= self.free)


class Story:
    """A notebook that trains since an hour, and time that goes on."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "root"
        self.root.mkdir()
        self.notebook("train.ipynb", "fit()")
        self.scheduler, self.fanout, self.tab = Scheduler(), Fanout(), Tab()
        self.fanout.add(self.tab)
        self.percent: int | None = 90
        self.run = CellRun(
            id="r1",
            kernel_id="k1",
            path="train.ipynb",
            cell_id="c1",
            code="fit()",
            session="s1",
            begun_ms=NOW,
        )
        self.runs = [self.run]
        self.lease: Any = SimpleNamespace(
            slice="s", milli_gpu=1000, team="vision", job_offer_after_s=1800
        )
        self.now_ms = NOW
        self.folder = folder
        self.begin()

    def notebook(self, name: str, code: str) -> None:
        cell = {"cell_type": "code", "source": code, "metadata": {}, "outputs": []}
        content = {"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
        (self.root / name).write_text(json.dumps(content))

    def begin(self) -> None:
        """A server begins to look."""
        self.offering = Offering(
            scheduler=self.scheduler,
            sampler=SimpleNamespace(mean_percent=lambda since_ms: self.percent),  # type: ignore[arg-type]
            fanout=self.fanout,
            locate=self._locate,
            memory=Memory(self.folder / "state"),
            runs=lambda: self.runs,
            feed=SimpleNamespace(lease=self.lease),  # type: ignore[arg-type]
            now_ms=lambda: self.now_ms,
        )

    def _locate(self, path: str) -> Path:
        if not (self.root / path).exists():
            raise NotFound("There is no file.")
        return self.root / path

    def says(self, done: int) -> None:
        content = {"text": f"Epoch {done}/24\n"}
        self.run.messages = [{"header": {"msg_type": "stream"}, "content": content}]

    async def minutes(self, count: int) -> list[Any]:
        """What the tab is told meanwhile."""
        for _ in range(count * 4):
            self.now_ms += 15_000
            await self.offering.step()
        return self.told()

    def told(self) -> list[Any]:
        messages = []
        while not self.tab._queue.empty():
            messages.append(json.loads(self.tab._queue.get_nowait()))
        return [(one["kind"], one["data"]) for each in messages for one in each["events"]]


@pytest.fixture
def story(tmp_path: Path) -> Story:
    return Story(tmp_path)


async def test_what_is_known_is_said_once(story: Story) -> None:
    assert await story.minutes(29) == []
    assert await story.minutes(4) == [
        ("job-offer", {"path": "train.ipynb", "gpus": 1, "joins": False, "is_new": True})
    ]
    # It stands as long as it is true, on newer numbers.
    later = await story.minutes(30)
    assert {kind for kind, _ in later} == {"job-offer"}
    assert not any(data["is_new"] for _, data in later)
    assert len(later) == len(story.scheduler.asked) - 1
    story.runs = []
    assert await story.minutes(1) == [("job-offer-over", {"path": "train.ipynb"})]

    story.runs = [story.run]
    story.begin()
    assert await story.minutes(60) == []


async def test_several_gpus_and_a_time_where_code_joins_workers_and_says_how_far_it_is(
    story: Story,
) -> None:
    story.notebook("train.ipynb", JOINS)
    told = []
    for epoch in range(1, 5):
        story.says(epoch)
        told += await story.minutes(10)
    ((_, offer), *_) = told
    assert (offer["gpus"], offer["joins"], offer["times"]) == (4, True, 4)
    assert story.scheduler.asked[:2] == [8, 4]
    # 24 epochs of ten minutes, at half an hour in the fourth: about 210 min are left, 60 with four GPUs.
    here_min = (offer["here_ms"] - NOW) / MINUTE
    assert here_min == pytest.approx(235, abs=6)
    assert (offer["done_ms"] - NOW) / MINUTE == pytest.approx(30 + here_min / 4, abs=2)


async def test_no_thanks_holds_for_this_notebook_for_ever(story: Story) -> None:
    assert await story.minutes(31)
    await story.offering.refuse("train.ipynb")
    assert story.told() == [("job-offer-over", {"path": "train.ipynb"})]

    story.run.kernel_id = "another"
    story.now_ms += 3 * 24 * 60 * MINUTE
    story.begin()
    assert await story.minutes(60) == []


@pytest.mark.parametrize(
    "change",
    [
        {"percent": 10},
        {"percent": None},
        {"runs": []},
        {"lease": None},
        {"lease": SimpleNamespace(slice=None)},
        {"lease": SimpleNamespace(slice="s", milli_gpu=1000, team="v", job_offer_after_s=0)},
    ],
)
async def test_nothing_is_asked_or_offered_while(story: Story, change: Any) -> None:
    vars(story).update(change)
    story.begin()
    assert await story.minutes(60) == []
    assert story.scheduler.asked == []


async def test_where_the_pool_never_offers_neither_cells_nor_files_are_looked_at(
    story: Story,
) -> None:
    def unexpected(*_: object) -> Any:
        raise AssertionError

    story.lease.job_offer_after_s = 0
    story.offering.runs, story.offering.locate = unexpected, unexpected
    assert await story.minutes(60) == []


async def test_while_no_job_would_start_nothing_is_offered_and_seldom_asked(story: Story) -> None:
    story.scheduler.free = 0
    assert await story.minutes(60) == []
    assert 5 <= len(story.scheduler.asked) <= 7

    story.scheduler.free = 1
    assert [kind for kind, _ in await story.minutes(6)] == ["job-offer"]
    story.scheduler.free = 0
    assert [kind for kind, _ in await story.minutes(6)] == ["job-offer-over"]


async def test_a_rule_that_refuses_the_job_is_no_offer_and_a_lost_scheduler_no_answer(
    story: Story,
) -> None:
    story.scheduler.error = PolicyRefused("Not here.")
    assert await story.minutes(40) == []
    story.scheduler.error = Unreachable("Away.")
    with pytest.raises(Unreachable):
        await story.minutes(10)
    assert story.told() == []
    story.scheduler.error = None
    assert len(await story.minutes(6)) == 1


async def test_nobody_who_looks_is_told_when_somebody_does(story: Story) -> None:
    story.fanout.remove(story.tab)
    await story.minutes(40)
    story.fanout.add(story.tab)
    assert len(await story.minutes(1)) == 1


async def test_a_notebook_that_is_no_file_and_a_memory_that_cannot_be_read(
    story: Story,
) -> None:
    (story.root / "train.ipynb").unlink()
    assert await story.minutes(40) == []
    story.notebook("train.ipynb", "fit()")
    (story.folder / "state").mkdir()
    (story.folder / "state" / FILE).write_text("{")
    assert len(await story.minutes(1)) == 1
    assert json.loads((story.folder / "state" / FILE).read_text())["kernels"].keys() == {"k1"}


async def test_no_thanks_outlives_a_moment_in_which_it_cannot_be_read(
    story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    await story.offering.refuse("train.ipynb")
    kept = (story.folder / "state" / FILE).read_text()

    def away(_path: Path) -> bytes:
        raise OSError(errno.EIO, "away")

    with monkeypatch.context() as patched:
        patched.setattr(Path, "read_bytes", away)
        with pytest.raises(OSError, match="away"):
            story.offering.memory.offered("k2", NOW)
    assert (story.folder / "state" / FILE).read_text() == kept
