"""From Jobs and pods to starts and ends, in words for people."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import count
from typing import Any

import pytest
from cluster_objects import (
    ATTEMPT_ID,
    JOB,
    a_job_seen,
    a_pod_seen,
    a_running_pod,
    an_attempt,
    an_ended_pod,
)

from gpucommons.scheduler.core.model.state import AttemptStarted
from gpucommons.scheduler.core.model.types import Millis
from gpucommons.scheduler.executors.kubernetes.attempts import endings, observed_state
from gpucommons.scheduler.executors.kubernetes.attempts.observed_state import (
    Expected,
    Failing,
    Remains,
    Seen,
)
from gpucommons.scheduler.executors.kubernetes.attempts.records import PODS_BOUND, PODS_MADE, Record
from gpucommons.scheduler.executors.kubernetes.objects.attempt_cache import Trace
from gpucommons.scheduler.executors.kubernetes.objects.observed_objects import (
    PodSeen,
    Why,
    seconds_of,
)
from gpucommons.scheduler.in_pod.worker import NOT_BEGUN, NOT_FOUND

GANG = an_attempt("worker", "worker")


def answers(_remains: Remains) -> bool:
    return True


def silent(remains: Remains) -> bool:
    return remains.ended


def gang(*pods: PodSeen, **changes: Any) -> Seen:
    job = changes.pop("job", a_job_seen(parallelism=2, completions=2))
    return Seen(attempt=GANG, jobs={JOB: job}, pods={pod.index: pod for pod in pods}, **changes)


def single(pod: PodSeen, **changes: Any) -> Seen:
    job = changes.pop("job", a_job_seen())
    return Seen(attempt=an_attempt(), jobs={JOB: job}, pods={0: pod}, **changes)


# --- starting ----------------------------------------------------------------------------------


def a_record(now_ms: Callable[[], int] = lambda: 0, **known: Any) -> Record:
    return Record(attempt=an_attempt(), now_ms=now_ms, **known)


def test_a_gang_is_let_go_when_the_last_pod_exists_and_not_before() -> None:
    first, second = a_pod_seen(0), a_pod_seen(1)
    assert list(observed_state.to_lift(gang(first), set())) == []
    assert list(observed_state.to_lift(gang(first, second), set())) == [(0, first), (1, second)]
    assert list(observed_state.to_lift(gang(first, second), {"uid-0"})) == [(1, second)]


@pytest.mark.parametrize(
    "second", [an_ended_pod(1, 1), a_pod_seen(1, killed_at_ms=1)], ids=["ended", "being deleted"]
)
def test_a_gang_that_lost_a_pod_is_not_let_go(second: PodSeen) -> None:
    assert list(observed_state.to_lift(gang(a_pod_seen(0), second), set())) == []


def test_it_has_started_when_every_worker_has() -> None:
    assert not observed_state.has_started(gang(a_running_pod(0), a_pod_seen(1)))
    assert observed_state.has_started(gang(a_running_pod(0), an_ended_pod(1)))


def test_one_that_runs_before_it_was_let_go_has_not_started_and_is_given_up() -> None:
    """A webhook took its gate away, and the cluster was faster than we looked."""
    expected = Expected(gpus={"worker": 1}, last={"worker": None})
    record = a_record(expected=expected)
    record.look(single(a_running_pod(placed=False)), answers, busy=False)
    assert not record.started
    assert record.failing is not None
    assert "it does not wait for its place" in record.failing.text


def test_a_start_tells_how_far_it_had_come_and_when() -> None:
    record = a_record(count(1_000, 1_000).__next__)
    for pod in (a_pod_seen(0), a_pod_seen(0, node="n1"), a_pod_seen(0, node="n1")):
        record.look(single(pod), answers, busy=False)
    record.look(single(a_running_pod(0)), answers, busy=False)
    (started,) = record.told
    assert isinstance(started, AttemptStarted)
    assert started.steps == ((PODS_MADE, 1_000), (PODS_BOUND, 2_000))


def test_a_start_of_which_another_scheduler_saw_a_part_tells_no_steps() -> None:
    record = a_record()
    record.take_over(Trace(pods={("job", 0): a_pod_seen(0)}))
    record.look(single(a_running_pod(0)), answers, busy=False)
    assert record.told == (AttemptStarted(attempt_id=record.attempt.attempt_id),)


# --- ending ------------------------------------------------------------------------------------


def test_it_is_over_when_every_pod_is_dead() -> None:
    assert not observed_state.is_over(gang(an_ended_pod(0), a_running_pod(1)), answers)
    assert observed_state.is_over(gang(an_ended_pod(0), an_ended_pod(1)), answers)


def test_a_pod_that_vanished_with_its_node_counts_as_live() -> None:
    seen = gang(an_ended_pod(0), a_running_pod(1), gone=frozenset({"uid-1"}))
    assert not observed_state.is_over(seen, silent)
    assert observed_state.is_over(seen, answers)


def test_a_pod_that_the_cluster_calls_failed_because_its_node_is_lost_counts_as_live() -> None:
    collected = a_running_pod(phase="Failed", disrupted=Why(reason="DeletionByPodGC"))
    for gone in (frozenset[str](), frozenset({"uid-0"})):
        seen = single(collected, gone=gone)
        assert not observed_state.is_over(seen, silent)
        assert observed_state.is_over(seen, answers)


def test_a_pod_that_never_had_a_node_is_dead_when_it_is_gone() -> None:
    seen = single(a_pod_seen(), gone=frozenset({"uid-0"}))
    assert observed_state.is_over(seen, silent)


RAN = replace(an_attempt(), started_ms=Millis(1))


@pytest.mark.parametrize(
    "left",
    [
        Seen(attempt=RAN, ran=True, absent=frozenset({JOB})),
        Seen(attempt=RAN, ran=True, jobs={JOB: a_job_seen(suspended=True)}),
        Seen(attempt=RAN, ran=True, jobs={JOB: a_job_seen(suspended=True)}, pods={0: a_pod_seen()}),
    ],
    ids=["nothing", "its job", "another pod in its place"],
)
def test_one_that_ran_is_live_though_the_api_knows_nothing_of_it(left: Seen) -> None:
    asked: list[Remains] = []

    def never(remains: Remains) -> bool:
        asked.append(remains)
        return False

    assert not observed_state.is_over(left, never)
    assert [(one.node, one.ended) for one in asked] == [("n0", False)]
    assert observed_state.is_over(left, answers)


@pytest.mark.parametrize("pods", [{}, {0: a_running_pod()}], ids=["after a restart", "unseen end"])
def test_what_its_job_saw_succeed_is_over_and_what_it_calls_failed_may_be_on_a_lost_node(
    pods: dict[int, PodSeen],
) -> None:
    job = a_job_seen(finished="Complete", completed_indexes="0")
    left = Seen(attempt=RAN, ran=True, jobs={JOB: job}, pods=pods, gone=frozenset({"uid-0"}))
    assert observed_state.is_over(left, silent)
    failed = replace(left, jobs={JOB: a_job_seen(finished="Failed")})
    assert not observed_state.is_over(failed, silent)


def test_while_its_job_may_make_a_missing_pod_it_is_not_over() -> None:
    assert not observed_state.is_over(gang(an_ended_pod(0, 1)), answers)
    suspended = a_job_seen(parallelism=2, completions=2, suspended=True)
    assert observed_state.is_over(gang(an_ended_pod(0, 1), job=suspended), answers)


def test_a_job_that_was_never_there_is_over_when_that_is_certain() -> None:
    nothing = Seen(attempt=GANG, stopped=True)
    assert not observed_state.is_over(nothing, answers)
    assert observed_state.is_over(
        Seen(attempt=GANG, stopped=True, absent=frozenset({JOB})), answers
    )


def test_success_is_every_worker_with_status_zero() -> None:
    end = endings.end_of(gang(an_ended_pod(0), an_ended_pod(1)))
    assert (end.attempt_id, end.exit_code, end.start_failed) == (ATTEMPT_ID, 0, False)


def test_the_worker_that_failed_first_gives_the_status() -> None:
    """The cluster ends the others of a gang when one fails."""
    job = a_job_seen(parallelism=2, completions=2, failure=Why(reason="BackoffLimitExceeded"))
    seen = gang(
        an_ended_pod(0, 143, killed_at_ms=1, finished_at="2026-11-21T10:00:30Z"),
        an_ended_pod(1, 3),
        job=job,
    )
    end = endings.end_of(seen)
    assert (end.exit_code, end.text) == (3, "Worker 1 failed: it ended with exit status 3")


def with_a_proxy(index: int, exit_code: int, **changes: Any) -> PodSeen:
    """Its command ended; a container that a webhook added runs on."""
    return an_ended_pod(index, exit_code, phase="Running", **changes)


def test_what_outlives_the_work_in_its_pods_is_noticed() -> None:
    assert observed_state.is_lingering(gang(with_a_proxy(0, 0), with_a_proxy(1, 0)))
    assert observed_state.is_lingering(gang(a_running_pod(0), with_a_proxy(1, 3)))
    # A worker that is done may wait for the others.
    assert not observed_state.is_lingering(gang(a_running_pod(0), with_a_proxy(1, 0)))
    assert not observed_state.is_lingering(gang(an_ended_pod(0), an_ended_pod(1)))
    assert not observed_state.is_lingering(
        gang(an_ended_pod(0), with_a_proxy(1, 0), gone=frozenset({"uid-1"}))
    )


def test_it_ends_as_its_command_ended_before_the_rest_was_ended() -> None:
    suspended = a_job_seen(suspended=True)
    later = int(seconds_of("2026-11-21T10:00:30Z") * 1000)
    for code, text in ((0, ""), (3, "It ended with exit status 3")):
        pod = an_ended_pod(0, code, killed_at_ms=later + 30_000, deleted_at_ms=later)
        end = endings.end_of(single(pod, job=suspended, gone=frozenset({"uid-0"})))
        assert (end.exit_code, end.text) == (code, text)


def test_what_outlives_the_work_is_given_some_time() -> None:
    record = a_record()
    seen = single(with_a_proxy(0, 0))
    for now_ms, finished in ((0, False), (29_000, False), (30_000, True)):
        record.look(seen, answers, busy=False)
        record.lose_patience(now_ms, patience_ms=60_000, linger_ms=30_000)
        assert record.to_suspend is finished


def test_a_worker_killed_after_its_grace_makes_the_stop_unclean() -> None:
    end = endings.end_of(gang(an_ended_pod(0, 143), an_ended_pod(1, 137), stopped=True))
    assert (end.exit_code, end.killed) == (-9, True)


def test_a_worker_that_finished_in_its_grace_is_a_success_though_its_pod_is_gone() -> None:
    job = a_job_seen(parallelism=2, completions=2, suspended=True, completed_indexes="0-1")
    gone = frozenset({"uid-0", "uid-1"})
    assert (
        endings.end_of(
            gang(a_running_pod(0), a_running_pod(1), job=job, gone=gone, stopped=True)
        ).exit_code
        == 0
    )


def test_stopped_before_it_ran_says_so() -> None:
    end = endings.end_of(Seen(attempt=GANG, stopped=True, absent=frozenset({JOB})))
    assert (end.exit_code, end.text) == (None, "It was stopped before it ran")


def test_memory_that_ran_out_is_said_and_is_the_jobs_own_fault() -> None:
    end = endings.end_of(single(an_ended_pod(0, 137, end=Why(reason="OOMKilled"))))
    assert (end.exit_code, end.killed) == (-9, False)
    assert (
        end.text == "The memory was used up. Ask for more memory per worker, or load less at once"
    )


@pytest.mark.parametrize("reason", ["StartError", "ContainerCannotRun"])
def test_a_command_that_does_not_exist_is_a_failed_start(reason: str) -> None:
    message = (
        'failed to create containerd task: exec: "/nowhere/x": stat /nowhere/x: no such file or'
        " directory: unknown"
    )
    end = endings.end_of(single(an_ended_pod(0, 128, end=Why(reason=reason, message=message))))
    assert end.start_failed
    assert end.text == "There is no command '/nowhere/x' in this environment"


def test_a_command_that_could_not_be_begun_is_a_failed_start_and_127_of_its_own_is_not() -> None:
    said = Why(reason="Error", message=f"{NOT_BEGUN}there is no '/nowhere/x' in this environment")
    end = endings.end_of(single(an_ended_pod(0, NOT_FOUND, end=said)))
    assert (end.exit_code, end.start_failed) == (None, True)
    assert end.text == "There is no '/nowhere/x' in this environment"
    shell = Why(reason="Error", message="sh: 1: x: not found")
    end = endings.end_of(single(an_ended_pod(0, NOT_FOUND, end=shell)))
    assert (end.exit_code, end.start_failed) == (NOT_FOUND, False)


@pytest.mark.parametrize("name", ["x; visit evil.example", "a\rb", "\x1b[31mx", "x\u202egnp"])
def test_a_program_that_imitates_such_a_message_has_no_sentence_of_its_own_told(name: str) -> None:
    said = Why(reason="Error", message=f"{NOT_BEGUN}there is no '{name}' in this environment")
    end = endings.end_of(single(an_ended_pod(0, NOT_FOUND, end=said)))
    assert (end.exit_code, end.start_failed) == (NOT_FOUND, False)
    assert not end.text.startswith("There is no")


def test_an_image_without_python_is_said_to_be_one() -> None:
    message = 'exec: "python3": executable file not found in $PATH: unknown'
    said = Why(reason="StartError", message=message)
    end = endings.end_of(single(an_ended_pod(0, 128, end=said)))
    assert end.start_failed
    assert end.text.startswith("Its image has no python3, ")
    assert end.text.endswith("Choose an image with Python 3.8 or newer")


@pytest.mark.parametrize(
    ("pod", "text"),
    [
        (
            an_ended_pod(0, 137, disrupted=Why(reason="PreemptionByScheduler")),
            "gave the place of {name} to other work of higher priority",
        ),
        (
            an_ended_pod(0, 143, disrupted=Why(reason="EvictionByEvictionAPI")),
            "had to leave n0, which is being emptied",
        ),
        (an_ended_pod(0, 143, killed_at_ms=1), "Somebody removed {name} in the cluster"),
        (
            an_ended_pod(0, 137, end=Why(reason="Evicted", message="low on disk")),
            "The node n0 ended {name}: low on disk",
        ),
    ],
)
def test_what_the_cluster_took_away_is_not_the_jobs_fault(pod: PodSeen, text: str) -> None:
    end = endings.end_of(single(pod))
    assert (end.exit_code, end.start_failed) == (None, False)
    assert text.format(name=pod.name) in end.text


def test_a_pod_deleted_by_hand_is_no_failure_though_its_job_fails_of_it() -> None:
    """The cluster may have called the Job failed before anybody looks."""
    failed = a_job_seen(failure=Why(reason="BackoffLimitExceeded"))
    end = endings.end_of(single(an_ended_pod(0, 143, killed_at_ms=1), job=failed))
    assert (end.exit_code, end.start_failed) == (None, False)
    assert end.text.startswith("Somebody removed ")


@pytest.mark.parametrize(
    ("job", "text"),
    [
        (a_job_seen(suspended=True), f"Somebody suspended its Job {JOB}"),
        (a_job_seen(deleting=True), f"Somebody deleted its Job {JOB}"),
        (
            a_job_seen(finished="Failed", failure=Why(reason="DeadlineExceeded")),
            f"Its Job {JOB} had a deadline that is not ours",
        ),
    ],
)
def test_what_somebody_did_to_its_job_is_said(job: Any, text: str) -> None:
    gone = frozenset({"uid-0"})
    seen = Seen(attempt=an_attempt(), jobs={JOB: job}, pods={0: a_running_pod()}, gone=gone)
    assert endings.end_of(seen).text.startswith(text)


# --- giving up ---------------------------------------------------------------------------------

EXPECTED = Expected(gpus={"worker": 1}, last={"worker": None})


@pytest.mark.parametrize(
    ("pod", "text"),
    [
        (a_pod_seen(gates=()), "it does not wait for its place"),
        (a_pod_seen(gpus=4), "it asks for 4 GPUs instead of 1"),
        (a_pod_seen(waiting=Why(reason="InvalidImageName", message="a b")), "no name of an image"),
        (
            a_pod_seen(
                waiting=Why(reason="CreateContainerConfigError", message="secret x not found")
            ),
            "lacks something that it refers to: secret x not found",
        ),
    ],
)
def test_a_start_that_cannot_become_right_is_given_up(pod: PodSeen, text: str) -> None:
    why = observed_state.why_give_up(single(pod), EXPECTED)
    assert why is not None
    assert text in why.text
    assert not why.again


@pytest.mark.parametrize(
    ("said", "lacks"),
    [
        (
            'cannot load seccomp profile "/var/lib/kubelet/seccomp/gpucommons/hibernate.json": no such file',
            "the filter of system calls",
        ),
        (
            "failed to inject CDI devices: unresolvable CDI devices gpucommons.io/hibernate=proc",
            "the device",
        ),
    ],
)
def test_a_node_that_lacks_what_saves_memory_may_get_it_and_is_the_nodes_failure(
    said: str, lacks: str
) -> None:
    seen = single(a_pod_seen(waiting=Why(reason="CreateContainerError", message=said)))

    assert observed_state.why_give_up(seen, EXPECTED) is None
    why = observed_state.why_uncertain(seen)
    assert why is not None
    assert why.text.startswith(f"Its node lacks {lacks} by which its memory is saved")
    assert why.again


@pytest.mark.parametrize(
    "said",
    [
        "CDI device injection failed: unresolvable CDI devices nvidia.com/gpu=0",
        "unresolvable CDI devices gpucommons.io/hibernate=proc, nvidia.com/gpu=0",
        "unresolvable CDI devices nvidia.com/gpu=0, gpucommons.io/hibernate=proc",
        'cannot load seccomp profile "/var/lib/kubelet/seccomp/operator/audit.json": no such file',
    ],
)
def test_a_device_or_filter_that_is_not_ours_is_not_waited_for(said: str) -> None:
    seen = single(a_pod_seen(waiting=Why(reason="CreateContainerError", message=said)))

    why = observed_state.why_give_up(seen, EXPECTED)
    assert why is not None
    assert why.text == f"Its container cannot be made: {said}"
    assert not why.again
    assert observed_state.why_uncertain(seen) is None


def test_a_webhook_that_takes_away_or_repeats_the_gpu_variable_is_noticed() -> None:
    fraction = Expected(gpus={"worker": 1}, last={"worker": "NVIDIA_VISIBLE_DEVICES"})
    for variables, text in (((), "is missing"), (("NVIDIA_VISIBLE_DEVICES",) * 2, "set twice")):
        why = observed_state.why_give_up(single(a_pod_seen(variables=variables)), fraction)
        assert why is not None
        assert text in why.text


def test_what_we_let_go_ourselves_is_no_change() -> None:
    assert observed_state.why_give_up(single(a_running_pod(gpus=1)), EXPECTED) is None
    assert observed_state.why_give_up(single(a_pod_seen(gates=())), EXPECTED, {"uid-0"}) is None


def test_a_job_edited_by_hand_is_given_up_and_tried_again() -> None:
    edited = a_job_seen(parallelism=1, completions=2)
    why = observed_state.why_give_up(gang(a_pod_seen(0), a_pod_seen(1), job=edited), None)
    assert why is not None
    assert why.again
    assert f"number of workers of {JOB} in the cluster from 2 to 1" in why.text


@pytest.mark.parametrize(
    ("seen", "why"),
    [
        (
            gang(warning=Why(reason="FailedCreate", message="exceeded quota: few, requested: 2")),
            Failing(
                "The cluster's quota few refuses this (requested: 2): ask whoever runs"
                " the cluster to raise it"
            ),
        ),
        (
            gang(
                warning=Why(
                    reason="FailedCreate",
                    message='admission webhook "w.x" denied the request: no GPUs today',
                )
            ),
            Failing("The cluster's check w.x refuses this: no GPUs today"),
        ),
        (
            single(a_pod_seen(waiting=Why(reason="ImagePullBackOff", message="not found"))),
            Failing("Its image cannot be fetched: not found"),
        ),
        (
            single(a_pod_seen(unschedulable="0/3 nodes are available")),
            Failing("Its node does not take it: 0/3 nodes are available", again=True),
        ),
        (
            single(a_pod_seen(node="n0"), warning=Why(reason="FailedMount", message="no volume")),
            Failing("Its volumes cannot be mounted: no volume", again=True),
        ),
    ],
)
def test_what_may_get_better_is_given_up_only_later(seen: Seen, why: Failing) -> None:
    assert observed_state.why_give_up(seen, None) is None
    assert observed_state.why_uncertain(seen) == why


def test_given_up_for_the_clusters_sake_is_a_loss_and_for_the_jobs_a_failed_start() -> None:
    for again in (True, False):
        end = endings.end_of(gang(failing=Failing("why", again=again)))
        assert (end.exit_code, end.start_failed, end.text) == (None, not again, "why")


@pytest.mark.parametrize(
    ("pod", "job", "now_ms", "due"),
    [
        (a_running_pod(), None, 0, True),
        (a_running_pod(killed_at_ms=9_000), None, 0, False),
        (a_running_pod(), a_job_seen(suspended=True), 9_999, False),
        (a_running_pod(), a_job_seen(suspended=True), 10_000, True),
        (a_running_pod(), a_job_seen(deleting=True), 10_000, True),
        (a_running_pod(killed_at_ms=12_000), a_job_seen(suspended=True), 10_000, False),
        (a_running_pod(killed_at_ms=40_000), a_job_seen(suspended=True), 10_000, True),
        (a_running_pod(), a_job_seen(), 10_000, False),
        (an_ended_pod(), None, 10_000, False),
    ],
)
def test_a_pod_that_no_job_ends_in_time_is_ended_by_us(
    pod: PodSeen, job: Any, now_ms: int, due: bool
) -> None:
    jobs = {} if job is None else {JOB: job}
    seen = Seen(
        attempt=an_attempt(),
        stopped=True,
        jobs=jobs,
        pods={0: pod},
        absent=frozenset({JOB} - jobs.keys()),
    )
    assert list(observed_state.to_hurry(seen, 10_000, now_ms)) == ([pod] if due else [])
