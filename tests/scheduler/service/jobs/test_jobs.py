"""Jobs from request to view, decided by the real core."""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from service_world import CONFIG, ServiceWorld, a_request, done

from gpucommons.scheduler.core.model.demand import every_size
from gpucommons.scheduler.core.model.types import State, WorkloadId
from gpucommons.scheduler.errors import (
    Conflict,
    Forbidden,
    InvalidTransition,
    Misconfigured,
    NotFound,
    PolicyRefused,
    UnknownWorkload,
)
from gpucommons.scheduler.models.jobs.jobs import OBJECT_LABEL
from gpucommons.scheduler.service import job_quote
from gpucommons.scheduler.service.jobs import jobs, logs, run_again
from gpucommons.scheduler.service.jobs.jobs import JobFilter
from gpucommons.scheduler.service.lookup import find_job
from gpucommons.scheduler.service.views.jobs import job_view
from gpucommons.scheduler.store.base import WorkloadFilter
from gpucommons.scheduler.store.memory import MemoryStore


def test_a_job_is_stored_named_and_started(world: ServiceWorld) -> None:
    ann = world.principal("ann")
    view = jobs.submit(world.service, ann, a_request(role={"milli_gpu": 500}), key=None)
    assert (view.name, view.team, view.owner) == ("digits-1", "vision", "ann")
    world.pass_time(1000)
    running = jobs.job(world.service, ann, "digits-1")
    assert (running.state, running.hold_class, running.pool) == ("running", "guaranteed", "gpu")
    assert running.source == "train.py"
    assert running.request is not None
    assert running.request.roles[0].command == ["python", "train.py"]


def test_a_secret_that_is_known_to_be_missing_is_refused_and_quoted_so(world: ServiceWorld) -> None:
    def why(user: str, name: str) -> str | None:
        return None if (user, name) == ("ann", "kept") else f"There is no secret called {name}."

    service, ann = replace(world.service, why_no_secret=why), world.principal("ann")
    lacks = a_request(secrets={"TOKEN": "kept", "KEY": "nonexistent"})
    for ask in (job_quote.quote_job, partial(jobs.submit, key=None)):
        with pytest.raises(Misconfigured, match="There is no secret called nonexistent"):
            ask(service, ann, lacks)
    has = a_request(secrets={"TOKEN": "kept"})
    assert jobs.submit(service, ann, has, key=None).name == "digits-1"


def test_the_same_key_stores_one_job(world: ServiceWorld) -> None:
    ann = world.principal("ann")
    first = jobs.submit(world.service, ann, a_request(), key="k1")
    assert jobs.submit(world.service, ann, a_request(), key="k1").id == first.id
    with pytest.raises(Conflict, match="another request"):
        jobs.submit(world.service, ann, a_request(name="other"), key="k1")
    other = jobs.submit(world.service, world.principal("alf"), a_request(), key="k1")
    assert other.id != first.id


def test_a_repeated_request_is_answered_at_the_cap_and_takes_no_name(tmp_path: Path) -> None:
    world = ServiceWorld(tmp_path, config={**CONFIG, "policy": {"max_pending_per_user": 1}})
    ann = world.principal("ann")
    waits = a_request(not_before_ms=world.now_ms + 60_000)
    first = jobs.submit(world.service, ann, waits, key="k1")
    assert jobs.submit(world.service, ann, waits, key="k1").id == first.id
    with pytest.raises(PolicyRefused, match="max_pending_per_user"):
        jobs.submit(world.service, ann, waits, key="k2")
    world.pass_time(120_000)
    assert jobs.submit(world.service, ann, a_request(), key="k2").name == "digits-2"


def test_paused_jobs_count_as_waiting_ones(tmp_path: Path) -> None:
    world = ServiceWorld(tmp_path, config={**CONFIG, "policy": {"max_pending_per_user": 1}})
    ann = world.principal("ann")
    waits = a_request(not_before_ms=world.now_ms + 60_000)
    first = jobs.submit(world.service, ann, waits, key=None)
    world.pass_time(1000)
    done(jobs.pause(world.service, ann, first.id))
    world.pass_time(1000)
    assert jobs.job(world.service, ann, first.id).state == "paused"
    with pytest.raises(PolicyRefused, match="or are paused"):
        jobs.submit(world.service, ann, waits, key=None)


def test_a_submit_that_comes_between_the_look_at_the_cap_and_the_write_counts(
    tmp_path: Path,
) -> None:
    world = ServiceWorld(tmp_path, config={**CONFIG, "policy": {"max_pending_per_user": 1}})
    ann = world.principal("ann")
    waits = a_request(not_before_ms=world.now_ms + 60_000)

    def ids() -> Iterator[str]:
        jobs.submit(world.service, ann, waits, key=None)
        yield from world.service.new_ids

    with pytest.raises(PolicyRefused, match="max_pending_per_user"):
        jobs.submit(replace(world.service, new_ids=ids()), ann, waits, key=None)
    assert len(jobs.jobs(world.service, ann, JobFilter(), cursor=None).jobs) == 1


def test_jobs_are_found_by_id_name_and_team_but_not_by_strangers(world: ServiceWorld) -> None:
    ann = world.principal("ann")
    view = jobs.submit(world.service, ann, a_request(), key=None)
    for ref in (view.id, "digits-1", "vision/digits-1"):
        assert jobs.job(world.service, world.principal("alf"), ref).id == view.id
        with pytest.raises(UnknownWorkload):
            jobs.job(world.service, world.principal("bob"), ref)
    assert jobs.job(world.service, world.admin, "digits-1").id == view.id


def test_of_anothers_job_no_name_is_told_to_who_knows_its_number(world: ServiceWorld) -> None:
    job = jobs.submit(world.service, world.principal("ann"), a_request(), key=None)
    bob = world.principal("bob")
    for field in ("after", "after_any", "after_failed", "near", "resume_from"):
        ask = a_request(**{field: job.id if field == "resume_from" else [job.id]})
        with pytest.raises(UnknownWorkload) as refused:
            jobs.submit(world.service, bob, ask, key=None)
        assert job.name not in str(refused.value)
    with pytest.raises(UnknownWorkload):
        find_job(world.service, bob, job.id)
    assert find_job(world.service, world.admin, job.id).spec.name == job.name


def test_a_team_list_shows_names_to_the_team_and_nothing_to_others(world: ServiceWorld) -> None:
    jobs.submit(world.service, world.principal("ann"), a_request(role={"milli_gpu": 500}), key=None)
    mine = jobs.jobs(world.service, world.principal("alf"), jobs.JobFilter(), cursor=None)
    assert [(job.name, job.owner) for job in mine.jobs] == [("digits-1", "ann")]
    bob = world.principal("bob")
    assert jobs.jobs(world.service, bob, jobs.JobFilter(), cursor=None).jobs == []
    (seen,) = jobs.jobs(world.service, bob, jobs.JobFilter(team="vision"), cursor=None).jobs
    assert (seen.name, seen.owner, seen.request, seen.attempts) == ("training", "", None, [])
    by_owner = jobs.JobFilter(team="vision", owner="ann")
    assert jobs.jobs(world.service, bob, by_owner, cursor=None).jobs == []


def test_what_lives_is_listed_page_by_page_without_reading_the_store(
    world: ServiceWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    ann = world.principal("ann")
    for _ in range(5):
        jobs.submit(world.service, ann, a_request(), key=None)
        world.pass_time(1)
    jobs.cancel(world.service, ann, "digits-2")
    for _ in range(3):
        world.pass_time(60_000)
    assert world.store.workloads(WorkloadFilter(live=True)).items[-1].spec.name == "digits-1"
    monkeypatch.delattr(MemoryStore, "workloads")
    jobs.submit(world.service, ann, a_request(), key=None)
    names, cursor = [], None
    while not names or cursor is not None:
        page = jobs.jobs(world.service, ann, JobFilter(live=True, limit=2), cursor=cursor)
        names += [job.name for job in page.jobs]
        cursor = page.cursor
    assert names == [f"digits-{number}" for number in (6, 5, 4, 3, 1)]
    assert (
        jobs.jobs(world.service, world.principal("bob"), JobFilter(live=True), cursor=None).jobs
        == []
    )


@pytest.mark.parametrize(("milli_gpu", "simulated"), [(4000, True), (0, False)])
def test_a_job_that_waits_says_whether_its_gpus_are_simulated(
    world: ServiceWorld, milli_gpu: int, *, simulated: bool
) -> None:
    ann, role = world.principal("ann"), {"milli_gpu": milli_gpu, "cpu_milli": 64_000}
    for _ in range(2):
        jobs.submit(world.service, ann, a_request(role=role), key=None)
    pools = {name: replace(pool, simulated=True) for name, pool in world.cluster.pools.items()}
    waits = next(w for w in world.cluster.workloads.values() if w.spec.name == "digits-2")
    seen = job_view(
        waits,
        ann,
        replace(world.cluster, pools=pools),
        now_ms=world.cluster.now_ms,
        why_not=every_size,
    )
    assert (seen.state, seen.simulated) == ("queued", simulated)


def test_only_owner_lead_and_admin_cancel(world: ServiceWorld) -> None:
    for number, name in enumerate(("ann", "ada", "root"), start=1):
        jobs.submit(world.service, world.principal("ann"), a_request(), key=None)
        ref = f"digits-{number}"
        with pytest.raises(Forbidden, match="belongs to ann"):
            jobs.cancel(world.service, world.principal("alf"), ref)
        who = world.admin if name == "root" else world.principal(name)
        done(jobs.cancel(world.service, who, ref))
        world.pass_time(1000)
        assert jobs.job(world.service, who, ref).state == "cancelled"
    with pytest.raises(InvalidTransition, match=r"digits-1 was cancelled\. It can be run again\."):
        jobs.cancel(world.service, world.principal("ann"), "digits-1")


def test_a_job_that_ends_before_what_was_asked_is_read_is_said_to_be_over(
    world: ServiceWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    ann = world.principal("ann")
    jobs.submit(world.service, ann, a_request(), key=None)
    world.pass_time(1000)
    (running,) = world.cluster.workloads.values()
    done(jobs.cancel(world.service, ann, "digits-1"))
    while world.cluster.workloads:
        world.pass_time(60_000)
    monkeypatch.setattr(jobs, "find_job", lambda *_: running)
    with pytest.raises(InvalidTransition, match=r"digits-1 was cancelled\. It can be run again\."):
        done(jobs.cancel(world.service, ann, "digits-1"))


def test_a_job_is_paused_and_resumed(world: ServiceWorld) -> None:
    ann = world.principal("ann")
    jobs.submit(world.service, ann, a_request(), key=None)
    world.pass_time(1000)
    done(jobs.pause(world.service, ann, "digits-1"))
    world.pass_time(1000)
    assert jobs.job(world.service, ann, "digits-1").state == "paused"
    done(jobs.resume(world.service, ann, "digits-1"))
    world.pass_time(1000)
    view = jobs.job(world.service, ann, "digits-1")
    assert (view.state, len(view.attempts)) == ("running", 2)


def test_run_again_makes_a_job_of_the_caller(world: ServiceWorld) -> None:
    jobs.submit(world.service, world.principal("ann"), a_request(), key=None)
    view = run_again.again(world.service, world.principal("alf"), "digits-1", key=None)
    assert (view.name, view.owner) == ("digits-2", "alf")
    with pytest.raises(UnknownWorkload):
        run_again.again(world.service, world.principal("bob"), "digits-1", key=None)


def test_a_teammates_job_run_again_has_neither_my_secrets_nor_my_home(
    world: ServiceWorld,
) -> None:
    asked = a_request(secrets={"HF": "hf-token"}, results_to="runs")
    mine = jobs.submit(world.service, world.principal("ann"), asked, key=None)
    theirs = run_again.again(world.service, world.principal("alf"), mine.name, key=None)
    assert theirs.request is not None
    assert (theirs.request.secrets, theirs.request.results_to) == ({}, None)
    own = run_again.again(world.service, world.principal("ann"), mine.name, key=None)
    assert own.request is not None
    assert (own.request.secrets, own.request.results_to) == ({"HF": "hf-token"}, "runs")


def test_dependencies_are_names_and_must_be_able_to_end_well(world: ServiceWorld) -> None:
    ann = world.principal("ann")
    first = jobs.submit(world.service, ann, a_request(), key=None)
    second = jobs.submit(world.service, ann, a_request(after=["digits-1"]), key=None)
    assert second.request is not None
    assert second.request.after == [first.id]
    world.pass_time(1000)
    waiting = jobs.job(world.service, ann, "digits-2")
    assert waiting.reason is not None
    assert waiting.reason.code == "dependency"
    done(jobs.cancel(world.service, ann, "digits-1"))
    world.pass_time(1000)
    with pytest.raises(Misconfigured, match="digits-1 is cancelled"):
        jobs.submit(world.service, ann, a_request(after=["digits-1"]), key=None)
    with pytest.raises(UnknownWorkload):
        jobs.submit(world.service, world.principal("bob"), a_request(after=["digits-1"]), key=None)


def test_a_quote_says_what_would_happen_and_stores_nothing(world: ServiceWorld) -> None:
    ann = world.principal("ann")
    inside = job_quote.quote_job(world.service, ann, a_request(role={"milli_gpu": 1000}))
    assert (inside.hold_class, inside.starts_now) == ("guaranteed", True)
    beyond = job_quote.quote_job(world.service, ann, a_request(role={"milli_gpu": 2000}))
    assert beyond.hold_class == "over-quota"
    assert "other teams can take them back" in beyond.text
    assert beyond.stop_text.startswith("If it is stopped before it saved a checkpoint: ")
    assert jobs.jobs(world.service, ann, jobs.JobFilter(), cursor=None).jobs == []


def test_a_quote_refuses_the_label_of_a_clusters_object_as_a_submit_does(
    world: ServiceWorld,
) -> None:
    ask = a_request(labels={OBJECT_LABEL: "x/y"})
    for act in (job_quote.quote_job, partial(jobs.submit, key=None)):
        with pytest.raises(Misconfigured, match="is set by the operator alone"):
            act(world.service, world.principal("ann"), ask)


def test_logs_are_read_by_the_team_alone(world: ServiceWorld) -> None:
    ann = world.principal("ann")
    jobs.submit(world.service, ann, a_request(), key=None)
    world.pass_time(1000)
    view = done(logs.log(world.service, ann, "digits-1", logs.LogPosition()))
    assert (view.lines, view.attempt) == (["hello"], 1)
    with pytest.raises(UnknownWorkload):
        logs.log(world.service, world.principal("bob"), "digits-1", logs.LogPosition())
    for where in (logs.LogPosition(attempt=7), logs.LogPosition(rank=9)):
        with pytest.raises(NotFound):
            done(logs.log(world.service, ann, "digits-1", where))


def test_time_of_a_stopped_attempt_is_lost_back_to_its_checkpoint(world: ServiceWorld) -> None:
    ann = world.principal("ann")
    jobs.submit(world.service, ann, a_request(role={"milli_gpu": 1000}), key=None)
    world.pass_time(1000)
    world.pass_time(10_000)
    done(jobs.pause(world.service, ann, "digits-1"))
    world.pass_time(0)
    view = jobs.job(world.service, ann, "digits-1")
    assert view.state == State.PAUSED
    assert view.lost_milli_gpu_s == 10_000
    assert view.held_milli_gpu_s >= 10_000


def test_what_a_stop_lost_stays_lost_when_the_job_is_cancelled_in_line(world: ServiceWorld) -> None:
    ann = world.principal("ann")
    jobs.submit(world.service, ann, a_request(role={"milli_gpu": 1000}), key=None)
    world.pass_time(1000)
    world.pass_time(10_000)
    done(jobs.pause(world.service, ann, "digits-1"))
    world.pass_time(0)
    done(jobs.cancel(world.service, ann, "digits-1"))
    world.pass_time(0)
    view = jobs.job(world.service, ann, "digits-1")
    assert (view.state, view.lost_milli_gpu_s) == (State.CANCELLED, 10_000)


def test_a_job_that_is_cancelled_while_it_runs_loses_nothing_to_stops(world: ServiceWorld) -> None:
    ann = world.principal("ann")
    jobs.submit(world.service, ann, a_request(role={"milli_gpu": 1000}), key=None)
    world.pass_time(1000)
    world.pass_time(10_000)
    done(jobs.cancel(world.service, ann, "digits-1"))
    world.pass_time(0)
    view = jobs.job(world.service, ann, "digits-1")
    assert (view.state, view.lost_milli_gpu_s) == (State.CANCELLED, 0)


def test_near_names_jobs_that_one_may_see_and_is_no_reason_to_wait(world: ServiceWorld) -> None:
    ann = world.principal("ann")
    first = jobs.submit(world.service, ann, a_request(), key=None)
    asked = a_request(near=["digits-1"], data=["images", "images"])
    second = jobs.submit(world.service, ann, asked, key=None)
    assert second.request is not None
    assert (second.request.near, second.request.data) == ([first.id], ["images"])
    assert world.cluster.workloads[WorkloadId(second.id)].spec.near == (first.id,)
    with pytest.raises(UnknownWorkload):
        jobs.submit(world.service, ann, a_request(near=["nobody-1"]), key=None)
    with pytest.raises(UnknownWorkload):
        jobs.submit(world.service, world.principal("bob"), a_request(near=["digits-1"]), key=None)
