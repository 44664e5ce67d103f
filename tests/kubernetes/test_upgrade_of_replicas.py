"""An upgrade over a migration, on one PostgreSQL: replicas of before and after it take turns, and nothing is lost.

Before is the code of an earlier commit of this history.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psycopg
import pytest
from kubernetes import client

from gpucommons.scheduler import models
from gpucommons.scheduler.client import calls
from gpucommons.scheduler.errors import UnknownWorkload
from gpucommons.scheduler.store.sql.engine import HEAD
from tests.kubernetes.api import is_configured
from tests.kubernetes.cluster.simulated_nodes import SimulatedNodes
from tests.kubernetes.earlier_release import unpack
from tests.kubernetes.replicas import Replica, Replicas, replicas_of, submit, wait_for


@pytest.fixture(scope="module")
def before(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the packages of then."""
    folder = tmp_path_factory.mktemp("before")
    unpack(folder / "gpucommons", "gpu", "scheduler")
    return folder


@pytest.fixture
def shared(
    database: str, kubeconfig: Path, namespace: str, kwok_nodes: SimulatedNodes
) -> Iterator[Replicas]:
    labels = {"gpucommons.test/replicas": namespace}
    kwok_nodes(1, gpus=4, labels=labels)
    with replicas_of(
        database=database, kubeconfig=kubeconfig, namespace=namespace, node_labels=labels
    ) as found:
        yield found


def tables(database: str) -> str:
    """The revision that they have."""
    with psycopg.connect(database) as connection:
        (found,) = connection.execute("SELECT version_num FROM alembic_version").fetchone() or ("",)
    return str(found)


def is_(replica: Replica, name: str, state: str) -> bool:
    """A replica reads a little later what another one has taken."""
    with suppress(UnknownWorkload):
        return replica.job(name).state == state
    return False


def runs(replica: Replica, name: str) -> bool:
    return is_(replica, name, "running")


def in_line(replica: Replica, server: str) -> str:
    """A ticket for a notebook with a GPU."""
    asked = models.LeaseRequest(server_name=server, pool="train", milli_gpu=1000)
    return replica.client.send(calls.wait_in_line(asked)).id


def state_of(replica: Replica, ticket: str) -> str:
    return replica.client.send(calls.lease(ticket)).state


def end(replica: Replica) -> None:
    """As Kubernetes ends a pod of the old release."""
    replica.signal(signal.SIGTERM)
    assert replica.process.wait(30) == 0


def an_old_one_says_why_not(shared: Replicas, before: Path) -> None:
    """Back over the migration it neither changes anything nor leads, and the new one goes on."""
    leads = shared.leader()
    back = shared.start("back", code=before, answers=False)
    wait_for(lambda: "A newer version of GPU Commons" in back.log(), "it says so", back)
    assert shared.leader() is leads
    assert tables(shared.database) == HEAD


def test_replicas_of_two_releases_take_turns_on_one_postgresql(
    shared: Replicas, before: Path, api: client.ApiClient
) -> None:
    first = shared.start("before-a", code=before)
    wait_for(lambda: shared.leader() is first, "a replica of before leads", first)
    second = shared.start("before-b", code=before)
    wait_for(lambda: is_configured(first.client), "the configuration is in force", first)
    old_tables = tables(shared.database)
    assert old_tables < HEAD

    running = submit(first)
    wait_for(lambda: runs(first, running), "a job runs", first)
    # One notebook's worth of GPU, of which a second one waits for the first.
    held, ticket = (in_line(first, server) for server in ("", "second"))
    wait_for(lambda: state_of(first, held) == "granted", "the first is granted", first)
    wait_for(lambda: state_of(first, ticket) == "waiting", "the second waits", first)
    big = submit(first, "waits", gpus=3)

    # The first replica of the new release makes its tables under the others' hands, and follows.
    new = shared.start("after-a")
    assert tables(shared.database) == HEAD
    assert shared.leader() is first
    wait_for(lambda: runs(new, running), "the new one shows what runs", new)
    between = submit(new, "between", gpus=3)
    wait_for(lambda: is_(first, between, "queued"), "the old one has it", first, new)
    first.client.send(calls.cancel(between))
    wait_for(lambda: is_(new, between, "cancelled"), "and steers it", first, new)

    end(second)
    end(first)
    took_s = wait_for(lambda: shared.leader() is new, "the new one leads", new)
    assert took_s < 15
    assert runs(new, running)
    assert len(new.job(running).attempts) == 1
    # A grant that nobody comes for ends by itself, on a slow machine meanwhile.
    assert state_of(new, ticket) in ("waiting", "granted")
    assert new.job(big).state == "queued"
    new.client.send(calls.end_lease(held, models.EndReport(why="left")))
    wait_for(lambda: state_of(new, ticket) == "granted", "its turn", new)

    an_old_one_says_why_not(shared, before)
    assert runs(new, running)
    jobs = client.BatchV1Api(api).list_namespaced_job(shared.namespace).items
    own = [one for one in jobs if new.job(running).id in str(one.metadata.labels)]
    assert len(own) == 1


def test_a_rollback_goes_on_from_the_backup_of_its_time(
    shared: Replicas, before: Path, postgresql: str
) -> None:
    """What ran when the backup was made runs on under the old release, as the documents say."""
    first = shared.start("before", code=before)
    wait_for(lambda: is_configured(first.client), "the configuration is in force", first)
    running = submit(first)
    wait_for(lambda: runs(first, running), "a job runs", first)
    kept = shared.folder / "backup"
    shared.gpucommons("backup", "--store-url", shared.database, kept, code=before)
    end(first)
    new = shared.start("after")
    wait_for(lambda: shared.leader() is new, "the new one leads", new)
    assert runs(new, running)
    end(new)

    with psycopg.connect(postgresql, autocommit=True) as connection:
        name = f"back_{abs(hash(shared.namespace))}"
        connection.execute(f"CREATE DATABASE {name}")  # type: ignore[arg-type] # of ours
    shared.database = postgresql.replace("/postgres?", f"/{name}?")
    shared.gpucommons("restore", "--store-url", shared.database, kept, code=before)
    back = shared.start("back", code=before)
    wait_for(lambda: shared.leader() is back, "the old one leads again", back)
    wait_for(lambda: runs(back, running), "the job is known, and runs", back)
    assert len(back.job(running).attempts) == 1
