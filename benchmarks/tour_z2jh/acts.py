"""What happens: a notebook and a job that go on through upgrade, rollback and a new installation."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from benchmarks.tour.person import Person
from benchmarks.tour.timeline import Timeline, check, wait_for
from benchmarks.tour_kubernetes.site import JOBS
from benchmarks.tour_z2jh.site import Site
from benchmarks.tour_z2jh.values import HUB, SYSTEM
from gpucommons.scheduler import models
from gpucommons.scheduler.client import SchedulerClient, calls

_NOTEBOOKS = "component=singleuser-server"
#: What a scheduler says of when it took over.
_HANDED_OVER = ("stands by", "takes over", "the API answers")
_UNCHANGED_S = 20
_LONG = "import time\nfor second in range(3600): print(second, flush=True); time.sleep(1)"


def install(line: Timeline, site: Site) -> float:
    """Both releases, until the login page comes and all our parts run."""
    began = time.monotonic()
    site.install_ours()
    site.install_hub()
    site.await_hub()
    site.await_ours()
    wait_for("the scheduler", site.decides, timeout_s=60)
    seconds = time.monotonic() - began
    line.row("G1", f"both charts installed, login page and all parts there: {seconds:.1f} s")
    return round(seconds, 1)


def examine(line: Timeline, site: Site) -> int:
    """What `gpucommons doctor --cluster` says; how many of its lines are not ok."""
    done = site.gpucommons("doctor", "--cluster", "--namespace", SYSTEM, "--output", "json")
    check(bool(done.stdout), f"the doctor said nothing: {done.stderr}")
    findings = json.loads(done.stdout)["findings"]
    for one in findings:
        if one["level"] != "ok":
            line.row("G1", f"doctor: {one['check']}: {one['found']} → {one['change']}")
    wrong = sum(one["level"] == "problem" for one in findings)
    line.row("G1", f"doctor: {len(findings)} lines, {wrong} not ok")
    return wrong


def long_job(line: Timeline, site: Site, alice: Person) -> str:
    """A job that is at work through all that follows."""
    role = models.RoleRequest(milli_gpu=1000, memory_mib=256, command=["python3", "-c", _LONG])
    request = models.JobRequest(name="long", roles=[role], pools=["gpu"])
    with SchedulerClient(site.api_url, token=alice.token) as scheduler:
        job = scheduler.send(calls.submit(request))
    wait_for("the long job", lambda: state(site, alice, job.id) == "running", timeout_s=180)
    line.row("G3", f"{job.name} runs, beside the notebook")
    return str(job.id)


def state(site: Site, person: Person, job: str) -> str:
    """What the scheduler says of a job."""
    with SchedulerClient(site.api_url, token=person.token) as scheduler:
        return str(scheduler.send(calls.job(job)).state)


def at_work(site: Site) -> dict[str, int]:
    """Every running notebook and job: its pod's uid, and how often it was restarted."""
    core = site.client()
    pods = core.list_namespaced_pod(HUB, label_selector=_NOTEBOOKS).items
    pods += core.list_namespaced_pod(JOBS).items
    return {
        pod.metadata.uid: sum(one.restart_count for one in pod.status.container_statuses or [])
        for pod in pods
        if pod.status.phase == "Running" and pod.metadata.deletion_timestamp is None
    }


def under_work(
    line: Timeline, site: Site, what: str, change: Callable[[], None]
) -> tuple[int, float]:
    """Change a release; what was lost meanwhile, and how long at most nothing was decided."""
    before = at_work(site)
    with _pauses(site) as pauses:
        change()
        wait_for("the scheduler", site.decides, timeout_s=180)
    after = at_work(site)
    lost = sum(after.get(uid) != restarts for uid, restarts in before.items())
    pause = round(max(pauses, default=0.0), 1)
    line.row("G3", f"{what}: {lost} of {len(before)} pods lost, decisions paused {pause} s")
    for said in site.log("scheduler").splitlines():
        if any(words in said for words in _HANDED_OVER):
            line.row("", said)
    return lost, pause


def unchanged(line: Timeline, site: Site) -> float:
    """The longest pause while nothing is changed: what this machine's load alone makes of it."""
    return under_work(line, site, "nothing changed", lambda: time.sleep(_UNCHANGED_S))[1]


def take_out(line: Timeline, site: Site) -> int:
    """Uninstall ours: notebooks and jobs stay, and a hub that restarts is there again."""
    before = at_work(site)
    site.helm("uninstall", "gpucommons", "-n", SYSTEM, "--wait")
    site.kubectl(HUB)("rollout", "restart", "deployment/hub")
    site.await_hub()
    after = at_work(site)
    lost = sum(after.get(uid) != restarts for uid, restarts in before.items())
    line.row("G4", f"uninstalled, hub restarted: it answers, {lost} of {len(before)} pods lost")
    return lost


def put_back(line: Timeline, site: Site, alice: Person, job: str) -> None:
    """A new release of the same name takes up what still runs."""
    site.install_ours()
    site.await_ours()
    wait_for("the scheduler", site.decides, timeout_s=120)
    wait_for("the job", lambda: state(site, alice, job) == "running", timeout_s=60)
    line.row("G4", "installed again: the job is known and runs on")


def culled(line: Timeline, site: Site, alice: Person) -> float:
    """Nobody works in it: server and pod go."""
    wait_for("the cull", lambda: not alice.server(), timeout_s=240, every_s=0.5)
    began = time.monotonic()
    pods = site.client()
    wait_for(
        "no pod",
        lambda: not pods.list_namespaced_pod(HUB, label_selector=_NOTEBOOKS).items,
        timeout_s=90,
    )
    seconds = time.monotonic() - began
    line.row("A9", f"the notebook was idle and is culled; its pod was gone {seconds:.1f} s later")
    return round(seconds, 2)


@contextmanager
def _pauses(site: Site) -> Iterator[list[float]]:
    """The spans in which the scheduler did not say that it decides."""
    found: list[float] = []
    over = threading.Event()

    def watch() -> None:
        good = time.monotonic()
        while not over.wait(0.1):
            if site.decides():
                now = time.monotonic()
                found.append(now - good)
                good = now

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield found
    finally:
        over.set()
        watcher.join()
