"""The queues that the core is compared with, on cases small enough to work out by hand."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.quota_replay.__main__ import main
from benchmarks.quota_replay.queues import Nodes, play, policy_of
from gpucommons.scheduler.simulation.trace import TraceJob
from gpucommons.scheduler.simulation.trace_cluster import Setting

MINUTES = "job_id,user,num_gpu,submit_time,duration\n"


def a_job(team: str, gpus: int, at: int, run: int) -> TraceJob:
    return TraceJob(name="", team=team, user=team, gpus=gpus, submit_ms=at, run_ms=run)


def starts(policy: str, *jobs: TraceJob) -> list[int | None]:
    setting = Setting(nodes=2, quotas={"a": 8, "b": 8}, jobs=jobs, shrunk=0)
    return [one.started_ms for one in play(setting, policy_of(policy, setting))]


#: a asks for all it has, then too much, then little; b comes late.
JOBS = (a_job("a", 8, 0, 100), a_job("a", 8, 1, 100), a_job("a", 1, 2, 5), a_job("b", 8, 3, 10))


def test_a_partition_keeps_each_team_to_its_nodes() -> None:
    assert starts("static-fifo", *JOBS) == [0, 100, 200, 3]


def test_skipping_lets_what_fits_pass() -> None:
    jobs = (a_job("a", 6, 0, 100), a_job("a", 8, 1, 10), a_job("a", 2, 2, 5))
    assert starts("static-fifo", *jobs) == [0, 100, 110]
    assert starts("static-skip", *jobs) == [0, 100, 2]


def test_a_shared_queue_serves_who_came_first() -> None:
    assert starts("shared-fifo", *JOBS) == [0, 1, 100, 101]


def test_borrowed_gpus_are_not_taken_back() -> None:
    # Its quota is b's right, but a has it until its job ends; then b goes before a's small job.
    assert starts("borrow", *JOBS) == [0, 1, 101, 100]


def test_best_fit_and_whole_nodes() -> None:
    nodes = Nodes([8, 3, 5])
    assert nodes.take(3) == [(1, 3)]
    assert nodes.take(12) == [(0, 8), (2, 4)]
    assert nodes.take(2) is None
    assert nodes.free == [0, 0, 1]


def test_in_quota_is_what_a_partition_would_never_keep_waiting() -> None:
    setting = Setting(nodes=2, quotas={"a": 8, "b": 8}, jobs=JOBS, shrunk=0)
    played = play(setting, policy_of("static-fifo", setting))
    assert [one.in_quota for one in played] == [True, False, False, True]


def test_the_core_beside_a_queue(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = "".join(
        f"{i},{'ab'[i % 7 > 4]},{(1, 2, 8, 4)[i % 4]},{i * 7},{30 + i % 5 * 60}\n"
        for i in range(60)
    )
    trace, out = tmp_path / "t.csv", tmp_path / "out" / "r.json"
    trace.write_text(MINUTES + rows)

    assert main([f"--trace={trace}", "--policies=static-fifo,gpucommons", f"--json={out}"]) == 0

    fifo, ours = map(json.loads, out.read_text().splitlines())
    assert (fifo["policy"], ours["policy"]) == ("static-fifo", "gpucommons")
    assert fifo["evictions"] == 0
    assert ours["mean_jct_h"] < fifo["mean_jct_h"]
    assert ours["in_quota_wait_p99_s"] <= 60
    assert ours["in_quota_evictions"] == 0
    assert "gpucommons" in capsys.readouterr().out


def test_a_bad_trace_is_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main([f"--trace={tmp_path / 'none.csv'}"])
    assert "cannot be read" in capsys.readouterr().err
