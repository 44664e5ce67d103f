"""Traces of four formats: who, when, how long; and a sentence with the line where one is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpucommons.scheduler.errors import BadRequest
from gpucommons.scheduler.simulation.trace import LONGEST_RUN_MS, read_trace
from gpucommons.scheduler.simulation.trace_cluster import a_spec, parts, set_up

HOUR = 3_600_000
GAPS = "u_id,user,gpu_num,cpu_num,node_num,interval,run_time,wall_time,new_status\n"
MINUTES = "job_id,user,num_gpu,submit_time,iterations,model_name,duration,interval\n"
DATES = "job_id,vc,user,status,submit_time,start_time,end_time,gpus,nodes\n"


def a_file(folder: Path, text: str) -> Path:
    path = folder / "trace.csv"
    path.write_text(text)
    return path


def test_gaps_add_up_and_are_capped(tmp_path: Path) -> None:
    rows = "0,7,1,0,1,500,60,0,Pass\n1,8,2,0,1,100,60,0,Pass\n2,7,1,0,1,999999,999999,0,Killed\n"
    trace = read_trace(a_file(tmp_path, GAPS + rows))

    assert [job.submit_ms for job in trace.jobs] == [0, 100_000, 100_000 + 6 * HOUR]
    assert trace.jobs[2].run_ms == LONGEST_RUN_MS
    assert (trace.jobs[1].gpus, trace.jobs[1].user) == (2, "8")


def test_users_become_eight_teams_of_about_equal_gpu_time(tmp_path: Path) -> None:
    rows = "".join(f"{i},{i},{1 + i % 3},0,1,10,{60 + i},0,Pass\n" for i in range(200))
    work = read_trace(a_file(tmp_path, GAPS + rows)).work_of_teams()

    assert len(work) == 8
    assert max(work.values()) < 1.05 * min(work.values())


def test_minutes_and_teams(tmp_path: Path) -> None:
    rows = "1,vc_b,4,30,9,vgg,20,1\n0,vc_a,1,10,9,vgg,5,1\n2,vc_a,0,40,9,vgg,5,1\n"
    trace = read_trace(a_file(tmp_path, MINUTES + rows))

    assert [(job.name, job.team) for job in trace.jobs] == [("0", "vc_a"), ("1", "vc_b")]
    assert [job.submit_ms for job in trace.jobs] == [0, 20 * 60_000]
    assert trace.left_out == 1


def test_dates_and_virtual_clusters(tmp_path: Path) -> None:
    row = "a,x1,u1,Pass,2017-10-04 06:00:00,2017-10-04 07:00:00,2017-10-04 09:30:00,16,2\n"
    never = "b,x1,u1,Killed,2017-10-04 06:10:00,,,8,1\n"
    trace = read_trace(a_file(tmp_path, DATES + row + never))

    (job,) = trace.jobs
    assert (job.team, job.gpus, job.run_ms) == ("x1", 16, 2.5 * HOUR)
    assert trace.left_out == 1


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (GAPS + "0,7,1,0,1,0,60,0,Pass\n1,8,many,0,1,1,60,0,Pass\n", "line 3: gpu_num is 'many'"),
        (GAPS + "0,7,1.5,0,1,0,60,0,Pass\n", "line 2: gpu_num is '1.5': a job has whole GPUs"),
        (GAPS + "0,7,1,0,1,-4,60,0,Pass\n", "line 2: interval is '-4'"),
        (GAPS + "0,7,1,0,1,1e308,60,0,Pass\n", "line 2: interval is '1e308'"),
        (GAPS + "0,7,1e9,0,1,0,60,0,Pass\n", "line 2: gpu_num is '1e9'"),
        (GAPS + "0,7\n", "line 2: gpu_num is missing"),
        (GAPS + 200_000 * "7" + "\n", "is no CSV file"),
        (DATES + "a,x,u,P,yesterday,,,1,1\n", "line 2: submit_time is 'yesterday'"),
        ("when,what\n1,2\n", "line 1: its columns"),
        ("", "line 1: its columns"),
        (GAPS, "no job with a GPU"),
    ],
)
def test_what_is_wrong_is_said_with_its_line(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(BadRequest, match=said):
        read_trace(a_file(tmp_path, text))


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(BadRequest, match="cannot be read"):
        read_trace(tmp_path / "none.csv")


def test_a_cluster_is_sized_for_the_load_and_quotas_are_whole_nodes(tmp_path: Path) -> None:
    rows = "".join(f"{i},{'ab'[i % 2]},8,{i * 60},1,m,{120 + 240 * (i % 2)},1\n" for i in range(20))
    trace = read_trace(a_file(tmp_path, MINUTES + rows))
    setting = set_up(trace, 0.5)

    assert setting.gpus * 0.5 * trace.span_ms == pytest.approx(trace.work, rel=0.1)
    assert sum(setting.quotas.values()) == setting.gpus
    assert all(quota % 8 == 0 for quota in setting.quotas.values())
    assert setting.quotas["b"] > 2 * setting.quotas["a"]


def test_a_job_larger_than_its_quota_runs_smaller_and_longer(tmp_path: Path) -> None:
    rows = "0,a,64,0,1,m,60,1\n" + "".join(f"{i},b,8,{60 * i},1,m,60,1\n" for i in range(1, 30))
    setting = set_up(read_trace(a_file(tmp_path, MINUTES + rows)), 2.0)

    big = next(job for job in setting.jobs if job.team == "a")
    assert big.gpus == setting.quotas["a"] < 64
    assert big.work == 64 * HOUR
    assert setting.shrunk == 1


def test_a_wide_job_is_full_nodes_and_a_rest(tmp_path: Path) -> None:
    trace = read_trace(a_file(tmp_path, MINUTES + "0,a,20,0,1,m,60,1\n"))
    spec = a_spec(trace.jobs[0], 0)

    assert parts(20) == [8, 8, 4]
    assert [(role.count, role.milli_gpu) for role in spec.roles] == [(2, 8000), (1, 4000)]
