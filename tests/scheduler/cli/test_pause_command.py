"""*Pause* says before what it costs, and the way to go on reads the same in every answer."""

from __future__ import annotations

import io
import sys

import pytest
from command_line import Cli, WatchedWorld, submitted

from gpucommons.scheduler import models
from gpucommons.scheduler.core.model.going_on import Hibernation
from gpucommons.scheduler.core.model.state import TreeReported
from gpucommons.scheduler.core.model.types import WorkloadId

COST = (
    "Starts its command anew and finds the files that it wrote, if any are kept; what it did since it"
    " last saved is repeated, 12 min of work at most."
)


class Terminal(io.StringIO):
    """Somebody who answers."""

    def isatty(self) -> bool:
        return True


def running(world: WatchedWorld) -> models.JobView:
    job = submitted(world)
    world.pass_time(1000)
    world.pass_time(12 * 60_000 - 1000)
    return job


def test_who_asks_for_no_question_reads_in_the_answer_what_it_cost(
    cli: Cli, world: WatchedWorld
) -> None:
    job = running(world)
    assert COST in cli("pause", job.name, "--yes").out
    assert cli("show", job.name, "--output", "json").json["state"] in {"pausing", "paused"}


@pytest.mark.parametrize(
    ("answer", "pauses", "code"), [("n\n", False, 0), ("y\n", True, 0), ("", False, 1)]
)
def test_without_a_terminal_work_is_lost_only_by_an_answer(
    cli: Cli,
    world: WatchedWorld,
    monkeypatch: pytest.MonkeyPatch,
    answer: str,
    *,
    pauses: bool,
    code: int,
) -> None:
    job = running(world)
    monkeypatch.setattr(sys, "stdin", io.StringIO(answer))
    done = cli("pause", job.name)
    assert (COST in done.err, done.code) == (True, code)
    assert ("--yes" in done.out) is bool(code)
    after = cli("show", job.name, "--output", "json").json["state"]
    assert (after != "running") is pauses


def test_without_a_terminal_one_whose_memory_is_saved_is_paused_without_a_question(
    cli: Cli, world: WatchedWorld
) -> None:
    job = running(world)
    attempt = world.cluster.workloads[WorkloadId(job.id)].attempts[0]
    tree = TreeReported(attempt_id=attempt.attempt_id, hibernation=Hibernation())
    world.service.loop.observe(tree)
    world.pass_time(1000)
    done = cli("pause", job.name)
    assert (done.code, done.err) == (0, "")
    assert "Goes on where it stopped: its memory is saved" in done.out


@pytest.mark.parametrize(("answer", "pauses"), [("n\n", False), ("\n", False), ("y\n", True)])
def test_at_a_terminal_it_asks_first(
    cli: Cli, world: WatchedWorld, monkeypatch: pytest.MonkeyPatch, answer: str, *, pauses: bool
) -> None:
    job = running(world)
    monkeypatch.setattr(sys, "stdin", Terminal(answer))
    done = cli("pause", job.name)
    assert COST in done.err
    after = cli("show", job.name, "--output", "json").json["state"]
    assert (after != "running") == pauses
    assert ("not paused" in done.out) != pauses


@pytest.mark.parametrize(
    ("answer", "options", "ends"),
    [("n\n", [], False), ("", [], False), ("y\n", [], True), ("n\n", ["--yes"], True)],
)
def test_at_a_terminal_what_runs_is_cancelled_only_by_an_answer(
    cli: Cli,
    world: WatchedWorld,
    monkeypatch: pytest.MonkeyPatch,
    answer: str,
    options: list[str],
    *,
    ends: bool,
) -> None:
    job = running(world)
    monkeypatch.setattr(sys, "stdin", Terminal(answer))
    done = cli("cancel", job.name, *options)
    assert ("Cancel" in done.err) != bool(options)
    after = cli("show", job.name, "--output", "json").json["state"]
    assert (after != "running") == ends


def test_a_script_that_cancels_is_asked_nothing(
    cli: Cli, world: WatchedWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = running(world)
    monkeypatch.setattr(sys, "stdin", io.StringIO(""))
    assert cli("cancel", job.name).err == ""
    assert cli("show", job.name, "--output", "json").json["state"] == "cancelling"


def test_show_and_why_name_the_way_to_go_on_in_the_same_words(
    cli: Cli, world: WatchedWorld
) -> None:
    job = running(world)
    line = f"If it is stopped now: s{COST[1:]}"
    assert line in cli("show", job.name).out
    assert line in cli("why", job.name).out
    cli("pause", job.name, "--yes")
    world.pass_time(60_000)
    line = f"When it starts again: s{COST[1:].partition(';')[0]}"
    assert line in cli("show", job.name).out
