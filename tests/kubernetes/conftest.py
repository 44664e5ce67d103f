"""The fixtures of this folder, and the marker of its tests."""

import os
from pathlib import Path

import pytest
from databases import database, postgresql  # noqa: F401 as below

from tests.kubernetes.fixtures import (  # noqa: F401 fixtures are found by their names
    api,
    attempts_api,
    cluster,
    kubeconfig,
    kwok_nodes,
    namespace,
    own_cluster,
    own_nodes,
    python_image,
    real_node,
    restricted_namespace,
    two_real_nodes,
)

ON_A_CLUSTER = {"cluster", "own_cluster", "older_cluster"}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what uses a cluster, so that `make test` runs it alone and once."""
    folder = str(Path(__file__).parent) + os.sep
    for item in items:
        # Elsewhere a "cluster" is a value of the scheduler's.
        here = str(item.path).startswith(folder)
        if here and ON_A_CLUSTER.intersection(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.kubernetes)
