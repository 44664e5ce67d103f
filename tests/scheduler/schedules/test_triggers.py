"""Each time of a trigger is on record once, and starts one run at most, whoever dies in between."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpucommons.scheduler.core.model.types import Millis, TeamName, UserName, WorkloadId
from gpucommons.scheduler.schedules import data_looks, trigger_state
from gpucommons.scheduler.schedules.due_runs import (
    MOST_AN_HOUR,
    Start,
    decide,
    next_look_ms,
    record,
    started,
)
from gpucommons.scheduler.schedules.schedule import (
    Concurrency,
    Outcome,
    Run,
    Schedule,
    Scheduled,
    ScheduleId,
    Standing,
)
from gpucommons.scheduler.schedules.triggers import On, Trigger, TriggerKind

BEGIN, MINUTE, HOUR = Millis(1_790_000_000_000), 60_000, 3_600_000
AFTER = Trigger(kind=TriggerKind.AFTER, what="clean", since_ms=BEGIN)
METRIC = Trigger(kind=TriggerKind.METRIC, what="accuracy", below=97.5, since_ms=BEGIN)
DATA = Trigger(kind=TriggerKind.PATH, what="/data", since_ms=BEGIN)


def of(*triggers: Trigger, **changes: object) -> Schedule:
    made = Schedule(
        schedule_id=ScheduleId("s-1"),
        name="retrain",
        owner=UserName("ada"),
        team=TeamName("vision"),
        cron="",
        time_zone="UTC",
        concurrency=Concurrency.FORBID,
        since_ms=BEGIN,
        request="{}",
        triggers=triggers,
    )
    return replace(made, **changes)  # type: ignore[arg-type] # as the fields are


@dataclass
class Leader:
    """Looks as `background_tasks/schedules.py` does, and may die at each point; what was submitted stays."""

    schedule: Schedule
    now: Millis = BEGIN
    standing: Standing = Standing()
    ends: list[trigger_state.Ended] = field(default_factory=list)
    version: str = "a"
    #: Jobs by the key that makes a repeated submit harmless.
    jobs: dict[tuple[str, int], str] = field(default_factory=dict)
    live: set[WorkloadId] = field(default_factory=set)

    def end(self, how: str) -> None:
        job = WorkloadId(f"clean-{len(self.ends)}")
        failed, cancelled = how == "failed", how == "cancelled"
        self.ends.append(
            trigger_state.Ended(
                job=job, name=job, ended_ms=self.now, failed=failed, cancelled=cancelled
            )
        )

    def post(self, value: float) -> None:
        before = trigger_state.posted_of(self.schedule, METRIC)
        after = trigger_state.post(METRIC, before, value, now_ms=self.now)
        self.schedule = replace(self.schedule, posted=(after,))

    def look(self, dies: str = "") -> None:
        scheduled = Scheduled(schedule=self.schedule, standing=self._begun())
        scheduled = replace(scheduled, standing=self._sensed(scheduled))
        found = decide(scheduled, self.live, self.now)
        if dies == "early":
            return
        if found.start is None:
            self.standing = found.standing
            return
        due = found.start
        self.standing = begun = replace(found.standing, starting_ms=due.due_ms, starting_of=due.of)
        if dies == "begun":
            return
        job = self.jobs.setdefault((due.of, due.due_ms), f"retrain-{len(self.jobs)}")
        self.live.add(WorkloadId(job))
        if dies != "submitted":
            self.standing = started(begun, due, self.now, job=WorkloadId(job), name=job)

    def _begun(self) -> Standing:
        standing, due_ms = self.standing, self.standing.starting_ms
        if due_ms is None:
            return standing
        job = self.jobs.get((standing.starting_of, due_ms))
        if job is None:
            return replace(standing, starting_ms=None, starting_of="")
        due = Start(due_ms=due_ms, of=standing.starting_of)
        return started(standing, due, self.now, job=WorkloadId(job), name=job)

    def _sensed(self, scheduled: Scheduled) -> Standing:
        changed = {}
        for trigger in self.schedule.triggers:
            one = trigger_state.sensed_of(scheduled.standing, trigger)
            if trigger.kind is TriggerKind.METRIC:
                posted = trigger_state.posted_of(self.schedule, trigger)
                one = trigger_state.hear_posted(trigger, one, posted)
            elif trigger.kind is TriggerKind.AFTER:
                since_ms = max(one.checked_ms, BEGIN) - trigger_state.BACK_MS
                ends = [each for each in self.ends if each.ended_ms > since_ms]
                one = trigger_state.hear_ends(trigger, one, ends, since_ms=BEGIN, now_ms=self.now)
            else:
                one = trigger_state.hear_version(trigger, one, self.version, now_ms=self.now)
            changed[trigger.key] = one
        return trigger_state.with_sensed(scheduled, changed)

    def runs(self, trigger: Trigger) -> list[Run]:
        return [run for run in self.standing.runs if run.trigger == trigger.words]


STEP = st.one_of(
    st.tuples(st.just("pass"), st.sampled_from([1, 9_000, 40 * MINUTE, 30 * HOUR])),
    st.tuples(st.just("end"), st.sampled_from(["finished", "failed", "cancelled"])),
    st.tuples(st.just("post"), st.sampled_from([96.0, 97.5, 99.0])),
    st.tuples(st.just("change"), st.sampled_from(["a", "b", "c"])),
    st.tuples(st.just("over"), st.just("")),
    st.tuples(st.just("look"), st.sampled_from(["", "", "early", "begun", "submitted"])),
)


@settings(max_examples=300, deadline=None)
@given(
    on=st.sampled_from(On),
    concurrency=st.sampled_from(Concurrency),
    deadline=st.sampled_from([None, 30]),
    steps=st.lists(STEP, max_size=40),
)
def test_no_time_of_a_trigger_is_unrecorded_and_none_starts_two_runs(
    *, on: On, concurrency: Concurrency, deadline: int | None, steps: list[tuple[str, object]]
) -> None:
    after = replace(AFTER, on=on)
    schedule = of(after, METRIC, DATA, concurrency=concurrency, starting_deadline_s=deadline)
    leader = Leader(schedule)
    falls, is_below = 0, False
    for what, with_what in steps:
        if what == "pass":
            leader.now = Millis(leader.now + int(str(with_what)))
        elif what == "end":
            leader.now = Millis(leader.now + 1)
            leader.end(str(with_what))
        elif what == "post":
            below = float(str(with_what)) < METRIC.below
            falls += below and not is_below
            is_below = below
            leader.post(float(str(with_what)))
        elif what == "change":
            leader.version = str(with_what)
        elif what == "over":
            leader.live.clear()
        else:
            leader.look(str(with_what))
    for _ in range(12):  # nobody dies any more, and there is room for each
        leader.now = Millis(leader.now + HOUR)
        leader.live.clear()
        leader.look()
    wanted = {On.OK: "finished", On.FAILED: "failed"}.get(on, "")
    told = [
        "failed" if e.failed else "cancelled" if e.cancelled else "finished" for e in leader.ends
    ]
    counted = sum(wanted in ("", each) for each in told)
    assert sum(run.count for run in leader.runs(after)) == counted
    assert sum(run.count for run in leader.runs(METRIC)) == falls
    jobs = [run.job for run in leader.standing.runs if run.job is not None]
    assert sorted(jobs) == sorted(leader.jobs.values())
    # Whatever was skipped meanwhile: the newest data were learnt from in the end.
    (known,) = [one for one in leader.standing.sensed if one.key == DATA.key]
    assert (known.used, known.fired) == (leader.version, None)


def test_data_that_were_there_at_first_start_nothing_and_each_change_once() -> None:
    leader = Leader(of(DATA))
    leader.look()
    leader.look()
    assert leader.jobs == {}
    leader.version = "b"
    leader.look()
    leader.look()
    assert [(run.outcome, run.cause, run.version) for run in leader.runs(DATA)] == [
        (Outcome.STARTED, "/data changed", "b"),
    ]


def test_a_change_that_a_run_kept_out_starts_one_as_soon_as_that_is_over() -> None:
    leader = Leader(of(DATA))
    leader.look()
    for version in ("b", "c", "c"):
        leader.version = version
        leader.look()
    assert [(run.outcome, run.count, run.text) for run in leader.runs(DATA)] == [
        (Outcome.STARTED, 1, ""),
        (Outcome.SKIPPED, 2, "The run before still went on"),
    ]
    leader.live.clear()
    leader.look()
    assert [run.version for run in leader.runs(DATA) if run.job] == ["b", "c"]


def test_several_ends_between_two_looks_are_one_run_and_the_others_are_on_record() -> None:
    leader = Leader(of(AFTER), now=Millis(BEGIN + 1))
    for _ in range(200):
        leader.end("finished")
    leader.look()
    together, run = leader.runs(AFTER)
    assert (together.outcome, together.count) == (Outcome.SKIPPED, 199)
    assert together.text == "Several came together, of which the last one counts"
    assert (run.outcome, run.cause) == (Outcome.STARTED, "clean-199 finished")


def test_a_storm_of_triggers_is_bounded_and_says_so() -> None:
    leader = Leader(of(AFTER, concurrency=Concurrency.ALLOW))
    for _ in range(50):
        leader.now = Millis(leader.now + 11_000)
        leader.end("finished")
        leader.look()
    *runs, skipped = leader.runs(AFTER)
    assert [run.outcome for run in runs] == [Outcome.STARTED] * MOST_AN_HOUR
    assert (skipped.outcome, skipped.count) == (Outcome.SKIPPED, 50 - MOST_AN_HOUR)
    assert skipped.text.startswith("Triggers had started 12 runs within an hour")
    leader.now = Millis(leader.now + HOUR)
    leader.end("finished")
    leader.look()
    assert leader.runs(AFTER)[-1].outcome is Outcome.STARTED


def test_what_a_trigger_heard_before_a_suspension_does_not_start_on_resume() -> None:
    leader = Leader(of(METRIC))
    leader.post(96)
    leader.look("begun")
    leader.now = Millis(leader.now + HOUR)
    leader.schedule = replace(leader.schedule, since_ms=leader.now, resumed_ms=leader.now)
    leader.look()
    (run,) = leader.runs(METRIC)
    assert (run.outcome, run.text, leader.jobs) == (
        Outcome.SKIPPED,
        "It was suspended before the run could start",
        {},
    )
    for value in (98, 96):
        leader.now = Millis(leader.now + 1)
        leader.post(value)
    leader.look()
    assert len(leader.jobs) == 1


def test_a_metric_falls_once_until_it_was_up_again() -> None:
    leader = Leader(of(METRIC, concurrency=Concurrency.ALLOW))
    assert next_look_ms(Scheduled(schedule=leader.schedule)) is None
    for value in (98, 97, 96, 97.5, 97.4):
        leader.now = Millis(leader.now + 1)
        leader.post(value)
    assert next_look_ms(Scheduled(schedule=leader.schedule)) == leader.now
    leader.look()
    together, run = leader.runs(METRIC)
    assert (together.count, run.cause) == (1, "accuracy 97.4 is below 97.5")


def test_what_is_refused_is_on_record_and_the_same_data_are_not_tried_again() -> None:
    leader = Leader(of(DATA))
    leader.look()
    leader.version = "b"
    found = decide(
        Scheduled(
            schedule=leader.schedule,
            standing=leader._sensed(Scheduled(schedule=leader.schedule, standing=leader.standing)),
        ),
        (),
        leader.now,
    )
    assert found.start is not None
    leader.standing = record(found.standing, Outcome.REFUSED, found.start, leader.now, "no")
    leader.look()
    assert [run.outcome for run in leader.runs(DATA)] == [Outcome.REFUSED]


def _looked(trigger: Trigger) -> tuple[str, str]:
    """What the command of a look prints, as a version, and what it says where it fails."""
    _, *rest = data_looks.command_of(trigger)
    done = subprocess.run([sys.executable, *rest], capture_output=True, text=True, check=False)
    assert (done.returncode == 0) == bool(done.stdout)
    return data_looks.version_in(done.stdout.splitlines()), done.stderr.strip()


def test_a_folder_is_another_where_a_file_is_written_moved_or_removed(tmp_path: Path) -> None:
    data = tmp_path / "data"
    (data / "day").mkdir(parents=True)
    (data / "day" / "1.csv").write_text("1")
    (data / "pipe").symlink_to("nowhere")
    trigger = replace(DATA, what=str(data))
    seen = [_looked(trigger)[0]]
    assert seen[0].endswith("(1 file, 1 B)")
    (data / "day" / "2.csv").write_text("2" * 2048)
    seen.append(_looked(trigger)[0])
    assert seen[1].endswith("(2 files, 2 KiB)")
    (data / "day" / "2.csv").rename(data / "2.csv")
    seen.append(_looked(trigger)[0])
    (data / "2.csv").unlink()
    seen.append(_looked(trigger)[0])
    assert seen[3] == seen[0]
    assert len(set(seen)) == 3
    alone = replace(DATA, what=str(data / "day" / "1.csv"))
    assert _looked(alone)[0].endswith("(1 file, 1 B)")
    gone = replace(DATA, what=str(tmp_path / "none"))
    assert _looked(gone) == ("", f"There is no {tmp_path / 'none'} for you.")


class _Objects(BaseHTTPRequestHandler):
    def do_HEAD(self) -> None:
        known = {
            "/tagged": {"ETag": '"9f86d08"', "Last-Modified": "today"},
            "/versioned": {"x-amz-version-id": "v7", "ETag": '"9f86d08"'},
            "/unversioned": {"x-amz-version-id": "null", "ETag": '"9f86d08"'},
            "/bare": {},
        }.get(self.path)
        self.send_response(404 if known is None else 200)
        for name, value in (known or {}).items():
            self.send_header(name, value)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Quiet."""


@pytest.fixture
def objects() -> Iterator[str]:
    server = HTTPServer(("127.0.0.1", 0), _Objects)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join()


def test_an_object_is_another_by_its_version_or_its_tag(objects: str) -> None:
    def looked(path: str) -> tuple[str, str]:
        return _looked(replace(DATA, kind=TriggerKind.URL, what=f"{objects}/{path}"))

    assert looked("tagged") == ("9f86d08", "")
    assert looked("versioned") == ("v7", "")
    assert looked("unversioned") == ("9f86d08", "")
    assert looked("none") == ("", "It answers 404 Not Found.")
    assert looked("bare")[1].startswith("It tells neither a version nor an ETag")


def test_a_command_tells_its_version_by_its_last_line() -> None:
    trigger = replace(DATA, kind=TriggerKind.COMMAND, command=("psql", "-c", "count"))
    assert data_looks.command_of(trigger) == ["psql", "-c", "count"]
    assert data_looks.version_in(["connecting", "\x1b[1m1,204\x07", "  "]) == "[1m1,204"
    assert data_looks.version_in(["", " "]) == ""
    assert len(data_looks.version_in(["9" * 5000])) == data_looks.LONGEST
