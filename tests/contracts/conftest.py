"""Stores and storages to hold against their contracts, with real PostgreSQL and S3 servers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from databases import database, postgresql  # noqa: F401 fixtures are found by their names
from versitygw import s3, s3_storage  # noqa: F401 as above

from gpucommons.scheduler.store.base import Store
from gpucommons.scheduler.store.opening import open_store
from tests.kubernetes.fixtures import (  # noqa: F401 as above
    api,
    attempts_api,
    cluster,
    kubeconfig,
    namespace,
    python_image,
    real_node,
    two_real_nodes,
)


@pytest.fixture(params=["memory", "sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "memory":
        return "memory:"
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/store.db"
    return str(request.getfixturevalue("database"))


@pytest.fixture
def store(url: str) -> Iterator[Store]:
    opened = open_store(url)
    yield opened
    opened.close()
