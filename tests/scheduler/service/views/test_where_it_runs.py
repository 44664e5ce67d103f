"""In which pool an attempt ran, also when its node is gone."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from gpucommons.scheduler.service.views.where_it_runs import executor_of, pool_of_attempt

POOLS = {"a": SimpleNamespace(executor="local"), "b": SimpleNamespace(executor="slurm")}
CLUSTER: Any = SimpleNamespace(nodes={"n2": SimpleNamespace(pool="b")}, pools=POOLS)


@pytest.mark.parametrize(
    ("had", "might_have", "pool", "executor"),
    [
        # Of a gang the first node is gone; of others the only one is.
        (["n1", "n2"], ("a", "b"), "b", "slurm"),
        (["n1"], ("b",), "b", "slurm"),
        (["n1"], ("a", "b"), None, "local"),
        (["n1"], ("gone",), "gone", None),
    ],
)
def test_a_pool_is_named_only_where_it_is_known(
    had: list[str], might_have: tuple[str, ...], pool: str | None, executor: str | None
) -> None:
    workload: Any = SimpleNamespace(spec=SimpleNamespace(pools=might_have))
    attempt: Any = SimpleNamespace(placements=[SimpleNamespace(node_id=one) for one in had])
    assert pool_of_attempt(CLUSTER, workload, attempt) == pool
    assert executor_of(CLUSTER, workload, attempt) == executor
