"""What is free and held: the capacity map, its figures, and the lists of the start page."""

from __future__ import annotations

import re
from typing import Any

import pytest

from gpucommons.scheduler import models
from gpucommons.scheduler.pages.present.capacity import capacity_map, figures, simulated
from gpucommons.scheduler.pages.present.overview import mine, pool_lines, team_lines
from gpucommons.scheduler.pages.present.waiting import waiting_rows


def _figures(cluster: Any, report: models.Report | None) -> dict[str, tuple[str, str, str]]:
    waiting = waiting_rows(cluster.jobs().jobs, [cluster.lease()], cluster.NOW)
    found = figures(cluster.nodes(), waiting, report)
    return {figure.key: (figure.value, figure.of, figure.label) for figure in found}


def test_figures_are_those_of_the_holds(cluster: Any) -> None:
    assert _figures(cluster, cluster.report()) == {
        "held": ("28½", "of 32", "GPUs held"),
        "used": ("81 %", "", "of held hours really used, last hour"),
        "idle": ("2", "", "held idle"),
        "borrowed": ("9", "", "borrowed"),
        "waiting": ("4", "", "waiting, longest 18 min"),
    }


def test_missing_telemetry_is_neither_use_nor_idleness(cluster: Any) -> None:
    known = cluster.report().rows[0]
    unknown = known.model_copy(update={"used_milli_gpu_h": None})

    blind = models.Report(from_ms=0, to_ms=1, rows=[unknown])
    partly = models.Report(from_ms=0, to_ms=1, rows=[unknown, known])

    assert _figures(cluster, None)["used"][0] == "–"
    assert _figures(cluster, blind)["used"][0] == "–"
    assert _figures(cluster, partly)["used"][0] == "81 %"


def test_slices_grow_from_the_bottom_to_scale(cluster: Any) -> None:
    field = capacity_map(cluster.nodes(), cluster.pools().pools)[0]
    cell = field.boxes[1].cells[0]

    assert [(part.shown_as, part.top, part.height) for part in cell.parts] == [
        ("notebook", 50.0, 50.0),
        ("notebook", 25.0, 25.0),
    ]
    assert cell.label.startswith("GPU 0, A100-40: ½ notebook, vision · user-b")
    assert cell.label.endswith("¼ free")


def test_an_unhealthy_gpu_is_named_with_who_is_still_on_it(cluster: Any) -> None:
    nodes = cluster.nodes()
    devices = nodes.nodes[1].devices
    lost = models.UnhealthyView(text="GPU is lost", since_ms=1000)
    well = lost.model_copy(update={"well_since_ms": 2000})
    for index, unhealthy in ((0, lost), (4, well)):
        devices[index] = devices[index].model_copy(update={"unhealthy": unhealthy})
    box = capacity_map(nodes, cluster.pools().pools)[0].boxes[1]
    held, free = box.unhealthy

    assert (held.index, held.text, held.since_ms, held.is_well) == (0, "GPU is lost", 1000, False)
    assert held.holders.startswith("½ notebook, vision · user-b")
    assert (free.index, free.is_well, free.holders) == (4, True, "")
    assert [cell.is_unhealthy for cell in box.cells] == [True, *[False] * 3, True, *[False] * 3]
    assert box.cells[4].label == "GPU 4, A100-40: takes nothing new: GPU is lost"


def test_a_pool_names_its_isolation_and_what_is_free(cluster: Any) -> None:
    field = capacity_map(cluster.nodes(), cluster.pools().pools)[0]

    assert field.detail == "3½ of 32 free · isolation: none"
    assert "Memory is not limited" in field.isolation


def test_gpus_on_nodes_that_take_nothing_new_are_counted_apart(cluster: Any) -> None:
    pool = cluster.pools().pools[0]
    none = pool.model_copy(update={"total_milli_gpu": 0, "out_milli_gpu": 4000})
    some = pool.model_copy(update={"out_milli_gpu": 1000})
    details = [capacity_map(cluster.nodes(), [one])[0].detail for one in (none, some)]

    assert details == [
        "4 GPUs not to give out · isolation: none",
        "3½ of 32 free · 1 GPU not to give out · isolation: none",
    ]


def test_a_free_gpu_says_so(cluster: Any) -> None:
    field = capacity_map(cluster.nodes(), cluster.pools().pools)[0]

    assert field.boxes[1].cells[4].label == "GPU 4, A100-40: free"


def test_of_a_pool_whose_configuration_is_held_back_nothing_is_said_but_that(cluster: Any) -> None:
    (field,) = capacity_map(cluster.nodes(), [])

    assert field.detail == "not in force yet"


def test_pools_without_gpus_come_last_and_show_cpus(cluster: Any) -> None:
    cpu = models.NodeView(id="c1", pool="aa-cpu", state="lost", cpu_milli=64_000, memory_mib=1)
    nodes = models.NodeList(nodes=[cpu, *cluster.nodes().nodes], now_ms=cluster.NOW)
    known = cluster.pools().pools
    without = {"name": "aa-cpu", "total_milli_gpu": 0, "out_milli_gpu": 0}

    fields = capacity_map(nodes, [*known, known[0].model_copy(update=without)])

    assert [field.pool for field in fields] == ["a100", "aa-cpu"]
    assert fields[1].detail == "no GPUs"
    assert (fields[1].boxes[0].detail, fields[1].boxes[0].state) == (
        "64 cores to give out",
        "not heard of",
    )
    shared = cpu.model_copy(update={"cpu_milli": 4000, "cpu_is_shared": True})
    (field,) = capacity_map(models.NodeList(nodes=[shared], now_ms=cluster.NOW), [])
    assert field.boxes[0].detail == "4 cores to give out, shared: its machine may have fewer"


def test_one_simulated_gpu_labels_the_page(cluster: Any) -> None:
    assert simulated(cluster.nodes())
    assert not simulated(models.NodeList(nodes=[], now_ms=0))


def test_the_start_page_says_what_is_free_for_my_team(cluster: Any) -> None:
    offer = cluster.offers().offers[0].model_copy(update={"fixed_used_milli_gpu": 1500})

    lines = team_lines(cluster.teams().teams, cluster.pools().pools, [offer])

    assert [(line.team, line.notebooks, line.training) for line in lines] == [
        ("vision", "½ of 2 notebook GPUs free", "4 of 4 guaranteed in use, 2 borrowed")
    ]


def test_the_start_page_says_that_what_is_free_is_lent(cluster: Any) -> None:
    offer = cluster.offers().offers[0]
    sizes = [offer.sizes[1].model_copy(update={"lent": True})]
    lent = offer.model_copy(update={"sizes": sizes, "win_back_s": 20, "fixed_used_milli_gpu": 0})

    (line,) = team_lines(cluster.teams().teams, cluster.pools().pools, [lent])

    assert line.notebooks == (
        "2 of 2 notebook GPUs free within 20 s: training borrows them until then"
    )


def test_the_start_page_says_that_a_part_of_what_is_free_is_lent(cluster: Any) -> None:
    offer = cluster.offers().offers[0]
    half = offer.sizes[0].model_copy(update={"milli_gpu": 500, "availability": "free"})
    whole = half.model_copy(update={"milli_gpu": 1000, "availability": "wait", "lent": True})
    changes = {"sizes": [half, whole], "win_back_s": 20, "fixed_used_milli_gpu": 0}

    (line,) = team_lines(
        cluster.teams().teams, cluster.pools().pools, [offer.model_copy(update=changes)]
    )

    assert line.notebooks == (
        "2 of 2 notebook GPUs free, up to ½ at once; training borrows the rest and gives it back within 20 s"
    )


def test_the_bar_is_of_what_the_sentence_above_it_says(cluster: Any) -> None:
    full, half, none = (
        team_lines(
            cluster.teams().teams,
            cluster.pools().pools,
            [cluster.offers().offers[0].model_copy(update={"fixed_used_milli_gpu": used})],
        )[0]
        for used in (2000, 1000, 0)
    )

    assert full.notebooks == "0 of 2 notebook GPUs free"
    assert [(part.shown_as, part.width) for part in full.segments] == [("notebook", 100)]
    assert [part.width for part in half.segments] == [50]
    assert (none.segments, none.in_use) == ((), "0 of 2 notebook GPUs")


def test_a_team_without_notebook_gpus_is_told_what_there_is_instead(cluster: Any) -> None:
    team = cluster.teams().teams[0]
    use = team.use[0].model_copy(update={"borrowed_milli_gpu": 0})
    unfunded = models.QuotaModel(over_quota_weight=1)
    closed = models.QuotaModel(over_quota_weight=0)
    uses = [
        use.model_copy(update={"quota": unfunded}),
        use.model_copy(update={"quota": closed}),
        use.model_copy(update={"pool": "cpu", "quota": unfunded}),
    ]

    lines = team_lines([team.model_copy(update={"use": uses})], cluster.pools().pools, [])

    assert [(line.notebooks, line.training) for line in lines] == [
        (
            "No notebook GPUs",
            "for notebooks, ask your admin for fixed quota; training may borrow what is idle",
        ),
        ("No notebook GPUs", "for GPUs of this pool, ask your admin for quota"),
        ("No notebook GPUs", "This pool has no GPUs: jobs that need none run here."),
    ]
    assert [line.in_use for line in lines] == ["", "", ""]


def test_pools_say_when_the_next_gpu_frees_only_when_none_is_free(cluster: Any) -> None:
    pool = cluster.pools().pools[0]
    full = pool.model_copy(update={"free_milli_gpu": 0, "next_free_ms": 7})
    some = pool.model_copy(update={"next_free_ms": 7})
    cpu = pool.model_copy(update={"total_milli_gpu": 0})

    assert [line.next_free_ms for line in pool_lines([full, some, cpu])] == [7, None]


@pytest.mark.parametrize(
    ("at_once", "lent", "said"),
    [
        ([250], [500], "Notebooks of vision start at once with up to ¼ of it: "),
        ([], [250, 500], "Nothing of it is for notebooks of vision now: "),
        ([500], [], ""),
        # More than is free anywhere: nobody is misled.
        ([500], [1000], ""),
    ],
)
def test_a_pool_says_for_whom_its_free_gpus_are_not(
    cluster: Any, at_once: list[int], lent: list[int], said: str
) -> None:
    offer, pool = cluster.offers().offers[0], cluster.pools().pools[0]
    one = offer.sizes[0]
    free = [one.model_copy(update={"milli_gpu": n, "availability": "free"}) for n in at_once]
    back = [
        one.model_copy(update={"milli_gpu": n, "availability": "wait", "lent": True}) for n in lent
    ]
    mine = offer.model_copy(update={"sizes": [*free, *back], "pool": pool.name})
    half = pool.model_copy(update={"free_milli_gpu": 500})

    (line,) = pool_lines([half], [mine])

    assert line.for_whom.startswith(said)
    assert bool(line.for_whom) == bool(said)


def test_only_what_is_mine_and_lives_is_listed(cluster: Any) -> None:
    leases = [
        cluster.lease(),
        cluster.lease(state="ended"),
        cluster.lease(user="bob"),
        cluster.lease(state="active", server_name="lab2", position=None),
        cluster.lease(state="active", position=None),
    ]

    found = mine("alice", leases, cluster.jobs().jobs, lab_url=lambda server: f"/lab/{server}")

    assert [(item.name, item.kind, item.state, item.href) for item in found] == [
        ("notebook", "ticket", "1st in line", f"ticket/{cluster.TICKET}"),
        ("lab2", "notebook", "started", "/lab/lab2"),
        # Not "notebook notebook".
        ("notebook", "", "started", "/lab/"),
        ("digits-7", "job", "running", None),
    ]


async def test_admins_read_what_becomes_of_nodes_that_are_asked_for(
    visit: Any, scheduler: Any
) -> None:
    text = _plain(await (await visit("admin")).page("admin"))

    assert "Pool cloud 1 of at most 4 nodes take work." in text
    assert (
        "2 nodes are asked for, the first since 07:53 UTC; it should take work at 07:57 UTC."
        in text
    )
    assert "late 1 node should be there by now: the log of the autoscaler says why" in text
    assert "1 node is in the cluster and offers no GPUs yet: cloud-7f9c." in text
    assert "The cluster&#39;s autoscaler works on it." in text
    assert "Pool h100 2 of at most 2 nodes take work. No node is asked for" in text
    assert "refused No node can be asked for in pool spot, as the cluster refuses" in text
    assert "exceeded quota: pods 1 node is needed since 07:59 UTC." in text
    german = await (await visit("admin")).get("admin", headers={"Accept-Language": "de"})
    assert "2 Knoten sind angefordert, der erste seit 07:53" in _plain(german.text)

    asked = scheduler.answers["GET /v1/growth"]
    asked.pools[0] = asked.pools[0].model_copy(update={"asked": None})
    text = _plain(await (await visit("admin")).page("admin"))
    assert "nobody knows yet which nodes are needed" in text


async def test_others_are_neither_told_of_growth_nor_is_it_asked_for(
    visit: Any, scheduler: Any
) -> None:
    text = await (await visit("lead")).page("admin")

    assert "Nodes by demand" not in text
    assert "/v1/growth" not in [path for _, path, _, _ in scheduler.asked]


def _plain(page: str) -> str:
    return " ".join(re.sub(r"<[^>]+>", "", page).split())
