"""A job that took a plan is put beside it, and what runs show makes the next plans better."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from builders import a_node
from judged_runs import MINUTE, a_run, a_window
from service_world import A_TRAINING, ServiceWorld, a_request, done

from gpucommons.scheduler import models
from gpucommons.scheduler.background_tasks import plan_outcomes
from gpucommons.scheduler.background_tasks.plan_outcomes import Judging
from gpucommons.scheduler.core.model.types import Millis, State, Workload, WorkloadId
from gpucommons.scheduler.executors.fake import Script
from gpucommons.scheduler.service import advice
from gpucommons.scheduler.service.advice import past
from gpucommons.scheduler.service.advice.plan_beside_outcome import finish_of, plan_record
from gpucommons.scheduler.service.jobs import jobs, run_again
from gpucommons.scheduler.service.lookup import workload_of
from gpucommons.scheduler.service.service import Service
from gpucommons.scheduler.store.base import LogPoint
from gpucommons.scheduler.store.plans.base import JudgedRun

TRAINING = {**A_TRAINING, "steps": 100}


@pytest.fixture
def world(tmp_path: Path) -> ServiceWorld:
    config = {
        "pools": [
            {
                "name": "gpu",
                "executor": "fake",
                "currency": "EUR",
                "prices": [{"per_gpu_h": 2.0}],
            }
        ],
        "teams": [
            {
                "name": "vision",
                "members": ["ann"],
                "quotas": {"gpu": {"guaranteed_milli_gpu": 4000}},
            }
        ],
    }
    node = a_node("n1", 4, pool="gpu")
    real = tuple(replace(device, simulated=False) for device in node.devices)
    return ServiceWorld(tmp_path, config=config, nodes=(replace(node, devices=real),))


def plans(world: ServiceWorld, **changes: Any) -> list[models.PlanView]:
    request = models.AdviceRequest.model_validate({**TRAINING, **changes})
    found = advice.advise(world.service, world.principal("ann"), request)
    view = found if isinstance(found, models.AdviceView) else done(found)
    assert isinstance(view, models.AdviceView)
    return view.plans


def run(
    world: ServiceWorld,
    plan: models.PlanView,
    *,
    slower: float = 1.0,
    longer_ms: int = MINUTE,
    **job: Any,
) -> str:
    """Take a plan, run it to its end at so many times the seconds that it said, and have it judged.

    Its script goes on for ``longer_ms`` after its last step, and that long after it is looked at.
    """
    step_ms = round(1000 * slower * TRAINING["batch"] / plan.samples_per_s.middle)
    world.script = Script(run_ms=step_ms * 100 + longer_ms)
    milli_gpu = job.pop("milli_gpu", plan.milli_gpu)
    request = a_request(role={"milli_gpu": milli_gpu}, plan=plan.id, **job)
    job_id = jobs.submit(world.service, world.principal("ann"), request, key=None).id
    world.pass_time(0)
    began_ms = world.now_ms
    world.store.add_points(
        world.loop.epoch,
        {
            WorkloadId(job_id): [
                LogPoint(attempt_number=1, step=step, at_ms=Millis(began_ms + step * step_ms))
                for step in range(1, 101)
            ]
        },
    )
    world.pass_time(step_ms * 100 + 2 * longer_ms)
    return job_id


def judge(world: ServiceWorld) -> None:
    world.pass_time(10 * MINUTE)
    Judging(world.service, epoch=lambda: world.loop.epoch).step()


def lines(world: ServiceWorld, ref: str) -> dict[str, tuple[str, str, bool | None]]:
    found = past.job_plan(world.service, world.principal("ann"), ref)
    return {line.what: (line.predicted, line.actual, line.right) for line in found.lines}


def test_a_job_that_took_a_plan_shows_what_was_said_beside_what_came(world: ServiceWorld) -> None:
    plan = plans(world)[0]
    job_id = run(world, plan)
    judge(world)

    found = past.job_plan(world.service, world.principal("ann"), job_id)
    assert found.is_over
    assert found.text == f"{plan.layout} on 4 × A100-40 of gpu, grade C"
    said = lines(world, job_id)
    assert said["Speed"][1].endswith("samples/s")
    assert said["Speed"][2] is True
    assert said["Wait"] == ("none", "0 s", True)
    assert said["Memory per GPU"][1:] == ("not known", None)
    assert said["GPU-hours"][1:] != ("0", None)
    (kept,) = world.store.plans.runs()
    assert kept.followed
    assert kept.plan.plan_id == plan.id


def test_judging_again_changes_nothing_and_a_new_leader_repeats_it_harmlessly(
    world: ServiceWorld,
) -> None:
    run(world, plans(world)[0])
    judge(world)
    kept = world.store.plans.runs()
    judge(world)
    assert world.store.plans.runs() == kept
    assert len(kept) == 1


def test_a_job_that_is_not_over_is_compared_so_far_and_nothing_is_called_right(
    world: ServiceWorld,
) -> None:
    plan = plans(world)[0]
    request = a_request(role={"milli_gpu": 4000}, plan=plan.id)
    job_id = jobs.submit(world.service, world.principal("ann"), request, key=None).id
    world.pass_time(0)
    said = lines(world, job_id)
    assert said["Speed"][1:] == ("not known: it told too few steps", None)
    assert said["GPU-hours"][1:] == ("not measured yet (each minute is, once it is over)", None)


def test_a_job_that_waits_has_done_nothing_yet_whatever_its_plan_said(
    world: ServiceWorld,
) -> None:
    plan = plans(world)[0]
    ids = []
    for _ in range(2):
        request = a_request(role={"milli_gpu": 4000}, plan=plan.id)
        ids.append(jobs.submit(world.service, world.principal("ann"), request, key=None).id)
        world.pass_time(1000)
    assert {line[1] for line in lines(world, ids[1]).values()} == {"not started yet"}


def test_a_job_that_was_cancelled_in_line_never_started_and_is_not_waited_for(
    world: ServiceWorld,
) -> None:
    plan, ann = plans(world)[0], world.principal("ann")
    ids = []
    for _ in range(2):
        request = a_request(role={"milli_gpu": 4000}, plan=plan.id)
        ids.append(jobs.submit(world.service, ann, request, key=None).id)
        world.pass_time(1000)
    jobs.cancel(world.service, ann, ids[1])
    world.pass_time(1000)
    found = past.job_plan(world.service, ann, ids[1])
    assert found.is_over
    assert {line.actual for line in found.lines} == {"never started"}
    assert {line.right for line in found.lines} == {None}


def finish(world: ServiceWorld, ref: str) -> models.JudgedLine:
    found = past.job_plan(world.service, world.principal("ann"), ref)
    return next(line for line in found.lines if line.what == "Finish")


def test_when_it_was_said_to_be_done_stands_beside_when_it_was(world: ServiceWorld) -> None:
    plan = plans(world)[0]
    assert plan.finish_s is not None
    said = tuple(
        world.now_ms + round(1000 * one) for one in (plan.finish_s.low, plan.finish_s.high)
    )
    job_id = run(world, plan, longer_ms=0)
    line = finish(world, job_id)
    ended_ms = workload_of(world.service, WorkloadId(job_id)).ended_ms
    assert (line.predicted_ms, line.actual_ms, line.right) == (said, ended_ms, True)


def test_a_job_that_took_longer_than_said_was_done_outside_of_the_range(
    world: ServiceWorld,
) -> None:
    assert finish(world, run(world, plans(world)[0], slower=4.0)).right is False


def test_a_job_that_ended_a_second_after_the_last_moment_said_was_late(world: ServiceWorld) -> None:
    job_id = run(world, plans(world)[0], longer_ms=0)
    judge(world)
    (kept,) = world.store.plans.runs()
    finish_at = finish_of(kept.plan)
    assert finish_at is not None
    for late_ms, right in ((0, True), (1000, False)):
        found = plan_record(kept, ended_ms=Millis(int(finish_at.high) + late_ms))
        assert [line.right for line in found.lines if line.what == "Finish"] == [right]
    assert finish(world, job_id).right is True


def test_a_job_that_is_not_over_has_no_finish_yet(world: ServiceWorld) -> None:
    request = a_request(role={"milli_gpu": 4000}, plan=plans(world)[0].id)
    job_id = jobs.submit(world.service, world.principal("ann"), request, key=None).id
    world.pass_time(0)
    line = finish(world, job_id)
    assert (line.actual, line.actual_ms, line.right) == ("not over yet", None, None)


def test_a_job_that_goes_on_with_fewer_gpus_is_planned_anew_with_its_batch(
    world: ServiceWorld,
) -> None:
    plan, ann = plans(world)[0], world.principal("ann")
    request = a_request(role={"milli_gpu": 4000}, plan=plan.id)
    job_id = jobs.submit(world.service, ann, request, key=None).id
    world.pass_time(0)
    assert past.job_plan(world.service, ann, job_id).anew is None
    jobs.pause(world.service, ann, job_id)
    world.pass_time(MINUTE)
    jobs.resize(world.service, ann, job_id, models.JobSize(milli_gpu=2000))
    jobs.resume(world.service, ann, job_id)
    world.pass_time(MINUTE)
    found = past.job_plan(world.service, ann, job_id).anew
    assert found is not None
    assert (found.gpus, found.batch, found.as_told) == (2, TRAINING["batch"], True)
    assert (plan.layout, found.layout) == (
        "DDP × 4, accumulation × 8",
        "DDP × 2, accumulation × 16",
    )
    assert found.text.startswith(
        "Started on 2 GPUs; plan changed: DDP × 2, accumulation × 16; global batch unchanged (512):"
    )


def test_a_job_that_was_submitted_with_another_size_has_no_plan_to_change(
    world: ServiceWorld,
) -> None:
    job_id = run(world, plans(world)[0], milli_gpu=2000)
    assert past.job_plan(world.service, world.principal("ann"), job_id).anew is None


def test_a_share_of_a_gpu_does_not_judge_a_plan_for_whole_ones(world: ServiceWorld) -> None:
    job_id = run(world, plans(world)[0], milli_gpu=500)
    judge(world)
    found = past.job_plan(world.service, world.principal("ann"), job_id)
    assert any(one.startswith("It ran on less than a GPU of gpu, not on") for one in found.notes)


def test_a_job_without_a_plan_says_so(world: ServiceWorld) -> None:
    job_id = jobs.submit(world.service, world.principal("ann"), a_request(), key=None).id
    found = past.job_plan(world.service, world.principal("ann"), job_id)
    assert (found.text, found.lines) == ("It was submitted without a plan.", [])


def test_another_size_than_planned_does_not_judge_the_plan(world: ServiceWorld) -> None:
    plan = plans(world)[0]
    job_id = run(world, plan, milli_gpu=2000)
    judge(world)
    found = past.job_plan(world.service, world.principal("ann"), job_id)
    assert any(note.startswith("It ran on 2 GPUs of gpu, not on the 4") for note in found.notes)
    assert lines(world, job_id)["Speed"] == (
        lines(world, job_id)["Speed"][0],
        "not known: it told too few steps while it ran as planned",
        None,
    )
    assert plans(world)[0].grade == "C"


def test_a_plan_that_is_not_kept_any_more_is_left_out_with_a_warning(world: ServiceWorld) -> None:
    gone = "0190aaaa-0000-7000-8000-00000000ffff"
    view = jobs.submit(world.service, world.principal("ann"), a_request(plan=gone), key=None)
    assert view.request is not None
    assert view.request.plan is None
    assert any(
        text.startswith("The plan that it names is not kept any more") for text in view.warnings
    )


def test_who_runs_it_again_does_so_without_what_was_said_then(world: ServiceWorld) -> None:
    job_id = run(world, plans(world)[0])
    view = run_again.again(world.service, world.principal("ann"), job_id, key=None)
    assert view.request is not None
    assert view.request.plan is None


def test_runs_raise_the_grade_and_move_the_prediction_towards_what_was_measured(
    world: ServiceWorld,
) -> None:
    before = plans(world)[0]
    assert before.grade == "C"
    run(world, before, slower=1.3)
    judge(world)
    after_one = plans(world)[0]
    assert after_one.grade == "B"
    assert after_one.samples_per_s.middle < before.samples_per_s.middle
    for _ in range(5):
        run(world, before, slower=1.3)
    judge(world)
    after = plans(world)[0]
    assert after.grade == "A"
    ratio = before.samples_per_s.middle / after.samples_per_s.middle
    assert ratio == pytest.approx(1.3, rel=0.08)
    said_before = before.samples_per_s.high / before.samples_per_s.low
    assert after.samples_per_s.high / after.samples_per_s.low < said_before


def test_runs_of_another_image_and_of_long_ago_do_not_count(world: ServiceWorld) -> None:
    for _ in range(6):
        run(world, plans(world)[0], slower=1.3)
    judge(world)
    assert plans(world)[0].grade == "A"
    kept = world.store.plans.runs()
    other = [replace(one, actual=replace(one.actual, environment="another-image")) for one in kept]
    world.store.plans.judge(world.loop.epoch, other)
    assert plans(world)[0].grade == "C"
    world.store.plans.judge(world.loop.epoch, kept)
    world.pass_time(42 * 24 * 60 * MINUTE)
    # Half of a half of a half of six runs.
    assert plans(world)[0].grade == "B"


def test_simulated_gpus_teach_nothing_of_the_cards_whose_names_they_bear(
    world: ServiceWorld,
) -> None:
    for number in range(1, 7):
        plan = replace(a_run(1).plan, simulated=True)
        world.store.plans.judge(world.loop.epoch, [a_run(number, plan=plan)])
    assert plans(world)[0].grade == "C"
    found = past.calibration(world.service, world.principal("ann"), days=400)
    assert [row.runs for row in found.grades] == [0, 0, 0]


def test_a_run_that_says_something_absurd_teaches_nothing(world: ServiceWorld) -> None:
    run(world, plans(world)[0], slower=9.0)
    judge(world)
    assert plans(world)[0].grade == "C"


def test_everybody_sees_how_often_ranges_were_right_and_no_names(world: ServiceWorld) -> None:
    now_ms = world.now_ms
    world.store.add_estimates(
        world.loop.epoch,
        [
            replace(
                a_window(number, took_min=15 if number % 5 else 40),
                made_ms=Millis(now_ms - 86_400_000 + number * MINUTE),
                started_ms=Millis(
                    now_ms - 86_400_000 + (number + (15 if number % 5 else 40)) * MINUTE
                ),
            )
            for number in range(40)
        ],
    )
    runs = [
        replace(a_run(number, step_s=4.0 if number % 4 else 9.0), ended_ms=now_ms)
        for number in range(1, 41)
    ]
    world.store.plans.judge(world.loop.epoch, runs)
    found = past.calibration(world.service, world.principal("stranger"), days=90)

    waits = next(row for row in found.clocks if row.what == "Job starts")
    assert (waits.share.right, waits.share.of, waits.later, waits.earlier) == (32, 40, 8, 0)
    assert waits.share.percent == 80
    assert waits.share.low_percent is not None
    assert 60 < waits.share.low_percent < 80
    grade = next(row for row in found.grades if row.grade == "C")
    assert (grade.speed.right, grade.speed.of) == (30, 40)
    assert len(found.waits) == 20
    assert "0190" not in found.model_dump_json()
    assert "vision" not in found.model_dump_json()


def test_ranges_that_are_not_counted_yet_are_named_with_how_many_of_them_started(
    world: ServiceWorld,
) -> None:
    now_ms = world.now_ms
    said = replace(a_window(1, took_min=15), made_ms=Millis(now_ms - 2 * MINUTE))
    world.store.add_estimates(
        world.loop.epoch,
        [
            replace(said, started_ms=Millis(now_ms - MINUTE)),
            replace(said, workload_id=WorkloadId("w2"), started_ms=None),
            replace(said, workload_id=WorkloadId("w3"), started_ms=None, left=True),
        ],
    )
    found = past.calibration(world.service, world.principal("ann"), days=7)
    assert next(row for row in found.clocks if row.what == "Job starts").share.of == 0
    assert found.notes == [
        "2 ranges whose end has not passed yet, of which 1 started: counted then, as counting"
        " early starts first would flatter.",
        "1 range left out whose wait ended without a start (cancelled, paused): nothing to compare.",
    ]


def test_a_range_that_began_before_it_was_said_judges_no_clock(world: ServiceWorld) -> None:
    now_ms = world.now_ms
    said = replace(a_window(1, took_min=15), made_ms=Millis(now_ms - 600 * MINUTE))
    back = replace(said, started_ms=Millis(said.made_ms - 60 * MINUTE))
    world.store.add_estimates(world.loop.epoch, [back])
    found = past.calibration(world.service, world.principal("ann"), days=7)
    assert next(row for row in found.clocks if row.what == "Job starts").share.of == 0
    assert found.waits == []
    assert found.notes == ["1 range left out that began before it was said: a clock was set back."]


def test_few_cases_get_no_share(world: ServiceWorld) -> None:
    world.store.plans.judge(world.loop.epoch, [replace(a_run(1), ended_ms=world.now_ms)])
    found = past.calibration(world.service, world.principal("ann"), days=7)
    assert found.grades[2].speed.text == "1 of 1: too few to say"
    assert found.grades[2].speed.percent is None
    assert found.clocks[0].share.text == "none yet"


def test_a_job_that_cannot_be_judged_keeps_no_other_from_it(
    world: ServiceWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = plans(world)[0]
    strange, other = run(world, plan), run(world, plan)

    def fails(service: Service, workload: Workload) -> JudgedRun:
        if workload.workload_id == strange:
            raise ZeroDivisionError
        return past.judge(service, workload)

    monkeypatch.setattr(plan_outcomes, "judge", fails)
    judge(world)
    assert [one.workload_id for one in world.store.plans.runs()] == [other]


def test_a_run_that_held_its_gpus_for_less_than_minutes_teaches_nothing(
    world: ServiceWorld,
) -> None:
    found = workload_of(world.service, WorkloadId(run(world, plans(world)[0])))
    whole = past.judge(world.service, found)
    assert whole.followed
    held = 4 * MINUTE * whole.plan.gpus * 1000
    short = replace(
        whole,
        workload_id=WorkloadId("short"),
        actual=replace(whole.actual, held_milli_gpu_ms=held),
    )
    world.store.plans.judge(world.loop.epoch, [short])
    assert plans(world)[0].grade == "C"
    world.store.plans.judge(world.loop.epoch, [whole])
    assert plans(world)[0].grade == "B"


@pytest.mark.parametrize(
    ("state", "ended_text", "full"),
    [
        # As older releases and later ones store it, whatever is advised.
        (State.FAILED, "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB", True),
        (State.FAILED, "Worker 1 failed: OOM when allocating tensor. Use less", True),
        (State.FAILED, "ValueError: The GPU's memory was full of hope (train.py:3)", False),
        (State.FAILED, "MemoryError (train.py:3)", False),
        (State.SUCCEEDED, "It finished: CUDA out of memory was caught", False),
        (State.FAILED, None, False),
    ],
)
def test_whether_the_gpus_memory_was_full_is_known_by_the_error(
    world: ServiceWorld, state: State, ended_text: str | None, full: bool
) -> None:
    found = workload_of(world.service, WorkloadId(run(world, plans(world)[0])))
    ended = replace(found, state=state, ended_text=ended_text)
    assert past.judge(world.service, ended).actual.ran_out is full


def test_a_job_that_runs_is_beside_its_plan_and_is_not_judged(world: ServiceWorld) -> None:
    plan = plans(world)[0]
    job_id = jobs.submit(
        world.service,
        world.principal("ann"),
        a_request(role={"milli_gpu": plan.milli_gpu}, plan=plan.id),
        key=None,
    ).id
    found = past.job_plan(world.service, world.principal("ann"), job_id)
    assert not found.is_over
    assert world.store.plans.runs() == ()
