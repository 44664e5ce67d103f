import asyncio
import json
from typing import Any

from gpucommons.labextension.live.fanout import Tab
from gpucommons.labextension.live.followed_job import Follow
from gpucommons.scheduler.errors import Forbidden, Unavailable, UnknownWorkload
from gpucommons.scheduler.models import AttemptView, Curve, JobUse, LogView

REF = "digits-7"


def attempt(number: int, *, started: bool = True) -> AttemptView:
    return AttemptView(
        id=f"a{number}",
        number=number,
        state="running",
        hold_class="guaranteed",
        reserved_ms=1,
        started_ms=number if started else None,
    )


class Scripted:
    """A scheduler whose job changes at every look, and whose logs come in pieces."""

    def __init__(self, stages: list[Any], logs: dict[int, list[LogView]]) -> None:
        self.stages = stages
        self.logs = logs
        self.offsets: list[tuple[int, int]] = []
        #: Of the workers but the first.
        self.ranks: dict[int, list[Any]] = {}
        #: What its use is said to be, look after look.
        self.uses: list[JobUse] = []

    async def send(self, call: Any) -> Any:
        await asyncio.sleep(0)
        if call.path.endswith("/curve"):
            return Curve(points=[])
        if call.path.endswith("/use"):
            if not self.uses:
                raise UnknownWorkload
            return self.uses.pop(0)
        if call.path.endswith("/log"):
            number, offset = int(call.query["attempt"]), int(call.query["offset"])
            if (rank := int(call.query.get("rank", 0))) > 0:
                answer = self.ranks[rank].pop(0)
                if isinstance(answer, Exception):
                    raise answer
                return answer
            self.offsets.append((number, offset))
            if not self.logs[number]:
                raise UnknownWorkload
            return self.logs[number].pop(0)
        stage = self.stages.pop(0) if len(self.stages) > 1 else self.stages[0]
        if isinstance(stage, Exception):
            raise stage
        return stage


def lines(number: int, text: str, offset: int, *, end: bool = False) -> LogView:
    return LogView(lines=[text] if text else [], attempt=number, next_offset=offset, end=end)


async def follow(
    scheduler: Scripted, *, room: int = 256, rank: int | None = 0
) -> list[dict[str, Any]]:
    """What a page gets that is slow to read."""
    tab, found = Tab(size=room), list[dict[str, Any]]()

    async def skip(_seconds: float) -> None:
        await asyncio.sleep(0)

    async def read() -> None:
        while True:
            found.append(json.loads(await tab.next()))
            for _ in range(5):
                await asyncio.sleep(0)

    reading = asyncio.create_task(read())
    async with asyncio.timeout(60):
        await Follow(scheduler=scheduler, tab=tab, ref=REF, rank=rank, sleep=skip).run()
        await tab.emptied()
    reading.cancel()
    assert not tab.over.is_set()
    return found


async def test_log_lines_follow_in_order_over_attempts(make_job: Any) -> None:
    one = make_job(state="running", attempts=[attempt(1)])
    queued = make_job(state="queued", attempts=[attempt(1)])
    two = make_job(state="running", attempts=[attempt(1), attempt(2)])
    done = make_job(state="succeeded", attempts=[attempt(1), attempt(2)])
    logs = {
        1: [lines(1, "a", 2), lines(1, "b", 4, end=True)],
        2: [lines(2, "c", 2), lines(2, "", 2, end=True)],
    }
    scheduler = Scripted([one, one, one, queued, queued, two, two, two, done], logs)
    sent = await follow(scheduler)
    assert [(m["attempt"], m["lines"], m["end"]) for m in sent if m["type"] == "log"] == [
        (1, ["a"], False),
        (1, ["b"], True),
        (2, ["c"], False),
        (2, [], True),
    ]
    assert scheduler.offsets == [(1, 0), (1, 2), (2, 0), (2, 2)]


async def test_the_log_of_a_woken_job_begins_where_its_processes_did(make_job: Any) -> None:
    woken = attempt(4).model_copy(update={"woken_from": 2})
    again = attempt(5).model_copy(update={"woken_from": 4})
    attempts = [attempt(1), attempt(2), attempt(3, started=False), woken, again]
    done = make_job(state="succeeded", attempts=attempts)
    logs = {n: [lines(n, f"of {n}", 5, end=True)] for n in (1, 2, 3, 4, 5)}
    sent = await follow(Scripted([done], logs))
    found = [(m["attempt"], m["lines"]) for m in sent if m["type"] == "log"]
    assert found == [(2, ["of 2"]), (4, ["of 4"]), (5, ["of 5"])]


async def test_the_logs_of_all_workers_come_as_one(make_job: Any) -> None:
    done = make_job(state="failed", attempts=[attempt(1)], workers=3)
    scheduler = Scripted([done], {1: [lines(1, "a", 2), lines(1, "b", 4, end=True)]})
    scheduler.ranks = {1: [lines(1, "c", 2, end=True)], 2: [lines(1, "", 0, end=True)]}
    sent = await follow(scheduler, rank=None)
    said = sorted((m["rank"], m["lines"], m["end"]) for m in sent if m["type"] == "log")
    assert said == [(0, ["a"], False), (0, ["b"], True), (1, ["c"], True), (2, [], True)]


async def test_a_refusal_of_one_of_the_logs_is_told_in_its_words(make_job: Any) -> None:
    done = make_job(state="failed", attempts=[attempt(1)], workers=2)
    scheduler = Scripted([done], {1: [lines(1, "a", 2, end=True)]})
    scheduler.ranks = {1: [Forbidden("Not yours.")]}
    sent = await follow(scheduler, rank=None)
    assert [m["message"] for m in sent if m["type"] == "error"] == ["Not yours."]


async def test_a_log_is_read_no_faster_than_its_page_takes_it(make_job: Any) -> None:
    done = make_job(state="succeeded", attempts=[attempt(1)])
    pieces = [lines(1, str(number), number, end=number == 99) for number in range(100)]
    sent = await follow(Scripted([done], {1: pieces}), room=4)
    assert [m["lines"][0] for m in sent if m["type"] == "log"] == [str(n) for n in range(100)]


async def test_only_changes_are_sent(make_job: Any) -> None:
    running, done = make_job(attempts=[]), make_job(state="failed", attempts=[])
    sent = await follow(Scripted([running] * 5 + [done], {}))
    assert [m["job"]["state"] for m in sent if m["type"] == "job"] == ["running", "failed"]


async def test_a_waiting_job_without_attempts_ends_quietly(make_job: Any) -> None:
    stages = [make_job(state="queued", attempts=[]), make_job(state="cancelled", attempts=[])]
    sent = await follow(Scripted(stages, {}))
    assert not [m for m in sent if m["type"] in ("log", "error")]


async def test_a_log_that_is_gone_is_no_error(make_job: Any) -> None:
    sent = await follow(Scripted([make_job(state="failed", attempts=[attempt(1)])], {1: []}))
    assert not [m for m in sent if m["type"] in ("log", "error")]


async def test_a_scheduler_that_restarts_is_waited_for(make_job: Any) -> None:
    done = make_job(state="succeeded", attempts=[])
    sent = await follow(Scripted([Unavailable(), Unavailable(), done], {}))
    assert [m["job"]["state"] for m in sent if m["type"] == "job"] == ["succeeded"]


async def test_the_use_of_a_job_that_is_over_is_asked_for_until_it_is_measured(
    make_job: Any,
) -> None:
    scheduler = Scripted([make_job(state="succeeded", attempts=[])], {})
    said = [("not measured yet", True)] * 3 + [("used 0.7", False)]
    scheduler.uses = [
        JobUse(spans=[], asked_milli_gpu=1000, text=text, is_pending=pending)
        for text, pending in said
    ]
    sent = await follow(scheduler)
    assert [m["text"] for m in sent if m["type"] == "use"] == ["not measured yet", "used 0.7"]


async def test_what_a_job_asks_is_told_anew_as_soon_as_its_size_was_changed(make_job: Any) -> None:
    three = make_job(state="queued", attempts=[], milli_gpu=3000)
    two = make_job(state="queued", attempts=[], milli_gpu=2000)
    scheduler = Scripted([three, three, two, make_job(state="cancelled", attempts=[])], {})
    said = ["asked 3 GPUs, held none", "asked 2 GPUs (3 at first), held none"]
    scheduler.uses = [JobUse(spans=[], asked_milli_gpu=1, text=text) for text in (*said, said[1])]
    sent = await follow(scheduler)
    kinds = [m.get("text") or m["job"]["state"] for m in sent if m["type"] in ("job", "use")]
    assert kinds == ["queued", said[0], "queued", said[1], "cancelled"]


async def test_a_job_one_may_not_see_is_an_error_once() -> None:
    sent = await follow(Scripted([UnknownWorkload("Not yours.")], {}))
    assert sent == [{"type": "error", "message": "Not yours."}]
