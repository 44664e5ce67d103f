"""Stores and storages to hold against their contracts, with real PostgreSQL and S3 servers."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from databases import (  # noqa: F401 fixtures are found by their names
    database,
    database_with_tables,
    postgresql,
    tables,
)
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
from tests.scheduler.adapters.slurm_rigs import missing_slurm, real_slurm


@pytest.fixture(scope="session")
def file_with_tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("tables") / "store.db"
    open_store(f"sqlite:///{path}").close()
    return path


@pytest.fixture(scope="session")
def real_slurm_conf(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    why = missing_slurm()
    if why:
        (pytest.fail if os.environ.get("REQUIRE_SLURM") else pytest.skip)(f"no real Slurm: {why}")
    with real_slurm(tmp_path_factory.mktemp("slurm")) as conf:
        yield conf


@pytest.fixture(params=["memory", "sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty database, or for tests of ``store`` a copy of one that was opened before: migrations
    take longer than most of these tests."""
    filled = "store" in request.fixturenames
    if request.param == "memory":
        return "memory:"
    if request.param == "sqlite":
        file = tmp_path / "store.db"
        if filled:
            shutil.copy(request.getfixturevalue("file_with_tables"), file)
        return f"sqlite:///{file}"
    return str(request.getfixturevalue("database_with_tables" if filled else "database"))


@pytest.fixture
def store(url: str) -> Iterator[Store]:
    opened = open_store(url)
    yield opened
    opened.close()
