"""A backup while all works, and a new database from it, by the commands of the docs."""

from __future__ import annotations

from typing import Any

from benchmarks.tour.person import Person
from benchmarks.tour.timeline import Timeline, check, wait_for
from benchmarks.tour_z2jh import acts
from benchmarks.tour_z2jh.site import Site
from benchmarks.tour_z2jh.values import SYSTEM, of_ours
from deploy.release.contents import version

STATE = "/var/lib/gpucommons"
BACKUP = f"{STATE}/tour.backup"
_SCHEDULER = "deployment/gpucommons-scheduler"


def restored(line: Timeline, site: Site, alice: Person, job: str) -> int:
    """What the backup knew and that is not as it was: pods, and the job that they belong to."""
    kubectl = site.kubectl(SYSTEM)
    kubectl("exec", _SCHEDULER, "--", "gpucommons", "backup", BACKUP)
    before = acts.at_work(site)
    kubectl("scale", _SCHEDULER, "--replicas=0")
    ours = "-lapp.kubernetes.io/component=scheduler"
    kubectl("wait", "pod", "--for=delete", "--timeout=120s", ours)
    kubectl.apply(_pod())
    kubectl("wait", "pod/restore", "--for=condition=Ready", "--timeout=120s")
    kubectl("exec", "restore", "--", "sh", "-c", "mkdir -p lost && mv scheduler.db* lost/")
    said = kubectl("exec", "restore", "--", "gpucommons", "restore", BACKUP)
    kubectl("delete", "pod", "restore", "--now")
    kubectl("scale", _SCHEDULER, "--replicas=1")
    site.await_ours()
    wait_for("the scheduler", site.decides, timeout_s=180)
    wait_for("the job", lambda: acts.state(site, alice, job) == "running", timeout_s=120)
    after = acts.at_work(site)
    lost = sum(after.get(uid) != restarts for uid, restarts in before.items())
    check(bool(alice.server().get("ready")), "the notebook's server is not ready any more")
    first = said.partition(" was restored: ")[2].partition(",")[0]
    line.row(
        "G5", f"backup restored into a new database: {lost} of {len(before)} pods lost; {first}"
    )
    return lost


def _pod() -> dict[str, Any]:
    image = of_ours()["image"]
    mount = {"name": "state", "mountPath": STATE}
    claim = {"name": "state", "persistentVolumeClaim": {"claimName": "gpucommons-state"}}
    container = {
        "name": "restore",
        "image": f"{image['repository']}:{version()}",
        "imagePullPolicy": image["pullPolicy"],
        "command": ["sleep", "3600"],
        "workingDir": STATE,
        "env": [{"name": "GPUCOMMONS_STATE", "value": STATE}],
        "volumeMounts": [mount],
    }
    own = {"runAsUser": 1000, "runAsGroup": 1000, "fsGroup": 1000, "runAsNonRoot": True}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "restore"},
        "spec": {"securityContext": own, "containers": [container], "volumes": [claim]},
    }
