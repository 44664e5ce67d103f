"""Results of jobs that ran elsewhere come back by themselves, once, and only to their owner."""

from __future__ import annotations

import asyncio
import io
import os
import tarfile
from pathlib import Path
from typing import Any

import httpx
import pytest

from gpucommons.labextension.results import Results
from gpucommons.labextension.server_context import ServerContext
from gpucommons.scheduler.client import SchedulerClient
from gpucommons.scheduler.errors import Conflict
from gpucommons.scheduler.models import JobView, NotBroughtView, ResultsView

JOB_ID = "018f0000-0000-7000-8000-000000000001"


def a_job(**changes: Any) -> JobView:
    state = changes.pop("results", "away")
    folder = "work" if state == "away" else None
    results = ResultsView(state=state, text="It wrote no files.", folder=folder)
    base: dict[str, Any] = {
        "id": JOB_ID,
        "name": "digits-7",
        "kind": "training",
        "team": "vision",
        "owner": "alice",
        "submitted_by": "alice",
        "state": "succeeded",
        "pools": ["train"],
        "milli_gpu": 1000,
        "workers": 1,
        "priority": "normal",
        "over_quota": True,
        "submitted_ms": 1,
        "since_ms": 1,
        "results_away": True,
        "results": results,
    }
    return JobView(**{**base, **changes})


class Scheduler:
    """Gives the same results to everybody, and counts."""

    def __init__(self) -> None:
        self.asked = 0
        #: How often it answers so first.
        self.refuses: list[httpx.Response] = []
        self.job = a_job()
        stream = io.BytesIO()
        with tarfile.open(fileobj=stream, mode="w") as archive:
            member = tarfile.TarInfo("model")
            member.size = 3
            archive.addfile(member, io.BytesIO(b"new"))
        self.content = stream.getvalue()

    def __call__(self, request: httpx.Request) -> httpx.Response:
        if not request.url.path.endswith("/results"):
            return httpx.Response(200, content=self.job.model_dump_json())
        self.asked += 1
        assert request.url.path == f"/v1/jobs/{JOB_ID}/results"
        if self.refuses:
            return self.refuses.pop(0)
        return httpx.Response(200, content=self.content)

    def client(self) -> SchedulerClient:
        return SchedulerClient("http://scheduler", transport=httpx.MockTransport(self))


@pytest.fixture
def scheduler() -> Scheduler:
    return Scheduler()


@pytest.fixture
def results(scheduler: Scheduler, tmp_path: Path) -> Results:
    (tmp_path / "work").mkdir()
    return Results(ServerContext(owner="alice"), home=lambda: tmp_path, connect=scheduler.client)


async def settled(results: Results) -> None:
    await asyncio.gather(*results._tasks)


async def test_they_are_fetched_once_when_the_job_is_seen_to_have_succeeded(
    results: Results, scheduler: Scheduler, tmp_path: Path
) -> None:
    results.take([a_job()])
    results.take([a_job()])
    await settled(results)
    assert (tmp_path / "work" / "model").read_bytes() == b"new"
    assert scheduler.asked == 1


async def test_a_restarted_server_does_not_fetch_them_again(
    results: Results, scheduler: Scheduler, tmp_path: Path
) -> None:
    results.take([a_job()])
    await settled(results)
    (tmp_path / "work" / "model").write_text("edited since")
    again = Results(ServerContext(owner="alice"), home=lambda: tmp_path, connect=scheduler.client)
    again.take([a_job()])
    await settled(again)
    assert (tmp_path / "work" / "model").read_text() == "edited since"
    assert scheduler.asked == 1


@pytest.mark.parametrize("changes", [{"owner": "bob"}, {"results_away": False}])
async def test_what_is_not_ours_or_not_away_is_left_alone(
    results: Results, scheduler: Scheduler, changes: dict[str, Any]
) -> None:
    results.take([a_job(**changes)])
    await settled(results)
    assert scheduler.asked == 0


async def test_where_they_are_meant_to_come_is_asked_for(
    results: Results, scheduler: Scheduler, tmp_path: Path
) -> None:
    results.take([a_job(state="failed").model_copy(update={"results": None})])
    await settled(results)
    assert (tmp_path / "work" / "model").read_bytes() == b"new"

    scheduler.job, scheduler.asked = a_job(results="none"), 0
    results.take([a_job(id=JOB_ID.replace("8", "9"))])
    await settled(results)
    assert scheduler.asked == 0


async def test_what_was_fetched_here_is_told_as_here(results: Results, tmp_path: Path) -> None:
    assert results.told(a_job()) == a_job()
    results.take([a_job()])
    await settled(results)

    told = results.told(a_job()).results
    assert told is not None
    assert (told.state, told.text) == ("here", "1 file (3 B) came to work/.")
    assert [(file.path, file.size_bytes) for file in told.files] == [("model", 3)]
    for path in (tmp_path / "work").iterdir():
        path.unlink()
    assert results.told(a_job()) == a_job()


class Patience:
    """Counts pauses instead of making them, and hears what is said."""

    def __init__(self, scheduler: Scheduler, home: Path) -> None:
        (home / "work").mkdir()
        self.pauses: list[float] = []
        self.said: list[str] = []
        self.results = Results(
            ServerContext(owner="alice"),
            home=lambda: home,
            connect=scheduler.client,
            sleep=self._sleep,
            say=self.said.append,
        )

    async def _sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)


def refusal(status: int, code: str) -> httpx.Response:
    return httpx.Response(status, json={"error": code, "message": "Not now."})


async def test_while_the_scheduler_is_away_they_are_tried_again_after_growing_pauses(
    scheduler: Scheduler, tmp_path: Path
) -> None:
    patience = Patience(scheduler, tmp_path)
    scheduler.refuses = [refusal(503, "Unavailable") for _ in range(9)]
    patience.results.take([a_job()])
    patience.results.take([a_job()])
    await settled(patience.results)
    assert (tmp_path / "work" / "model").read_bytes() == b"new"
    assert patience.pauses == [2, 4, 8, 16, 32, 64, 128, 256, 300]
    assert (scheduler.asked, patience.said) == (10, [])


async def test_a_name_that_is_no_text_is_told_in_text(results: Results, tmp_path: Path) -> None:
    await results.fetch(a_job(), None)
    (tmp_path / "work" / os.fsdecode(b"model-\xff")).touch()
    told = results.told(a_job()).results
    assert told is not None
    assert "model-" in told.model_dump_json()
    assert "model-\\udcff" in [file.path for file in told.files]


async def test_what_will_not_mend_itself_is_said_once(scheduler: Scheduler, tmp_path: Path) -> None:
    patience = Patience(scheduler, tmp_path)
    scheduler.refuses = [refusal(404, "NotFound")]
    for _ in range(2):
        patience.results.take([a_job()])
        await settled(patience.results)
    assert (scheduler.asked, patience.pauses) == (1, [])
    assert [text.startswith("The results of digits-7 were not") for text in patience.said] == [True]


async def test_they_can_be_fetched_to_another_folder_when_asked(
    results: Results, tmp_path: Path
) -> None:
    found = await results.fetch(a_job(results="none"), "elsewhere/deep")
    assert (found.folder, found.files) == ("elsewhere/deep", 1)
    assert (tmp_path / "elsewhere" / "deep" / "model").read_bytes() == b"new"
    with pytest.raises(Conflict, match=r"It wrote no files\."):
        await results.fetch(a_job(results="none"), None)


async def test_who_asks_for_files_that_were_left_out_reads_which_and_why(results: Results) -> None:
    left_out = NotBroughtView(path="model.bin", reason="(20.0 GiB) is beyond the 16.0 GiB")
    found = ResultsView(state="left_out", text="Nothing was copied.", not_brought=[left_out])
    job = a_job(results="none").model_copy(update={"results": found})
    with pytest.raises(
        Conflict, match=r"copied\. model\.bin \(20\.0 GiB\) is beyond the 16\.0 GiB\."
    ):
        await results.fetch(job, None)


async def test_a_mark_laid_as_a_link_is_not_followed(
    results: Results, scheduler: Scheduler, tmp_path: Path
) -> None:
    target = tmp_path / "victim"
    (tmp_path / ".gpucommons" / "fetched").mkdir(parents=True)
    (tmp_path / ".gpucommons" / "fetched" / JOB_ID).symlink_to(target)
    results.take([a_job()])
    await settled(results)
    assert scheduler.asked == 1
    assert not target.exists()


async def test_the_route_is_for_the_servers_owner_and_says_what_is_wrong(served: Any) -> None:
    answer = await served.http.post("gpucommons/fetch-results", json={"job": "no-such-job"})
    assert answer.status_code == 404
    answer = await served.http.post("gpucommons/fetch-results", json={"job": "../x"})
    assert answer.status_code == 422
