"""Any history of a pipeline, with crashes between submit and record, runs each try of a step once."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpucommons.scheduler.core.model.types import Millis, State, TeamName, UserName, WorkloadId
from gpucommons.scheduler.errors import Misconfigured
from gpucommons.scheduler.pipelines.graph import below, in_order
from gpucommons.scheduler.pipelines.next_steps import Child, decide, try_of
from gpucommons.scheduler.pipelines.pipeline import (
    OVER,
    Needs,
    Piped,
    Pipeline,
    PipelineId,
    Step,
    StepName,
    StepState,
)

Key = tuple[StepName, int]


def a_pipeline(*steps: Step) -> Pipeline:
    return Pipeline(
        pipeline_id=PipelineId("p-1"),
        name="nightly-1",
        owner=UserName("ada"),
        team=TeamName("vision"),
        submitted_ms=Millis(0),
        steps=in_order(steps),
    )


@st.composite
def pipelines(draw: st.DrawFn) -> Pipeline:
    names = [StepName(f"s{number}") for number in range(draw(st.integers(1, 6)))]
    steps = []
    for number, name in enumerate(names):
        before = draw(st.lists(st.sampled_from(names[:number]), unique=True)) if number else []
        after = {one: draw(st.sampled_from(Needs)) for one in before}
        steps.append(Step(name=name, request="", after=after))
    return a_pipeline(*draw(st.permutations(steps)))


class History:
    """Jobs as the store has them, whatever was recorded of them."""

    def __init__(self, pipeline: Pipeline) -> None:
        self.piped = Piped(pipeline=pipeline)
        self.jobs: dict[Key, State] = {}
        self.submitted: list[Key] = []

    def key(self, step: StepName) -> Key:
        return step, try_of(self.piped.pipeline, step)

    def children(self) -> dict[StepName, Child]:
        found = {}
        for step in self.piped.pipeline.steps:
            number, state = self.key(step.name)[1], self.jobs.get(self.key(step.name))
            if state is not None:
                job = WorkloadId(f"{step.name}-{number}")
                found[step.name] = Child(job=job, name=job, state=state)
        return found

    def move(self, what: str, number: int) -> None:
        match what:
            case "look" | "dies":
                self.look(dies=what == "dies")
            case "succeeds" | "fails":
                self.end_one(number, State.SUCCEEDED if what == "succeeds" else State.FAILED)
            case "retry":
                self.retry(number)
            case "cancel":
                self.cancel(number)

    def look(self, *, dies: bool) -> None:
        decision = decide(self.piped, self.children(), Millis(1))
        for job in decision.cancels:
            name, _, number = job.rpartition("-")
            self.jobs[StepName(name), int(number)] = State.CANCELLED
        for name in decision.submits:
            # The same key twice is the same job.
            if self.key(name) not in self.jobs:
                self.submitted.append(self.key(name))
                self.jobs[self.key(name)] = State.QUEUED
        if not dies:
            self.piped = replace(self.piped, standing=decision.standing)

    def end_one(self, number: int, state: State) -> None:
        live = sorted(key for key, found in self.jobs.items() if found is State.QUEUED)
        if live:
            self.jobs[live[number % len(live)]] = state

    def retry(self, number: int) -> None:
        pipeline = self.piped.pipeline
        step = pipeline.steps[number % len(pipeline.steps)]
        stands = self.piped.standing.steps.get(step.name)
        if stands is None or stands.state not in (StepState.FAILED, StepState.CANCELLED):
            return
        anew = below(pipeline.steps, step.name)
        for name in anew:
            if self.jobs.get(self.key(name)) is State.QUEUED:
                self.jobs[self.key(name)] = State.CANCELLED
        retried = {**pipeline.retried, **{name: try_of(pipeline, name) + 1 for name in anew}}
        changed = replace(pipeline, retried=retried, cancelled=pipeline.cancelled - anew)
        self.piped = replace(self.piped, pipeline=changed)

    def cancel(self, number: int) -> None:
        pipeline = self.piped.pipeline
        step = pipeline.steps[number % len(pipeline.steps)]
        changed = replace(pipeline, cancelled=pipeline.cancelled | below(pipeline.steps, step.name))
        self.piped = replace(self.piped, pipeline=changed)


@settings(max_examples=150, deadline=None)
@given(
    pipeline=pipelines(),
    moves=st.lists(
        st.tuples(
            st.sampled_from(["look", "dies", "succeeds", "fails", "retry", "cancel"]),
            st.integers(0, 5),
        ),
        max_size=30,
    ),
)
def test_each_try_runs_once_after_what_it_needs_and_all_of_it_ends(
    pipeline: Pipeline, moves: list[tuple[str, int]]
) -> None:
    history = History(pipeline)
    for move, number in moves:
        history.move(move, number)
    for _ in range(2 * len(pipeline.steps) + 2):
        history.look(dies=False)
        for number in range(len(pipeline.steps)):
            history.end_one(number, State.SUCCEEDED)
    assert len(history.submitted) == len(set(history.submitted))
    stands = history.piped.standing
    assert all(each.state in OVER for each in stands.steps.values())
    assert stands.ended_ms is not None
    for step in history.piped.pipeline.steps:
        for name, needs in step.after.items():
            if stands.steps[step.name].state is StepState.SUCCEEDED and needs is Needs.OK:
                assert stands.steps[name].state is StepState.SUCCEEDED


def test_a_cycle_is_refused_by_its_names() -> None:
    steps = (
        Step(name=StepName("a"), request="", after={StepName("c"): Needs.OK}),
        Step(name=StepName("b"), request="", after={StepName("a"): Needs.OK}),
        Step(name=StepName("c"), request="", after={StepName("b"): Needs.ANY}),
        Step(name=StepName("d"), request=""),
    )
    with pytest.raises(
        Misconfigured, match=r"wait for each other: [abc] → [abc] → [abc] → [abc]\."
    ):
        in_order(steps)


def test_below_a_step_is_what_needs_it_directly_or_not() -> None:
    steps = in_order(
        (
            Step(name=StepName("d"), request="", after={StepName("b"): Needs.ANY}),
            Step(name=StepName("b"), request="", after={StepName("a"): Needs.OK}),
            Step(name=StepName("a"), request=""),
            Step(name=StepName("c"), request="", after={StepName("a"): Needs.OK}),
        )
    )
    assert below(steps, StepName("b")) == {"b", "d"}
    assert below(steps, StepName("a")) == {"a", "b", "c", "d"}


@pytest.mark.parametrize(("state", "cancels"), [(State.RUNNING, ("job",)), (State.CANCELLING, ())])
def test_a_job_is_asked_once_to_end(state: State, cancels: tuple[str, ...]) -> None:
    name = StepName("a")
    pipeline = replace(a_pipeline(Step(name=name, request="")), cancelled=frozenset({name}))
    child = Child(job=WorkloadId("job"), name="nightly-a-1", state=state)
    decision = decide(Piped(pipeline=pipeline), {name: child}, Millis(0))
    assert decision.cancels == cancels
    assert decision.standing.steps[name].state is StepState.SUBMITTED
