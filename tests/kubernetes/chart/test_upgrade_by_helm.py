"""Helm's own upgrade and rollback of three replicas on one PostgreSQL, with people at work.

It starts from the chart, the code and the tables of an earlier commit. The schedulers are real pods of
real nodes; the jobs' nodes are simulated, as nothing here is about what runs in a job.
"""

import base64
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from kubernetes import client

from gpucommons.scheduler.store.sql.engine import HEAD
from tests.kubernetes.api import wait_for
from tests.kubernetes.attempts_api import gateway
from tests.kubernetes.chart.chart import CHART
from tests.kubernetes.chart.chart_release import JOBS, NAMESPACE, Release, room_for_release
from tests.kubernetes.chart.database_for_pods import reachable
from tests.kubernetes.chart.played_hub import play_hub
from tests.kubernetes.chart.work_meanwhile import Submitter
from tests.kubernetes.cluster.cluster import Cluster
from tests.kubernetes.cluster.simulated_nodes import SimulatedNodes
from tests.kubernetes.earlier_release import unpack
from tests.kubernetes.fixtures import need
from tests.kubernetes.node.real_node import REAL, RealNode
from tests.kubernetes.test_upgrade_of_replicas import tables
from tests.kubernetes.toolchain.images import PARTS, PREFIX, PYTHON

pytestmark = pytest.mark.timeout(1500)
REPLICAS = 3
#: More than the jobs that were just cancelled still hold: none of the next waits for one.
GPUS = 64
#: Told to admins: nothing is decided for so long at most.
PAUSE_S = 15
SCHEDULER = "deployment/gpucommons-scheduler"
_PYTHON = f"python{sys.version_info.major}.{sys.version_info.minor}"
AUTHORITIES = f"/{PREFIX}/lib/{_PYTHON}/site-packages/certifi/cacert.pem"
IMAGE = PYTHON.rpartition(":")[0]
BEFORE, NOW = "before", PYTHON.rpartition(":")[2]
POOL = {"gpucommons.test/pool": "helm"}


@pytest.fixture
def earlier(cluster: Cluster, own_nodes: list[RealNode], python_image: str, tmp_path: Path) -> Path:
    """The folder of the earlier commit; every real node has an image of its code."""
    folder = unpack(tmp_path / "before", "deploy/helm", *PARTS)
    cluster.import_python_image(root=folder, reference=f"{IMAGE}:{BEFORE}")
    return folder


@dataclass(frozen=True)
class Upgraded:
    """The release, and what is asked of it."""

    release: Release
    database: str
    options: list[str]

    def upgrade(self, chart: Path, tag: str, **more: Any) -> None:
        """As an admin does it, and until all replicas are the new ones."""
        values = self.release.values(**{"image.tag": tag, **more})
        self.release.helm("upgrade", "--install", str(chart), *values, *self.options)
        self.rolled_out()

    def roll_back(self, revision: int) -> None:
        self.release.helm("rollback", str(revision))

    def rolled_out(self) -> None:
        self.release.kubectl("rollout", "status", SCHEDULER, "--timeout=600s")

    def logs(self) -> str:
        """Of all replicas that are there, and of those that ended and are started again."""
        ours = ["-l", "app.kubernetes.io/component=scheduler", "--prefix", "--tail=50"]
        found = [self.release.kubectl.try_("logs", *ours, *more) for more in ([], ["--previous"])]
        return "\n".join(one.stdout for one in found)

    def submitter(self) -> Submitter:
        """A service that may submit for everyone, at the Service of the chart."""
        data = self.release.kubectl.get("secret", "gpucommons-hub-tokens")["data"]
        spec = self.release.kubectl.get("service", "gpucommons-api")["spec"]
        token = base64.b64decode(data["operator"]).decode()
        return Submitter(f"http://{spec['clusterIP']}:8000", token)

    def attempts(self) -> list[str]:
        """Of each Job of the cluster, whose it is."""
        jobs = self.release.kubectl.get("jobs", "-n", JOBS)["items"]
        return [one["metadata"]["labels"]["gpucommons.io/attempt"] for one in jobs]


@pytest.fixture
def url_for_pods(api: client.ApiClient, real_node: str, database: str) -> Iterator[str]:
    """The database, as pods of the real nodes reach it."""
    with reachable(database, gateway(api, real_node)) as url:
        yield url


@pytest.fixture
def upgraded(
    kubeconfig: Path, earlier: Path, database: str, url_for_pods: str, kwok_nodes: SimulatedNodes
) -> Iterator[Upgraded]:
    """The earlier release, installed and at work."""
    need("helm", "kubectl")
    kwok_nodes(1, gpus=GPUS, labels=POOL)
    with room_for_release(kubeconfig) as release:
        kubectl = release.kubectl
        kubectl("create", "namespace", NAMESPACE)
        kubectl("create", "secret", "generic", "database", f"--from-literal=url={url_for_pods}")
        found = Upgraded(release, database, release.values(**given()))
        values = release.values(**{"image.tag": BEFORE})
        chart = earlier / "deploy/helm/gpucommons"
        release.helm("install", str(chart), *values, *found.options)
        node = kubectl.get("nodes", "-l", f"{REAL}=true")["items"][0]["metadata"]["name"]
        play_hub(release, node, PYTHON)
        found.rolled_out()
        yield found


def given() -> dict[str, Any]:
    """What the admin decides: three replicas on a PostgreSQL."""
    quota = {"gpu": {"guaranteed_milli_gpu": GPUS * 1000}}
    # Links are made of them; no pod of these nodes follows one.
    keys = {"AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "x", "AWS_REGION": "none"}
    keys["AWS_ENDPOINT_URL"] = "http://127.0.0.1:9"
    # The image has no authorities of a system, without which no client of a storage is made.
    keys["SSL_CERT_FILE"] = AUTHORITIES
    return {
        "image.repository": IMAGE,
        "image.pullPolicy": "Never",
        "database": {"kind": "postgresql", "postgresql": {"secret": "database"}},
        "storage": {"kind": "object", "object": {"url": "s3://jobs/test"}},
        "scheduler.replicas": REPLICAS,
        # No process would be behind a pod of a simulated node.
        "scheduler.nodeSelector": {REAL: "true"},
        "scheduler.extraEnv": [{"name": name, "value": value} for name, value in keys.items()],
        "jobs.pools": {"gpu": {"selector": POOL}},
        "agent.enabled": False,
        "culler.enabled": False,
        "operator.enabled": False,
        "config": {
            "pools": [{"name": "gpu", "executor": "kubernetes", "notice_s": 0, "grace_s": 1}],
            "teams": [{"name": "vision", "members": ["ann"], "quotas": quota}],
        },
    }


def nothing_is_lost_or_doubled(upgraded: Upgraded, at_work: Submitter, running: str) -> None:
    view = at_work.job(running)
    assert view.state == "running"
    assert at_work.doubled() == []
    attempts = upgraded.attempts()
    assert len(attempts) == len(set(attempts)), "one Job for each attempt"
    assert view.attempts[0].id in attempts
    longest_s = max(at_work.decided_s)
    print(f"{len(at_work.decided_s)} jobs, the longest was decided after {longest_s:.1f} s")  # noqa: T201 - the figure of record
    assert longest_s < PAUSE_S


@pytest.fixture
def at_work(upgraded: Upgraded) -> Iterator[Submitter]:
    found = upgraded.submitter()
    yield found
    found.close()


def test_people_work_through_an_upgrade_over_migrations_and_through_rollbacks(
    upgraded: Upgraded, at_work: Submitter
) -> None:
    assert tables(upgraded.database) < HEAD
    running = at_work.submit("runs").name
    wait_for(lambda: at_work.job(running).state == "running", "a job runs")

    with at_work.busy():
        upgraded.upgrade(CHART, NOW)
    assert tables(upgraded.database) == HEAD
    nothing_is_lost_or_doubled(upgraded, at_work, running)

    upgraded.upgrade(CHART, NOW, **{"scheduler.retentionDays": 30})
    with at_work.busy():
        upgraded.roll_back(2)
        upgraded.rolled_out()
    nothing_is_lost_or_doubled(upgraded, at_work, running)

    # Back over the migrations: the older ones say why not, and the newer ones go on.
    with at_work.busy():
        upgraded.roll_back(1)
        wait_for(
            lambda: "A newer version of GPU Commons" in upgraded.logs(), "it is said", seconds=300
        )
    assert tables(upgraded.database) == HEAD
    nothing_is_lost_or_doubled(upgraded, at_work, running)
    with at_work.busy():
        upgraded.upgrade(CHART, NOW)
    nothing_is_lost_or_doubled(upgraded, at_work, running)
