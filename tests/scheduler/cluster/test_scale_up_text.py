"""What the cluster's autoscaler says reaches the pools that may get nodes, once, and goes when it is over."""

from __future__ import annotations

from pathlib import Path

import pytest
from service_world import CONFIG, ServiceWorld

from gpucommons.scheduler.cluster.scale_up_text import ScaleUpText
from gpucommons.scheduler.core.model.types import PoolName
from gpucommons.scheduler.intake import configuration

GPU = PoolName("gpu")
GROWTH = {"max_nodes": 2, "gpus": 4, "cpu_milli": 8000, "memory_mib": 8000}


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ServiceWorld:
    monkeypatch.setattr(configuration, "_GROWS_ON", "fake")
    gpu, cpu = CONFIG["pools"]
    grows = {**gpu, "gpu_kind": "A100-40", "growth": GROWTH}
    return ServiceWorld(tmp_path, config={"pools": [grows, cpu], "teams": CONFIG["teams"]})


def test_it_is_told_when_it_is_news_and_taken_back_when_nobody_says_it(
    world: ServiceWorld,
) -> None:
    said = {GPU: "It works on it."}
    text = ScaleUpText(world.service, lambda: said)
    text.step()
    assert world.cluster.pools[GPU].scale_up_text == "It works on it."
    asked = world.store.last_event_number()
    text.step()
    assert world.store.last_event_number() == asked
    said.clear()
    text.step()
    assert world.cluster.pools[GPU].scale_up_text == ""


def test_a_pool_that_gets_no_nodes_is_told_nothing(world: ServiceWorld) -> None:
    ScaleUpText(world.service, lambda: {PoolName("cpu"): "It works on it."}).step()
    assert world.cluster.pools[PoolName("cpu")].scale_up_text == ""
