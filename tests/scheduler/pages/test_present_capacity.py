"""The capacity map is drawn to scale, and its figures add up."""

from __future__ import annotations

from typing import Any

from gpucommons.scheduler import models
from gpucommons.scheduler.pages.present.capacity import capacity_map, figures, simulated
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


def test_pools_without_gpus_come_last_and_show_cpus(cluster: Any) -> None:
    cpu = models.NodeView(id="c1", pool="aa-cpu", state="lost", cpu_milli=64_000, memory_mib=1)
    nodes = models.NodeList(nodes=[cpu, *cluster.nodes().nodes], now_ms=cluster.NOW)

    fields = capacity_map(nodes, cluster.pools().pools)

    assert [field.pool for field in fields] == ["a100", "aa-cpu"]
    assert fields[1].detail == "no GPUs"
    assert (fields[1].boxes[0].detail, fields[1].boxes[0].state) == (
        "64 cores to give out",
        "not heard of",
    )


def test_one_simulated_gpu_labels_the_page(cluster: Any) -> None:
    assert simulated(cluster.nodes())
    assert not simulated(models.NodeList(nodes=[], now_ms=0))
