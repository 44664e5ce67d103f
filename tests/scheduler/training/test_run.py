"""What a training script sees of the scheduler."""

from __future__ import annotations

import itertools
import json
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType

import httpx
import pytest

from gpucommons.scheduler.client import SchedulerClient
from gpucommons.scheduler.errors import StaleAttempt
from gpucommons.scheduler.training.loading import LEAST, Loading
from gpucommons.scheduler.training.run import STOPPED, Place, Run

Answer = Callable[[httpx.Request], httpx.Response]


def a_place(folder: Path, **environ: str) -> Place:
    return Place.from_environment({"GPUCOMMONS_ATTEMPT_DIR": str(folder), **environ})


def a_run(
    folder: Path, answer: Answer, pauses: list[float] | None = None, **environ: str
) -> tuple[Run, list[httpx.Request]]:
    seen: list[httpx.Request] = []

    def handle(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        return answer(request)

    scheduler = SchedulerClient(
        "http://scheduler", token="gca-1", transport=httpx.MockTransport(handle)
    )
    paused = [] if pauses is None else pauses
    return Run(a_place(folder, **environ), scheduler, pause=paused.append), seen


def fine(_request: httpx.Request) -> httpx.Response:
    return httpx.Response(200, json={"stop": None})


def test_a_checkpoint_hands_in_its_receipt(tmp_path: Path) -> None:
    run, seen = a_run(tmp_path, fine)

    with run.checkpoint(step=4) as folder:
        (folder / "state").write_bytes(b"12345")

    receipt = json.loads(seen[0].content)
    assert seen[0].url.path == "/v1/attempt/checkpoints"
    assert (receipt["step"], receipt["path"], receipt["size_bytes"]) == (4, "checkpoints/step-4", 5)


def test_of_several_processes_in_one_worker_the_first_of_all_saves(tmp_path: Path) -> None:
    worker = {"GPUCOMMONS_RANK": "0", "GPUCOMMONS_WORLD_SIZE": "1"}
    for rank in ("1", "0"):
        run, seen = a_run(tmp_path, fine, **worker, RANK=rank, WORLD_SIZE="2")
        with run.checkpoint(step=4) as folder:
            (folder / "state").write_text(f"of {rank}")

    assert (run.place.rank, run.place.world_size, len(seen)) == (0, 2, 1)
    assert (tmp_path / "checkpoints" / "step-4" / "state").read_text() == "of 0"
    assert a_place(tmp_path, **worker, RANK="none").rank == 0


def test_the_very_same_checkpoint_is_handed_in_once(tmp_path: Path) -> None:
    run, seen = a_run(tmp_path, fine)

    for content in (b"1", b"1", b"2"):
        with run.checkpoint(step=4) as folder:
            (folder / "state").write_bytes(content)

    assert len(seen) == 2


def test_training_goes_on_when_a_receipt_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    refusal = {"error": "TooLarge", "message": "more than 10,000 files"}
    run, seen = a_run(tmp_path, lambda _request: httpx.Response(413, json=refusal))

    with run.checkpoint(step=4):
        pass

    assert len(seen) == 1
    assert "checkpoint 4 was not taken: more than 10,000 files" in capsys.readouterr().err


def test_the_last_checkpoints_receipt_waits_for_a_scheduler_that_restarts(tmp_path: Path) -> None:
    answers = iter(
        [httpx.Response(503), httpx.Response(503), fine(httpx.Request("POST", "http://s"))]
    )
    paused: list[float] = []
    run, seen = a_run(tmp_path, lambda _request: next(answers), paused)
    before = signal.getsignal(signal.SIGTERM)
    try:
        run.on_sigterm()
        signal.raise_signal(signal.SIGTERM)
    finally:
        signal.signal(signal.SIGTERM, before)

    with run.checkpoint(step=9):
        pass

    assert len(seen) == 3
    assert paused == [0.0, 0.2, 0.4]


def test_a_stale_attempt_is_told_so(tmp_path: Path) -> None:
    def stale(_request: httpx.Request) -> httpx.Response:
        return httpx.Response(409, json={"error": "StaleAttempt", "message": "attempt 2 runs"})

    run, _ = a_run(tmp_path, stale)

    with pytest.raises(StaleAttempt, match="attempt 2 runs"), run.checkpoint(step=1):
        pass


def test_training_goes_on_when_progress_cannot_be_reported(tmp_path: Path) -> None:
    def down(_request: httpx.Request) -> httpx.Response:
        message = "refused"
        raise httpx.ConnectError(message)

    run, seen = a_run(tmp_path, down)

    run.report(step=1, loss=0.5)

    assert len(seen) == 1


def test_numbers_that_are_not_finite_are_left_out(tmp_path: Path) -> None:
    run, seen = a_run(tmp_path, fine)

    run.report(step=1, total_steps=2, loss=float("nan"), accuracy=0.5)

    assert json.loads(seen[0].content)["metrics"] == {"accuracy": 0.5}


def test_what_other_ranks_save_at_the_same_time_does_not_touch_what_rank_zero_saves(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first, seen = a_run(tmp_path, fine)
    second, unseen = a_run(tmp_path, fine, GPUCOMMONS_RANK="1", GPUCOMMONS_WORLD_SIZE="2")

    for _ in range(2):
        with first.checkpoint(step=4) as mine, second.checkpoint(step=4) as other:
            (mine / "state").write_text("0")
            (other / "state").write_text("1")

    assert (tmp_path / "checkpoints" / "step-4" / "state").read_text() == "0"
    assert [path.name for path in tmp_path.iterdir()] == ["checkpoints"]
    assert (len(seen), len(unseen)) == (1, 0)
    assert capsys.readouterr().err.count("what rank 1 saves is dropped") == 1


def test_only_rank_zero_reports(tmp_path: Path) -> None:
    run, seen = a_run(tmp_path, fine, GPUCOMMONS_RANK="1", GPUCOMMONS_WORLD_SIZE="2")

    run.report(step=1, loss=0.5)
    with run.checkpoint(step=1):
        pass

    assert seen == []


def test_an_announced_stop_is_seen_and_can_be_taken_back(tmp_path: Path) -> None:
    notice = tmp_path / "notice.json"
    run, _ = a_run(tmp_path, fine, GPUCOMMONS_NOTICE_FILE=str(notice))
    assert not run.should_stop

    notice.write_text(json.dumps({"text": "for nlp (its guarantee)"}))
    assert run.should_stop
    assert run.notice() == {"text": "for nlp (its guarantee)"}

    notice.unlink()
    assert not run.should_stop


def test_sigterm_asks_to_stop_and_leaving_says_stopped(tmp_path: Path) -> None:
    run, _ = a_run(tmp_path, fine)
    before = signal.getsignal(signal.SIGTERM)
    try:
        run.on_sigterm()
        signal.raise_signal(signal.SIGTERM)
    finally:
        signal.signal(signal.SIGTERM, before)

    assert run.should_stop
    with pytest.raises(SystemExit) as left:
        run.stop_now()
    assert left.value.code == STOPPED == 143


@pytest.fixture
def as_before() -> Iterator[None]:
    handler, trace = signal.getsignal(signal.SIGTERM), sys.gettrace()
    yield
    sys.settrace(trace)
    signal.signal(signal.SIGTERM, handler)


@pytest.mark.usefixtures("as_before")
def test_sigterm_ends_a_wait_at_whatever_moment_it_comes(tmp_path: Path) -> None:
    moments = 0
    for moment in itertools.count():
        run, _ = a_run(tmp_path, fine)
        run.on_sigterm()
        countdown = itertools.count(moment, -1)

        def strike(_frame: FrameType, _event: str, _argument: object) -> object:
            if next(countdown) == 0:  # noqa: B023 - called in this turn alone
                signal.raise_signal(signal.SIGTERM)
            return strike

        sys.settrace(strike)  # type: ignore[arg-type] # it returns itself
        run.wait(0.01)
        sys.settrace(None)
        if not run.should_stop:
            break
        moments += 1
    assert moments > 2


def test_sigterm_ends_a_long_wait(tmp_path: Path, as_before: None) -> None:
    run, _ = a_run(tmp_path, fine)
    run.on_sigterm()
    threading.Timer(0.05, signal.pthread_kill, (threading.get_ident(), signal.SIGTERM)).start()

    run.wait(1000)

    assert run.should_stop
    run.wait(1000)


def test_the_scheduler_says_where_to_resume(tmp_path: Path) -> None:
    run, _ = a_run(tmp_path, fine, GPUCOMMONS_RESUME_DIR=str(tmp_path / "old" / "step-7"))

    assert run.resume_step() == 7


def test_without_a_scheduler_the_script_resumes_from_its_own_folder(tmp_path: Path) -> None:
    run = Run(a_place(tmp_path), None)
    assert run.resume_step() == 0

    with run.checkpoint(step=5):
        pass
    run.report(step=5, loss=1.0)

    assert run.resume_step() == 5


def test_a_run_of_another_size_says_what_keeps_the_global_batch() -> None:
    told = {"GPUCOMMONS_ACCUMULATION": "2", "GPUCOMMONS_BATCH_SCALE": "0.666667"}
    run = Run(Place.from_environment(told), None)
    assert (run.micro_steps, run.batch(30), run.batch(1)) == (2, 20, 1)
    rigid = Run(Place.from_environment({}), None)
    assert (rigid.micro_steps, rigid.batch(30)) == (1, 30)


def a_run_that_measures(folder: Path, answer: Answer) -> tuple[Run, list[httpx.Request]]:
    plain, seen = a_run(folder, answer)
    loading = Loading({})
    clock = loading.clock({"workers": 1})
    for _ in range(LEAST):
        clock.took(batch_us=100, wait_us=0)
    return Run(plain.place, plain._scheduler, loading=loading), seen


def test_a_scheduler_that_takes_no_word_of_the_loader_is_told_none(tmp_path: Path) -> None:
    def earlier(request: httpx.Request) -> httpx.Response:
        if "loading" not in json.loads(request.content):
            return fine(request)
        return httpx.Response(422, json={"error": "BadRequest", "message": "loading is unknown"})

    run, seen = a_run_that_measures(tmp_path, earlier)
    run.report(step=1, loss=0.5)
    run.report(step=2)

    told = [json.loads(one.content) for one in seen]
    assert [(one["step"], "loading" in one) for one in told] == [(1, True), (1, False), (2, False)]


def test_a_scheduler_that_fails_once_is_told_of_the_loader_again(tmp_path: Path) -> None:
    answers = iter([500, 403, 200])

    def moody(_request: httpx.Request) -> httpx.Response:
        return httpx.Response(next(answers), json={"error": "Forbidden", "message": "not now"})

    run, seen = a_run_that_measures(tmp_path, moody)
    for step in (1, 2, 3):
        run.report(step=step)

    told = [json.loads(one.content) for one in seen]
    assert [(one["step"], "loading" in one) for one in told] == [(1, True), (2, True), (3, True)]


def test_what_cannot_be_told_of_its_loader_is_left_out_and_ends_nothing(tmp_path: Path) -> None:
    plain, seen = a_run(tmp_path, fine)
    loading = Loading({})
    clock = loading.clock({"workers": -1})
    for _ in range(LEAST):
        clock.took(batch_us=100, wait_us=0)
    run = Run(plain.place, plain._scheduler, loading=loading)

    run.report(step=1, loss=0.5)
    clock.about["workers"] = 1
    run.report(step=2, loss=0.5)

    first, second = (json.loads(one.content) for one in seen)
    assert (first["step"], first.get("loading"), first["metrics"]) == (1, None, {"loss": 0.5})
    assert second["loading"]["workers"] == 1
