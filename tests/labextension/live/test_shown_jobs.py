"""Which jobs the tabs show, in a team where many are submitted and many end."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from gpucommons.labextension.live.shown_jobs import LIVE_PAGE, MOST_ASKED, NEWEST_FINAL, ShownJobs
from gpucommons.scheduler.errors import UnknownWorkload
from gpucommons.scheduler.models import JobList, JobView

Make = Callable[..., JobView]


class Team:
    """Lists jobs as the scheduler does: newest submitted first, page by page."""

    def __init__(self, jobs: Iterable[JobView] = ()) -> None:
        self.jobs = {job.id: job for job in jobs}
        self.asked: list[str] = []

    async def send(self, call: Any) -> Any:
        *_, ref = call.path.split("/")
        if ref != "jobs":
            self.asked.append(ref)
            if ref not in self.jobs:
                raise UnknownWorkload
            return self.jobs[ref]
        live, owner = call.query["live"] == "true", call.query.get("owner")
        found = sorted(
            (
                job
                for job in self.jobs.values()
                if (job.ended_ms is None) is live and owner in (None, job.owner)
            ),
            key=lambda job: -job.submitted_ms,
        )
        start = int(call.query.get("cursor") or 0)
        end = start + int(call.query["limit"])
        return JobList(jobs=found[start:end], cursor=str(end) if end < len(found) else None)

    def put(self, *jobs: JobView) -> None:
        self.jobs.update((job.id, job) for job in jobs)


def running(make: Make, number: int, **fields: Any) -> JobView:
    return make(id=f"j{number}", name=f"job-{number}", submitted_ms=number, **fields)


def ended(make: Make, number: int, ended_ms: int, **fields: Any) -> JobView:
    state = {"state": "succeeded", "ended_ms": ended_ms, "since_ms": ended_ms}
    return running(make, number, **{**state, **fields})


def names(jobs: Iterable[JobView]) -> list[str]:
    return [job.name for job in jobs]


async def test_a_long_job_that_ends_after_many_later_ones_is_shown_until_others_ended_later(
    make_job: Make,
) -> None:
    later = [ended(make_job, n, 1_000 + n) for n in range(1, NEWEST_FINAL + 1)]
    team = Team([running(make_job, 0), *later])
    shown = ShownJobs("ada")
    assert names((await shown.look(team)).live) == ["job-0"]
    team.put(ended(make_job, 0, 100_000))
    for _ in range(2):
        found = await shown.look(team)
        assert found.live == ()
        assert found.final[0].name == "job-0"
        assert len(found.final) == NEWEST_FINAL + 1
    assert team.asked == ["j0"]


async def test_the_owners_jobs_that_ended_while_the_server_was_off_are_found(
    make_job: Make,
) -> None:
    others = [ended(make_job, n, 1_000 + n, owner="bob") for n in range(1, NEWEST_FINAL + 1)]
    team = Team([ended(make_job, 0, 500, owner="ada"), *others])
    assert "job-0" in names((await ShownJobs("ada").look(team)).final)
    assert "job-0" not in names((await ShownJobs("").look(team)).final)


async def test_a_job_that_ends_while_the_lists_are_read_is_shown_once_and_as_over(
    make_job: Make,
) -> None:
    class Ending(Team):
        async def send(self, call: Any) -> Any:
            answer = await super().send(call)
            if call.query.get("live") == "true":
                self.put(ended(make_job, 0, 100_000))
            return answer

    found = await ShownJobs("ada").look(Ending([running(make_job, 0)]))

    assert found.live == ()
    assert [(job.name, job.state) for job in found.final] == [("job-0", "succeeded")]


async def test_all_live_jobs_are_shown_however_many_pages_they_fill(make_job: Make) -> None:
    team = Team(running(make_job, n) for n in range(LIVE_PAGE + 1))
    found = await ShownJobs("ada").look(team)
    assert len({job.id for job in found.live}) == LIVE_PAGE + 1


async def test_where_very_many_end_at_once_a_few_are_asked_for_at_each_look(
    make_job: Make,
) -> None:
    count = 2 * MOST_ASKED
    team = Team(running(make_job, n) for n in range(count))
    shown = ShownJobs("ada")
    await shown.look(team)
    # Gone from every list, and most of them from everywhere.
    team.jobs = {}
    team.put(*(ended(make_job, 1_000 + n, 1) for n in range(NEWEST_FINAL)))
    for _ in range(4):
        await shown.look(team)
    assert len(team.asked) == len(set(team.asked)) == count
