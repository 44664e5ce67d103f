"""How an attempt ended: what its pod left word of, and who removed its pods."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from cluster_objects import JOB, a_job_seen, an_attempt, an_ended_pod

from gpucommons.scheduler.core.model.going_on import ProcessImage
from gpucommons.scheduler.executors.kubernetes.attempts import endings
from gpucommons.scheduler.executors.kubernetes.attempts.observed_state import Remains, Seen
from gpucommons.scheduler.executors.kubernetes.attempts.records import Record
from gpucommons.scheduler.executors.kubernetes.objects.observed_objects import PodSeen, Why
from gpucommons.scheduler.in_pod.tree import IMAGE, VARIABLE


def answers(_remains: Remains) -> bool:
    return True


def single(pod: PodSeen, **changes: Any) -> Seen:
    return Seen(attempt=an_attempt(), jobs={JOB: a_job_seen()}, pods={0: pod}, **changes)


def a_record() -> Record:
    return Record(attempt=an_attempt(), now_ms=lambda: 0)


# --- what was saved ----------------------------------------------------------------------------


def left_word(**told: Any) -> Why:
    return Why(reason="Error", message=IMAGE + json.dumps({"image": {}, "not_saved": "", **told}))


FACTS = {"size_bytes": 5 << 20, "save_ms": 300, "sha256": "0" * 64}


def a_pod_with_a_tree(exit_code: int, end: Why, **changes: Any) -> PodSeen:
    return an_ended_pod(exit_code=exit_code, end=end, variables=(VARIABLE,), **changes)


@pytest.mark.parametrize("stopped", [True, False], ids=["stopped by us", "drained"])
@pytest.mark.parametrize("code", [143, 137], ids=["in time", "killed while its files were counted"])
def test_what_was_saved_is_an_image_whoever_ended_its_pod(*, stopped: bool, code: int) -> None:
    ended_ms = None if stopped else 1
    pod = a_pod_with_a_tree(code, left_word(image=FACTS), owner="ann", killed_at_ms=ended_ms)
    end = endings.end_of(single(pod, stopped=stopped, ran=True))
    assert end.image == ProcessImage(user="ann", **FACTS)  # type: ignore[arg-type]
    assert (end.exit_code, end.told) == (None, True)


@pytest.mark.parametrize(
    ("pod", "stopped"),
    [
        (a_pod_with_a_tree(143, left_word(image=FACTS)), False),
        (a_pod_with_a_tree(1, left_word(image=FACTS)), True),
        (a_pod_with_a_tree(0, left_word(image=FACTS)), True),
        (an_ended_pod(exit_code=143, end=left_word(image=FACTS)), True),
    ],
    ids=["not told to end", "failed", "finished", "has no tree"],
)
def test_an_image_is_no_word_that_a_program_may_leave(pod: PodSeen, stopped: bool) -> None:
    end = endings.end_of(single(pod, stopped=stopped, ran=True))
    assert (end.image, end.exit_code) == (None, pod.exit_code)


def test_why_nothing_was_saved_is_told_and_nonsense_is_not_believed() -> None:
    refused = a_pod_with_a_tree(1, left_word(not_saved="It holds a device."))
    end = endings.end_of(single(refused, stopped=True, ran=True))
    assert (end.image, end.not_saved, end.exit_code) == (None, "it holds a device", 1)
    for message in (
        *(IMAGE, IMAGE + "[]", IMAGE + "[" * 100_000),
        *(IMAGE + '{"image": 7, "not_saved": ""}', "image: {}"),
    ):
        end = endings.end_of(
            single(a_pod_with_a_tree(143, Why(message=message)), stopped=True, ran=True)
        )
        assert (end.image, end.not_saved) == (None, "")


# --- who removed its pods ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("job", "text"),
    [
        (a_job_seen(suspended=True), f"Somebody suspended its Job {JOB}: stop jobs here"),
        (None, f"Somebody deleted its Job {JOB}"),
        (a_job_seen(), "Somebody removed gc-"),
    ],
)
def test_who_removed_its_pods_is_said_after_its_jobs_were_read_once_more(
    job: Any, text: str
) -> None:
    record = a_record()
    pod = an_ended_pod(exit_code=143, killed_at_ms=1)
    record.look(single(pod, ran=True), answers, busy=False)
    assert (record.to_ask, record.ended) == (True, None)
    record.asked = True
    seen = single(pod, ran=True)
    record.look(replace(seen, jobs={} if job is None else {JOB: job}), answers, busy=False)
    assert record.ended is not None
    assert record.ended.text.startswith(text)


def test_of_an_end_that_explains_itself_nothing_is_read_again() -> None:
    record = a_record()
    record.look(single(an_ended_pod(exit_code=3), ran=True), answers, busy=False)
    assert record.ended is not None
