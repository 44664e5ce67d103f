"""The packing benchmark reads traces strictly and measures what it says."""

import json
from pathlib import Path

import pytest

from benchmarks.packing.__main__ import main
from benchmarks.packing.arrivals import arrivals
from benchmarks.packing.baselines import BestFit
from benchmarks.packing.inflation import POLICIES, rows_of
from benchmarks.packing.traces import BadTrace, TraceNode, read_nodes, read_pods
from gpucommons.scheduler.core.packing.asks import Ask
from gpucommons.scheduler.core.packing.score_board import Board

NODES = "sn,cpu_milli,memory_mib,gpu,model\nn0,64000,262144,2,P100\nn1,96000,393216,8,G2\n"
PODS = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec\n"


def written(folder: Path, text: str) -> Path:
    path = folder / "list.csv"
    path.write_text(text, encoding="utf-8")
    return path


def test_shares_groups_and_kinds_are_read(tmp_path: Path) -> None:
    pods = read_pods(written(tmp_path, PODS + "a,1,2,1,460,T4|P100\nb,3,4,0,0,\nc,5,6,8,1000,\n"))

    assert (
        Ask(1, 460, 1, 2, ("P100", "T4")),
        Ask(0, 0, 3, 4),
        Ask(8, 1000, 5, 6),
    ) == pods


def test_a_list_without_kinds_is_read(tmp_path: Path) -> None:
    pods = read_pods(
        written(tmp_path, "name,cpu_milli,memory_mib,num_gpu,gpu_milli\na,1,2,1,460\n")
    )

    assert (Ask(1, 460, 1, 2),) == pods


@pytest.mark.parametrize(
    ("line", "word"),
    [
        ("a,x,2,1,460,", "cpu_milli"),
        ("a,1,2,1,1001,", "gpu_milli"),
        ("a,1,2,-1,460,", "num_gpu"),
        ("a,1,2,2,460,", "several GPUs are whole"),
        ("a,1,2,1,0,", "a share is 1 to 1000"),
        ("a,1", "num_gpu is ''"),
        ("", "no pod asks for a GPU"),
    ],
)
def test_bad_pods_are_refused_with_the_line(tmp_path: Path, line: str, word: str) -> None:
    with pytest.raises(BadTrace, match=word):
        read_pods(written(tmp_path, PODS + line))


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("sn,cpu\n", "memory_mib"),
        ("sn,cpu_milli,memory_mib,gpu,model\nn,1,1,0,\n", "no node with a GPU"),
        ("sn,cpu_milli,memory_mib,gpu,model\nn,1,1,9999,T4\n", "gpu is '9999'"),
        ("\x00", "no column"),
    ],
)
def test_bad_nodes_are_refused(tmp_path: Path, text: str, word: str) -> None:
    with pytest.raises(BadTrace, match=word):
        read_nodes(written(tmp_path, text))


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadTrace, match=r"none\.csv"):
        read_nodes(tmp_path / "none.csv")


def test_arrivals_end_when_demand_reaches_the_cluster() -> None:
    pods = [Ask(1, 500, 1, 1)] * 3 + [Ask(0, 0, 1, 1)]

    coming = arrivals(pods, installed=10_000, seed=42)

    asked = [pod.milli_gpu for pod in coming]
    assert 10_000 <= sum(asked) < 10_500
    assert sum(asked[:-1]) < 10_000
    assert coming == arrivals(pods, installed=10_000, seed=42)
    assert coming != arrivals(pods, installed=10_000, seed=43)


def test_best_fit_leaves_least() -> None:
    nodes = [
        TraceNode(name="large", cpu_milli=64000, memory_mib=9, devices=4, kind="a"),
        TraceNode(name="small", cpu_milli=64000, memory_mib=9, devices=2, kind="a"),
    ]
    board = Board(rows_of(nodes), BestFit())

    assert board.best(Ask(1, 500, 1000, 1)) == 1
    assert board.scores(Ask(1, 500, 1000, 1)).tolist() == [
        int(100 - 50 * (63 / 128 + 3.5 / 8)),
        int(100 - 50 * (63 / 128 + 1.5 / 8)),
    ]


def test_every_policy_reports_all_fields(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    nodes, pods, out = tmp_path / "nodes.csv", tmp_path / "pods.csv", tmp_path / "out.json"
    nodes.write_text(NODES, encoding="utf-8")
    pods.write_text(PODS + "a,1000,100,1,500,\nb,1000,100,1,1000,G2\n", encoding="utf-8")

    code = main(
        f"--nodes {nodes} --pods {pods} --seeds 42-43 --workers 1 --json {out}"
        f" --policies {','.join(POLICIES)}".split()
    )

    lines = [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()]
    assert code == 0
    assert [(policy, seed) for policy in POLICIES for seed in (42, 43)] == [
        (line["policy"], line["seed"]) for line in lines
    ]
    for line in lines:
        assert line["trace"] == "pods"
        assert 0 < line["allocated_percent_at_100"] <= 100
        assert line["decisions_per_second"] > 0
        assert line["moved_percent"] >= 0
    assert "gpucommons" in capsys.readouterr().out


def test_a_bad_file_ends_the_run_with_a_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    nodes = written(tmp_path, "sn\n")

    assert main(["--nodes", str(nodes), "--pods", str(nodes)]) == 2
    assert "no column" in capsys.readouterr().err
