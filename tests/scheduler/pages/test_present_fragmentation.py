"""What is free in pieces, and which notebook keeps a GPU from being whole."""

from __future__ import annotations

from typing import Any

from gpucommons.scheduler.models import DeviceView, HoldView, NodeList, NodeView, UnhealthyView
from gpucommons.scheduler.pages.present.fragmentation import idle_spans_ms, pieces
from gpucommons.scheduler.pages.present.waiting import waiting_rows, with_pieces

MINUTE = 60_000


def held(shown_as: str, milli_gpu: int, **who: Any) -> HoldView:
    return HoldView(team="vision", shown_as=shown_as, offset=0, milli_gpu=milli_gpu, **who)


def node(name: str, *devices: list[HoldView], state: str = "ready", pool: str = "a100") -> NodeView:
    return NodeView(
        id=name,
        pool=pool,
        state=state,
        cpu_milli=1,
        memory_mib=1,
        devices=[
            DeviceView(
                id=f"{name}-{index}",
                index=index,
                kind="A100-40",
                memory_mib=1,
                simulated=True,
                holds=holds,
            )
            for index, holds in enumerate(devices)
        ],
    )


def nodes(*views: NodeView) -> NodeList:
    return NodeList(nodes=list(views), now_ms=0)


ALICE = held("notebook-idle", 500, owner="alice", workload_id="lease-a")
BOB = held("notebook-idle", 500, owner="bob", workload_id="lease-b")
TRAIN = held("borrowed", 250, name="train-3")


def test_each_piece_says_who_lies_beside_it() -> None:
    found = pieces(
        nodes(node("gpu-01", [ALICE, TRAIN], [TRAIN]), node("gpu-02", [], [])),
        {"lease-a": 35 * MINUTE},
        ["a100"],
    )

    assert [(row.where, row.free, row.beside) for row in found.rows] == [
        ("gpu-02", "2 GPUs free", ""),
        ("gpu-01, GPU 1", "¾ free", "train-3 ¼"),
        ("gpu-01, GPU 0", "¼ free", "alice's notebook ½ (idle 35 min), train-3 ¼"),
    ]
    assert found.way == ""


def test_the_longest_idle_notebook_that_is_alone_on_its_gpu_is_named() -> None:
    found = pieces(
        nodes(node("gpu-01", [ALICE], [BOB])),
        {"lease-a": 35 * MINUTE, "lease-b": 50 * MINUTE},
        ["a100"],
    )

    assert found.way == "Moving bob's notebook (idle 50 min) frees a whole GPU."


def test_a_notebook_in_use_and_a_job_are_not_asked_to_move() -> None:
    busy = held("notebook", 500, owner="carol")

    assert pieces(nodes(node("gpu-01", [busy], [TRAIN])), {}, ["a100"]).way == ""


def test_names_that_are_hidden_stay_hidden() -> None:
    hidden = held("notebook-idle", 500)
    job = held("borrowed", 250)

    found = pieces(nodes(node("gpu-01", [hidden], [job])), {}, ["a100"])

    assert [row.beside for row in found.rows] == [
        "a job of vision ¼",
        "someone's notebook ½ (idle)",
    ]
    assert found.way == "Moving someone's notebook (idle) frees a whole GPU."


def test_only_nodes_that_take_work_in_these_pools_count() -> None:
    found = pieces(
        nodes(node("gpu-01", [ALICE], state="cordoned"), node("gpu-02", [BOB], pool="h100")),
        {},
        ["a100"],
    )

    assert (found.rows, found.more, found.way) == ((), 0, "")


def test_an_unhealthy_gpu_is_no_piece() -> None:
    found = node("gpu-01", [ALICE])
    lost = UnhealthyView(text="GPU is lost", since_ms=0)
    found.devices[0] = found.devices[0].model_copy(update={"unhealthy": lost})

    assert pieces(nodes(found), {}, ["a100"]).rows == ()


def test_of_many_pieces_the_largest_are_shown_and_the_rest_counted() -> None:
    found = pieces(nodes(*(node(f"gpu-{n:02}", [TRAIN]) for n in range(20))), {}, ["a100"])

    assert (len(found.rows), found.more) == (12, 8)


def test_only_rows_of_fragmentation_have_pieces(cluster: Any) -> None:
    rows = waiting_rows(cluster.jobs().jobs, [cluster.lease()], cluster.NOW)

    found = with_pieces(rows, lambda pools: pieces(cluster.nodes(), {}, pools))

    assert [row.reason_class for row in found if row.pieces] == ["fragmentation"]


def test_idle_spans_are_by_lease_and_only_of_idle_ones(cluster: Any) -> None:
    spans = idle_spans_ms(cluster.activities())

    assert list(spans.values()) == [41 * MINUTE]
    assert idle_spans_ms(None) == {}
