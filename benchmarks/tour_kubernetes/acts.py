"""What happens on the tour: a notebook, a job on two nodes, another team's claim, the cull."""

from __future__ import annotations

import io
import itertools
import json
import re
import statistics
import subprocess
import sys
import tarfile
import tempfile
import time
from pathlib import Path
from typing import Any

import httpx
from kubernetes.client.exceptions import ApiException

from benchmarks.tour.laboratory import Panel
from benchmarks.tour.person import Person
from benchmarks.tour.timeline import Timeline, check, wait_for
from benchmarks.tour_kubernetes.site import HUB, JOBS, Site
from gpucommons.scheduler import models
from gpucommons.scheduler.client import SchedulerClient, calls
from gpucommons.scheduler.errors import Unavailable

SCRIPT = Path(__file__).with_name("two_workers.py")
STEPS, SECONDS_PER_STEP = 40, 0.5
WORKERS, GPUS_PER_WORKER = 2, 3
CLAIM_GPUS = 4
FINAL = ("succeeded", "failed", "cancelled")
Job = dict[str, Any]
OUR_PART = re.compile(r"our part of the spawn took ([\d.]+) s")


def open_notebook(line: Timeline, site: Site, *, milli_gpu: int) -> tuple[Person, float]:
    """A notebook as a pod in a namespace that enforces `restricted`."""
    alice = Person(site.url, "alice", site.password)
    began = time.monotonic()
    answer = alice.start_server(milli_gpu=milli_gpu, team="vision", pool="gpu")
    check(answer.status_code in (201, 202), f"the spawn: {answer.status_code} {answer.text}")
    alice.wait_until_ready(timeout_s=180)
    spawn_s = time.monotonic() - began
    (pod,) = site.client().list_namespaced_pod(HUB).items
    spec = pod.spec.containers[0]
    check(spec.security_context.run_as_non_root, "the notebook may run as root")
    limits = (spec.resources.limits or {}) if spec.resources else {}
    line.row("", f"alice's notebook: pod {pod.metadata.name} on {pod.spec.node_name}, {limits}")
    line.row("", f"it answers {spawn_s:.1f} s after the click; {HUB} enforces restricted")
    return alice, round(spawn_s, 2)


def look_at_slice(line: Timeline, alice: Person) -> float:
    """The sidebar shows the notebook's own slice, as the node's agent reads it; returns the wait."""
    began = time.monotonic()
    panel = Panel(alice)
    _, hello = panel.wait("hello of the panel", lambda m: m["type"] == "hello", timeout_s=90)
    held = hello["lease"]["slice"]
    seen, usage = panel.wait(
        "usage of the slice",
        lambda m: m["type"] == "usage" and m["state"] == "ok" and bool(m["samples"]),
        timeout_s=90,
    )
    panel.close()
    sample = usage["samples"][-1]
    limit, mine = sample["memory_limit_mib"], held["memory_mib"]
    check(limit == mine, f"the sidebar shows {limit} MiB, the slice has {mine}")
    line.row(
        "",
        f"sidebar: {held['milli_gpu']} of 1000 of {held['gpu_kind']} on {held['node']},"
        f" {sample['memory_used_mib']} of {limit} MiB, isolation {sample['isolation']}",
    )
    return round(seen - began, 2)


def our_part_of_spawns(site: Site) -> float | None:
    """Median of what our lease and ``start()`` added to a spawn, as the hub logged it."""
    seconds = [float(text) for text in OUR_PART.findall(site.log("hub"))]
    return round(statistics.median(seconds), 3) if seconds else None


def submit(line: Timeline, site: Site, alice: Person) -> tuple[Job, float]:
    """Two workers of three GPUs fit on no single node; they meet by name and exchange data."""
    _save(alice, "two_workers.py", SCRIPT.read_text())
    words = ["--steps", str(STEPS), "--seconds-per-step", str(SECONDS_PER_STEP)]
    wrapper = (
        f"import sys\nsys.argv += {words!r}\nimport runpy\n"
        "runpy.run_path('two_workers.py', run_name='__main__')\n"
    )
    _save(alice, "train.py", wrapper)
    role = {"count": WORKERS, "milli_gpu": GPUS_PER_WORKER * 1000, "memory_mib": 512}
    request = {"name": "line", "roles": [role], "pools": ["gpu"]}
    began = time.monotonic()
    job = alice.lab("POST", "gpucommons/submit-file", json={"path": "train.py", "request": request})
    line.row("", f"{job['name']}: {WORKERS} workers × {GPUS_PER_WORKER} GPUs, {job['state']}")
    wait_for("both workers at work", lambda: _steps(site, alice, job) > 1, timeout_s=240)
    first_step_s = time.monotonic() - began
    pods = _pods(site)
    nodes = sorted({pod.spec.node_name for pod in pods})
    check(len(nodes) == WORKERS, f"the workers are on {nodes}")
    line.row("", f"rank 0 and 1 on {' and '.join(nodes)}: “{_log(alice, site, job, 1)[-1]}”")
    line.row("", f"first exchanged step {first_step_s:.1f} s after the submit")
    return job, round(first_step_s, 2)


def claim(line: Timeline, site: Site, job: Job, alice: Person) -> float:
    """Another team takes its guaranteed GPUs back; the borrower saves and makes room."""
    bob = Person(site.url, "bob", site.password)
    role = models.RoleRequest(
        milli_gpu=CLAIM_GPUS * 1000,
        memory_mib=256,
        command=["python", "-c", "import time; print('mine', flush=True); time.sleep(3)"],
    )
    began = time.monotonic()
    with SchedulerClient(site.api_url, token=bob.token) as scheduler:
        claimed = scheduler.send(
            calls.submit(models.JobRequest(name="claim", roles=[role], pools=["gpu"]))
        )
        line.row("", f"bob of nlp claims {CLAIM_GPUS} guaranteed GPUs with {claimed.name}")
        wait_for(
            "the claim to run",
            lambda: scheduler.send(calls.job(claimed.id)).state in ("running", *FINAL),
            timeout_s=180,
        )
        seconds = time.monotonic() - began
        ended = wait_for(
            "the end of the claim",
            lambda: (view := scheduler.send(calls.job(claimed.id))).state in FINAL and view,
            timeout_s=120,
        )
    check(ended.state == "succeeded", f"bob's job {ended.state}: {ended.ended_text}")
    now = view_of(site, alice, job)
    stopped = now["attempts"][0]
    line.row("", f"{job['name']} was stopped: {stopped.get('ended_text') or now['state']}")
    line.row("", f"{claimed.name} ran {seconds:.1f} s after its submit")
    return round(seconds, 2)


def finish(line: Timeline, site: Site, alice: Person, job: Job) -> bool:
    """Resumed from its last step, finished, and equal to a run that nobody stopped."""
    done = wait_for(
        "the end of the job",
        lambda: (view := view_of(site, alice, job))["state"] in FINAL and view,
        timeout_s=300,
        every_s=0.5,
    )
    check(done["state"] == "succeeded", f"the job {done['state']}: {done['ended_text']}")
    resumed = [a["resumed_from_step"] for a in done["attempts"] if a["resumed_from_step"]]
    check(bool(resumed), f"no attempt was resumed: {done['attempts']}")
    line.row("", f"{len(done['attempts'])} attempts, resumed from step {resumed[-1]} of {STEPS}")
    result = _result(site, alice, job)
    equal = result == _alone()
    line.row("", f"results: {result}; equal to an undisturbed run: {equal}")
    return equal


def culled(line: Timeline, site: Site, alice: Person) -> float:
    """Nobody works in it: the notebook is stopped and its pod is gone; its job needs neither."""
    wait_for("the cull", lambda: not alice.server(), timeout_s=180, every_s=0.5)
    began = time.monotonic()
    wait_for("no pod", lambda: not site.client().list_namespaced_pod(HUB).items, timeout_s=90)
    seconds = time.monotonic() - began
    line.row("", f"the notebook was idle and is culled; its pod was gone {seconds:.1f} s later")
    return round(seconds, 2)


def left_behind(site: Site) -> int:
    """Pods of jobs that still hold something."""
    return sum(pod.status.phase in ("Pending", "Running") for pod in _pods(site))


def doubled(site: Site, alice: Person, job: Job) -> int:
    """Attempts of the job that ran at the same time."""
    spans = sorted(
        (a["started_ms"], a["ended_ms"] or float("inf"))
        for a in view_of(site, alice, job)["attempts"]
        if a["started_ms"]
    )
    return sum(later[0] < earlier[1] for earlier, later in itertools.pairwise(spans))


def view_of(site: Site, person: Person, job: Job) -> Job:
    """The job as its owner sees it, with or without a notebook."""
    with SchedulerClient(site.api_url, token=person.token) as scheduler:
        return scheduler.send(calls.job(job["id"])).model_dump()


def _save(person: Person, name: str, source: str) -> None:
    body = {"type": "file", "format": "text", "content": source}
    person.lab("PUT", f"api/contents/{name}", json=body)


def _result(site: Site, person: Person, job: Job) -> Job:
    """What rank 0 wrote, from object storage through the scheduler."""
    answer = httpx.get(
        f"{site.api_url}/v1/jobs/{job['id']}/results",
        headers={"Authorization": f"Bearer {person.token}"},
        timeout=60,
    )
    check(answer.is_success, f"the results: {answer.status_code} {answer.text[:400]}")
    with tarfile.open(fileobj=io.BytesIO(answer.content)) as archive:
        (name,) = [one for one in archive.getnames() if one.endswith("line.json")]
        found = archive.extractfile(name)
        assert found is not None
        return dict(json.load(found))


def _pods(site: Site) -> list[Any]:
    try:
        return list(site.client().list_namespaced_pod(JOBS).items)
    except ApiException:
        return []


def _log(person: Person, site: Site, job: Job, rank: int) -> list[str]:
    with SchedulerClient(site.api_url, token=person.token) as scheduler:
        return list(scheduler.send(calls.log(job["id"], rank=rank)).lines)


def _steps(site: Site, person: Person, job: Job) -> int:
    try:
        view = view_of(site, person, job)
    except Unavailable:
        return 0  # asked again, as people do
    check(view["state"] not in FINAL, f"the job {view['state']}: {view['ended_text']}")
    progress = view.get("progress") or {}
    return int(progress.get("step") or 0)


def _alone() -> Job:
    """The same numbers from two workers on this machine, without a scheduler."""
    from benchmarks.tour.machine import free_port  # noqa: PLC0415 - only here

    with tempfile.TemporaryDirectory() as folder:
        port = str(free_port())
        workers = []
        for rank in range(WORKERS):
            here = Path(folder) / str(rank)
            here.mkdir()
            environment = {
                "GPUCOMMONS_RANK": str(rank),
                "GPUCOMMONS_WORLD_SIZE": str(WORKERS),
                "MASTER_ADDR": "127.0.0.1",
                "MASTER_PORT": port,
            }
            words = [sys.executable, SCRIPT, "--steps", str(STEPS), "--seconds-per-step", "0"]
            workers.append(
                subprocess.Popen(words, cwd=here, env=environment, stdout=subprocess.DEVNULL)
            )
        for worker in workers:
            check(worker.wait(120) == 0, "the undisturbed run failed")
        result: Job = json.loads((Path(folder) / "0" / "results" / "line.json").read_text())
        return result
