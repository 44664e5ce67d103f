"""How an attempt ended, and what its stop has shown, is said in every language for each cause and each way."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpucommons.scheduler.core.going_on import drill_verdict, words
from gpucommons.scheduler.core.going_on.ways import Way, WayToGoOn
from gpucommons.scheduler.core.model import eviction_cause
from gpucommons.scheduler.core.model.eviction_cause import StopCause
from gpucommons.scheduler.core.model.going_on import Drill, ProcessImage
from gpucommons.scheduler.core.model.types import Millis, TeamName
from gpucommons.scheduler.languages.sentences import phrase, translated
from gpucommons.scheduler.languages.texts import spoken

NLP = TeamName("nlp")
#: As an attempt's end begins, by the cause of its stop.
BEGINS: dict[StopCause, list[str]] = {
    StopCause.RECLAIM: [
        f"Stopped {cause(NLP).text}"
        for cause in (
            eviction_cause.of_notebooks,
            eviction_cause.of_guarantee,
            eviction_cause.of_share,
        )
    ],
    StopCause.PREEMPT: [f"Stopped {eviction_cause.of_priority('big').text}"],
    StopCause.SHRINK_FOR_OTHERS: [
        f"Stopped to go on with {workers} {eviction_cause.of_room('big').text}"
        for workers in ("1 worker", "2 workers")
    ],
    StopCause.MOVE: [
        f"Stopped {eviction_cause.of_move(whom).text}" for whom in ("big", "a job of nlp")
    ],
    StopCause.OWN_SIZE: ["Stopped to go on with 4 workers"],
    StopCause.DRILL: ["Stopped to see that it can be stopped and goes on"],
    StopCause.CONFINE: ["Stopped because its test failed, and goes on inside the guarantee of nlp"],
    StopCause.SPOT: ["Stopped because the cloud takes node-3 back in 120 s"],
    StopCause.TIMEOUT: ["Not all workers ran within 5 min"],
    StopCause.MAX_RUN: [
        "It ran longer than its limit of 2 h",
        "It ran longer than its limit of 2 h, 3 attempts together",
    ],
    StopCause.LOST: ["A node of its gang, node-3, was lost"],
    StopCause.PAUSE: ["Paused by ann"],
    StopCause.CANCEL: ["Cancelled by ann"],
}
ENDS_THE_TEXT = {StopCause.TIMEOUT, StopCause.MAX_RUN, StopCause.LOST, StopCause.CANCEL}
IMAGE = ProcessImage(size_bytes=1_500_000_000, save_ms=3000, user="ann", sha256="0")
AGO = Millis(0)
BECAUSE = "it has saved no checkpoint and changed no file in its working folder"
OVER = WayToGoOn(way=Way.START_OVER, because=BECAUSE, since_ms=AGO)
WAYS: dict[Way, list[WayToGoOn]] = {
    Way.CHECKPOINT: [WayToGoOn(way=Way.CHECKPOINT, step=5430, since_ms=AGO)],
    Way.PROCESS_IMAGE: [
        WayToGoOn(way=Way.PROCESS_IMAGE, since_ms=AGO, **more)  # type: ignore[arg-type]
        for more in (
            {},
            {"image": IMAGE},
            {"otherwise": OVER},
            {"otherwise": OVER, "most_mib": 4096},
        )
    ],
    Way.WORKING_FOLDER: [WayToGoOn(way=Way.WORKING_FOLDER, since_ms=AGO)],
    Way.START_OVER: [OVER, WayToGoOn(way=Way.START_OVER, may_find_files=True, since_ms=AGO)],
}
DRILLS = [
    Drill(
        attempt=1,
        way=Way.CHECKPOINT.value,
        begun_ms=AGO,
        stopped_ms=Millis(1),
        step=200,
        unit="step",
        on_purpose=False,
        **more,
    )  # type: ignore[arg-type]
    for more in (
        {},
        {"took_ms": 5000, "went_on_step": 200},
        {"took_ms": 5000},
        {"untold": True},
        {"failed": "it still ran when its grace was over, and had to be killed"},
        {"failed": "it had step 200 and began again at step 3"},
    )
]


def unknown(said: list[str]) -> list[str]:
    with spoken("de"):
        return [text for text in said if (translated(text) or phrase(text)) == text]


@pytest.mark.parametrize("cause", StopCause)
def test_for_whom_an_attempt_was_stopped(cause: StopCause) -> None:
    assert unknown(BEGINS[cause]) == []
    if cause not in ENDS_THE_TEXT:
        ends = (", left with exit status 0", ", had to be killed")
        tails = ["", *ends, "".join(ends)]
        said = [
            f"{one}{tail}{how}"
            for one in BEGINS[cause]
            for tail in tails
            for how in ("", ": starts over")
        ]
        assert unknown(said) == []


@pytest.mark.parametrize("way", Way)
@pytest.mark.parametrize("now_ms", [0, 40_000])
def test_how_it_goes_on_and_what_the_stop_cost(way: Way, now_ms: int) -> None:
    told = [
        says
        for one in WAYS[way]
        for says in (words.goes_on(replace(one, since_ms=None)), words.with_cost(one, now_ms))
    ]
    assert unknown([*told, *(f"Stopped for nlp (its guarantee): {one}" for one in told)]) == []


def test_what_a_stop_costs_that_is_saved_up_to_a_size() -> None:
    assert unknown([words.before_start(("",), files_are_kept=True, most_mib=4096)]) == []


@pytest.mark.parametrize("on_purpose", [True, False])
@pytest.mark.parametrize("runs", [True, False])
def test_what_a_stop_has_shown(on_purpose: bool, runs: bool) -> None:
    said = [drill_verdict.told(replace(one, on_purpose=on_purpose), runs=runs) for one in DRILLS]
    said.append(drill_verdict.told(replace(DRILLS[0], step=None, on_purpose=on_purpose), runs=runs))
    assert unknown(said) == []
