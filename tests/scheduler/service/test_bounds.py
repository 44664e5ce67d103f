"""What one user may make the scheduler keep and send is bounded."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from service_world import ServiceWorld, a_request

from gpucommons.scheduler import models
from gpucommons.scheduler.core.model.types import Millis
from gpucommons.scheduler.errors import NotFound, TooLarge, TooManyRequests
from gpucommons.scheduler.scripts.frameworks import Script
from gpucommons.scheduler.service import job_quote, leases
from gpucommons.scheduler.service.in_memory.submit_and_upload_allowances import (
    Allowance,
    SubmitLimit,
)
from gpucommons.scheduler.service.jobs import environments, jobs, run_again, sweeps
from gpucommons.scheduler.service.jobs.jobs import JobFilter
from gpucommons.scheduler.service.views.shortened_requests import (
    LISTED_REQUEST_BYTES,
    SHORT_REQUEST_BYTES,
    page_of,
)

HOUR_MS = 3_600_000
LONG = {f"VALUE_{number}": "x" * 8000 for number in range(7)}


def test_a_job_that_describes_itself_at_length_is_refused_with_a_way_out(
    world: ServiceWorld,
) -> None:
    ann = world.principal("ann")
    request = a_request(env={**LONG, "MORE": "x" * 8000, "STILL_MORE": "x" * 2000})
    with pytest.raises(TooLarge, match=r"takes 66 KiB, and 64 KiB are possible: put long"):
        jobs.submit(world.service, ann, request, key=None)
    with pytest.raises(TooLarge):
        job_quote.quote_job(world.service, ann, request)


def test_characters_of_several_bytes_count_as_such(world: ServiceWorld) -> None:
    request = a_request(role={"command": ["python", *(["😀" * 8000] * 3)]})
    with pytest.raises(TooLarge):
        jobs.submit(world.service, world.principal("ann"), request, key=None)


@pytest.mark.parametrize(
    ("changes", "lacks"),
    [
        ({}, []),
        ({"env": LONG}, ["env"]),
        ({"role": {"command": ["python", "train.py", *(["x" * 8000] * 2)]}}, ["roles.command"]),
        ({"env": LONG, "labels": {"note": "kept"}}, ["env"]),
        (
            {
                "env": {"A": "x" * 8000},
                "labels": {f"l-{number}": "😀" * 500 for number in range(20)},
                "role": {"command": ["train.sh", "x" * 8000], "milli_gpu": 250},
            },
            ["env", "labels", "roles.command"],
        ),
    ],
)
def test_lists_leave_out_what_is_long_of_a_request_and_say_so(
    world: ServiceWorld, changes: dict[str, Any], lacks: list[str]
) -> None:
    ann = world.principal("ann")
    job = jobs.submit(world.service, ann, a_request(**changes), key=None)
    assert job.request is not None
    (view,) = jobs.jobs(world.service, ann, JobFilter(), cursor=None).jobs
    view = models.JobView.model_validate_json(view.model_dump_json())

    assert view.request_lacks == lacks
    assert view.request is not None
    assert len(view.request.model_dump_json().encode()) <= LISTED_REQUEST_BYTES
    assert view.request.roles[0].milli_gpu == job.request.roles[0].milli_gpu
    assert view.request.labels == ({} if "labels" in lacks else job.request.labels)
    assert (view.request.roles[0].command == ["…"]) == ("roles.command" in lacks)
    assert view.source == job.source
    found = jobs.job(world.service, ann, job.id)
    assert (found.request, found.request_lacks) == (job.request, [])


def test_one_user_submits_so_many_jobs_within_an_hour_and_others_do_not_feel_it(
    world: ServiceWorld,
) -> None:
    service = replace(world.service, submits=SubmitLimit(per_hour=2))
    ann, alf = world.principal("ann"), world.principal("alf")
    for key in ("a", "b"):
        view = jobs.submit(service, ann, a_request(), key=key)
        jobs.cancel(service, ann, view.id)
    with pytest.raises(TooManyRequests, match=r"ann has submitted .* \(2, of 8 KiB each"):
        jobs.submit(service, ann, a_request(), key="c")
    with pytest.raises(TooManyRequests):
        run_again.again(service, ann, view.id, key=None)
    # What is stored already is answered, and what is refused takes no name.
    assert jobs.submit(service, ann, a_request(), key="b").name == "digits-2"
    assert jobs.submit(service, alf, a_request(), key=None).name == "digits-3"
    world.pass_time(HOUR_MS)
    assert jobs.submit(service, ann, a_request(), key="c").name == "digits-4"


def test_a_page_of_long_requests_does_not_weigh_as_many_times_what_one_may(
    world: ServiceWorld,
) -> None:
    ann = world.principal("ann")
    long = a_request(env={"E": "x" * 7000}, labels={"run": "a"})
    view = models.JobList(jobs=page_of([jobs.submit(world.service, ann, long, key=None)] * 500))
    assert len(view.model_dump_json()) < 500 * 5 * SHORT_REQUEST_BYTES
    assert [one.request_lacks for one in view.jobs[:1] + view.jobs[-1:]] == [[], ["env"]]
    assert view.jobs[-1].request is not None
    assert view.jobs[-1].request.labels == {"run": "a"}


def test_one_person_gives_so_many_orders_within_an_hour_and_others_do_not_feel_it(
    world: ServiceWorld,
) -> None:
    orders = Allowance(
        within_ms=HOUR_MS, most=2, most_bytes=0, refusal=lambda user: f"{user}, wait"
    )
    service = replace(world.service, orders=orders)
    ann, alf = world.principal("ann"), world.principal("alf")
    for milli_gpu in (250, 500):
        leases.wait_in_line(service, ann, models.LeaseRequest(milli_gpu=milli_gpu), key=None)
    with pytest.raises(TooManyRequests, match="ann, wait"):
        leases.wait_in_line(service, ann, models.LeaseRequest(milli_gpu=250), key=None)
    leases.wait_in_line(service, alf, models.LeaseRequest(milli_gpu=250), key=None)
    # Admins and services order for many, and jobs have a bound of their own.
    for _ in range(3):
        view = jobs.submit(service, ann, a_request(), key=None)
        jobs.cancel(service, world.admin, view.id)
    world.pass_time(HOUR_MS)
    leases.wait_in_line(service, ann, models.LeaseRequest(milli_gpu=250), key=None)


def test_a_scheduler_that_starts_anew_or_beside_another_counts_what_was_submitted_before(
    world: ServiceWorld,
) -> None:
    ann = world.principal("ann")
    for _ in range(2):
        jobs.submit(world.service, ann, a_request(), key=None)
    another = replace(world.service, submits=SubmitLimit(per_hour=2))
    with pytest.raises(TooManyRequests):
        jobs.submit(another, ann, a_request(), key=None)


def test_what_jobs_say_counts_too(world: ServiceWorld) -> None:
    service = replace(world.service, submits=SubmitLimit(per_hour=8))
    ann = world.principal("ann")
    jobs.submit(service, ann, a_request(env=LONG), key=None)
    with pytest.raises(TooManyRequests):
        jobs.submit(service, ann, a_request(env=LONG), key=None)
    jobs.submit(service, ann, a_request(), key=None)


def test_an_allowance_forgets_who_brings_nothing_more() -> None:
    allowance = Allowance(within_ms=10, most=1, most_bytes=5, refusal=str)
    allowance.take("ann", 5, now_ms=Millis(100))
    allowance.take("bob", 5, now_ms=Millis(120))
    assert list(allowance._taken) == ["bob"]
    with pytest.raises(TooManyRequests):
        allowance.take("bob", 0, now_ms=Millis(129))


def test_who_submitted_too_much_within_the_hour_has_no_script_read(
    world: ServiceWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads: list[object] = []

    def read(_service: object, request: object) -> Script:
        reads.append(request)
        return Script()

    monkeypatch.setattr(environments, "_script", read)
    service = replace(world.service, submits=SubmitLimit(per_hour=1))
    role = {"command": ["python", "train.py"], "count": 2}
    request = a_request(role=role, launcher="auto")
    jobs.submit(service, world.principal("ann"), request, key=None)
    assert len(reads) == 1
    with pytest.raises(TooManyRequests):
        jobs.submit(service, world.principal("ann"), request, key=None)
    assert len(reads) == 1


def test_a_script_that_was_read_is_remembered_and_files_that_did_not_come_are_not(
    world: ServiceWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads: list[str] = []

    def read(_chunks: object, name: str) -> Script:
        reads.append(name)
        return Script(uses_ours=True)

    def gone(_snapshot: str) -> object:
        raise NotFound("gone")

    monkeypatch.setattr(environments, "_read", read)
    request = a_request(role={"command": ["python", "train.py"]}, snapshot="a" * 64)
    monkeypatch.setattr(type(world.service.snapshots), "chunks", lambda _self, name: gone(name))
    assert not environments.script_reader(world.service, request)().uses_ours
    monkeypatch.setattr(type(world.service.snapshots), "chunks", lambda _self, _name: iter(()))
    for _ in range(2):
        assert environments.script_reader(world.service, request)().uses_ours
    assert reads == ["train.py"]


def test_what_is_written_of_sweeps_counts_as_jobs_do_stopped_or_not(world: ServiceWorld) -> None:
    service, ann = replace(world.service, submits=SubmitLimit(per_hour=10)), world.principal("ann")
    large = models.SweepRequest.model_validate(
        {
            "job": a_request(),
            "space": {"seed": [f"{n:060}" for n in range(900)]},
            "objective": {"metric": "loss"},
            "budget": {"trials": 2},
            "sampler": "grid",
        }
    )
    made = sweeps.submit_sweep(service, ann, large, key=None)
    sweeps.stop_sweep(service, ann, made.id)
    with pytest.raises(TooManyRequests, match="as many jobs within one hour"):
        sweeps.submit_sweep(service, ann, large, key=None)
    world.pass_time(HOUR_MS)
    sweeps.submit_sweep(service, ann, large, key=None)
