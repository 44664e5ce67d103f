"""The scene that the panel is shown: one user, one team, three jobs, everything in the views' form.

The numbers are those of a believable afternoon, so that pictures taken of it can be judged.
"""

from __future__ import annotations

import math
from typing import Any

LEASE = "0190f000-0000-7000-8000-00000000aaaa"
RUNNING = "0190f000-0000-7000-8000-000000000007"
WAITING = "0190f000-0000-7000-8000-000000000002"
FINISHED = "0190f000-0000-7000-8000-000000000006"

MINUTE = 60_000


def hello(now_ms: int, **changes: Any) -> dict[str, Any]:
    return {
        "type": "hello",
        "whoami": {"name": "user-a", "teams": ["vision"], "admin": False},
        "lease": lease(),
        "shared_account": False,
        "scheduler": "ok",
        "message": None,
        "now_ms": now_ms,
        "time_limits_s": [1800, 3600, 7200, 14_400, 28_800, 86_400, None],
        **changes,
    }


def lease(**changes: Any) -> dict[str, Any]:
    return {
        "id": LEASE,
        "user": "user-a",
        "server_name": "",
        "team": "vision",
        "pool": "build",
        "state": "active",
        "milli_gpu": 500,
        "requested_ms": 0,
        "since_ms": 0,
        "slice": {
            "slice_id": "s-1",
            "node": "gpu-03",
            "device_ids": ["GPU-1"],
            "device_indices": [0],
            "gpu_kind": "A100-40",
            "milli_gpu": 500,
            "memory_mib": 19_866,
            "isolation": "cooperative",
            "simulated": True,
        },
        "idle": idle(),
        **changes,
    }


def idle(**changes: Any) -> dict[str, Any]:
    return {"keeps_left": 2, "idle_after_min": 60, "warn_after_min": 50, **changes}


def warned(now_ms: int) -> dict[str, Any]:
    """Idle for 50 of 60 minutes."""
    since = now_ms - 50 * MINUTE
    times = {"idle_since_ms": since, "warned_ms": now_ms, "returns_ms": since + 60 * MINUTE}
    return lease(state="warned", idle=idle(**times))


def sample(at_ms: int, compute: int | None, used_mib: int | None = 12_902) -> dict[str, Any]:
    return {
        "slice_id": "s-1",
        "at_ms": at_ms,
        "compute_percent": compute,
        "memory_used_mib": used_mib,
        "memory_limit_mib": 19_866,
        "processes": 1,
        "contention": "alone",
        "simulated": True,
    }


def history(now_ms: int) -> list[dict[str, Any]]:
    """Five minutes: idle, a busy cell, a short pause, busy again."""
    samples = []
    for second in range(300, 0, -1):
        is_busy = not (second > 245 or 120 < second < 150)
        wave = math.sin(second / 7) * 6 + math.sin(second / 2.3) * 3
        compute = round(74 + wave) if is_busy else 2
        samples.append(sample(now_ms - second * 1000, compute))
    return [*samples, sample(now_ms, 74)]


def teams() -> list[dict[str, Any]]:
    def quota(fixed: int, guaranteed: int, limit: int | None) -> dict[str, Any]:
        return {
            "fixed_milli_gpu": fixed,
            "guaranteed_milli_gpu": guaranteed,
            "limit_milli_gpu": limit,
            "over_quota_weight": 1,
        }

    build = {"pool": "build", "quota": quota(2000, 0, None), "fixed_used_milli_gpu": 1500}
    train = {"pool": "train", "quota": quota(0, 4000, 7000), "fixed_used_milli_gpu": 0}
    none = {"guaranteed_used_milli_gpu": 0, "borrowed_milli_gpu": 0, "waiting": 0}
    used = {"guaranteed_used_milli_gpu": 4000, "borrowed_milli_gpu": 2000, "waiting": 0}
    return [
        {
            "name": "vision",
            "mine": True,
            "use": [build | none, train | used],
            "sizes": [0, 250, 500, 1000, 2000, 4000, 8000],
        },
        {"name": "nlp", "mine": False, "use": []},
    ]


def request(name: str, milli_gpu: int) -> dict[str, Any]:
    role = {
        "name": "worker",
        "count": 1,
        "milli_gpu": milli_gpu,
        "cpu_milli": 4000,
        "memory_mib": 16_384,
        "command": ["python", "-u", "train.py"],
    }
    return {
        "name": name,
        "roles": [role],
        "priority": "normal",
        "over_quota": True,
        "max_run_s": 7200,
        "launcher": "plain",
        "snapshot": "0" * 64,
        "secrets": {},
        "results_to": f"results/{name}",
    }


def job(job_id: str, name: str, now_ms: int, **changes: Any) -> dict[str, Any]:
    return {
        "id": job_id,
        "name": name,
        "kind": "training",
        "team": "vision",
        "owner": "user-a",
        "submitted_by": "user-a",
        "state": "queued",
        "pools": ["train"],
        "milli_gpu": 4000,
        "workers": 1,
        "priority": "normal",
        "over_quota": True,
        "submitted_ms": now_ms - 23 * MINUTE,
        "since_ms": now_ms - 23 * MINUTE,
        "attempts": [],
        "held_milli_gpu_s": 0,
        "lost_milli_gpu_s": 0,
        "simulated": False,
        "source": "train.ipynb",
        **changes,
    }


def attempt(number: int, now_ms: int, **changes: Any) -> dict[str, Any]:
    return {
        "id": f"attempt-{number}",
        "number": number,
        "state": "ended",
        "hold_class": "over-quota",
        "node": "gpu-02",
        "nodes": ["gpu-02"],
        "milli_gpu": 2000,
        "reserved_ms": now_ms - 19 * MINUTE,
        "started_ms": now_ms - 19 * MINUTE,
        "stop": None,
        **changes,
    }


def running(now_ms: int, **changes: Any) -> dict[str, Any]:
    """Stopped once for nlp's guarantee, running again on borrowed GPUs."""
    first = attempt(
        1,
        now_ms,
        ended_ms=now_ms - 11 * MINUTE,
        exit_code=143,
        ended_text="stopped for nlp (its guarantee): notice 30 s, saved in 2 s, 6 s of work lost",
    )
    second = attempt(
        2,
        now_ms,
        state="running",
        reserved_ms=now_ms - 6 * MINUTE,
        started_ms=now_ms - 6 * MINUTE,
        resumed_from_step=16,
    )
    return job(
        RUNNING,
        "digits-7",
        now_ms,
        state="running",
        hold_class="over-quota",
        pool="train",
        milli_gpu=2000,
        progress={
            "step": 21,
            "total_steps": 50,
            "metrics": {"epoch": 21, "loss": 0.1312, "accuracy": 0.969},
            "at_ms": now_ms - 12_000,
        },
        checkpoint={"step": 20, "size_bytes": 3_100_000, "at_ms": now_ms - 40_000},
        way_to_go_on={
            "way": "checkpoint",
            "text": "goes on from epoch 20",
            "stop_text": "Goes on from epoch 20; at most 40 s of work since then is repeated.",
            "repeats_ms": 40_000,
        },
        attempts=[first, second],
        held_milli_gpu_s=1_476_000,
        lost_milli_gpu_s=36_000,
        request=request("digits", 2000),
        **changes,
    )


def announced(now_ms: int) -> dict[str, Any]:
    """The same job with two minutes left, for nlp (B8)."""
    stop = {
        "why": "preempt",
        "text": "for nlp (its guarantee)",
        "announced_ms": now_ms,
        "term_ms": now_ms + 90_000,
        "kill_ms": now_ms + 120_000,
    }
    moved = running(
        now_ms,
    )
    moved["attempts"][-1] |= {"state": "stopping", "stop": stop}
    return moved | {"state": "preempting"}


def waiting(now_ms: int, **changes: Any) -> dict[str, Any]:
    return job(
        WAITING,
        "resnet-2",
        now_ms,
        position=2,
        simulated=True,
        reason={
            "code": "gang",
            "text": "Needs 4 GPUs on one node; 3 are free.",
            "unblock": "Would start now with 2 GPUs.",
            "startable_milli_gpu": 2000,
        },
        forecast={
            "made_ms": now_ms,
            "from_ms": 10 * MINUTE,
            "to_ms": 25 * MINUTE,
            "right_of_ten": 8,
            "unknown": None,
            "text": "Likely 10–25 min (past estimates right 8 of 10).",
            "ways": ["Would start now with 2 GPUs.", "Would start now in pool h100."],
        },
        request=request("resnet", 4000),
        **changes,
    )


def finished(now_ms: int) -> dict[str, Any]:
    return job(
        FINISHED,
        "digits-6",
        now_ms,
        state="succeeded",
        milli_gpu=1000,
        submitted_ms=now_ms - 90 * MINUTE,
        ended_ms=now_ms - 60 * MINUTE,
        progress={
            "step": 50,
            "total_steps": 50,
            "metrics": {"epoch": 50, "loss": 0.1, "accuracy": 0.9694},
            "at_ms": now_ms - 60 * MINUTE,
        },
        attempts=[
            attempt(
                1,
                now_ms,
                hold_class="guaranteed",
                reserved_ms=now_ms - 88 * MINUTE,
                started_ms=now_ms - 88 * MINUTE,
                ended_ms=now_ms - 60 * MINUTE,
                exit_code=0,
            )
        ],
        request=request("digits", 1000),
    )


def jobs(now_ms: int) -> list[dict[str, Any]]:
    return [running(now_ms), waiting(now_ms), finished(now_ms)]


def curve(now_ms: int) -> list[dict[str, Any]]:
    """18 epochs, then again from 17 in the second attempt."""
    points = []
    for number, steps in ((1, range(1, 19)), (2, range(17, 22))):
        for step in steps:
            loss = 0.1 + 2.1 * math.exp(-step / 5.2)
            accuracy = 0.975 - 0.85 * math.exp(-step / 4.4)
            points.append(
                {
                    "attempt": number,
                    "step": step,
                    "at_ms": now_ms - (22 - step) * 20_000,
                    "metrics": {"epoch": step, "loss": loss, "accuracy": accuracy},
                }
            )
    return points


def use(now_ms: int) -> dict[str, Any]:
    """The last seven minutes; in one of them nothing was measured."""
    spans = [
        {
            "from_ms": now_ms - (7 - number) * 60_000,
            "to_ms": now_ms - (6 - number) * 60_000,
            "held_milli_gpu": 2000,
            "used_milli_gpu": None if number == 3 else 1500 + 60 * number,
            "memory_used_mib": None if number == 3 else 11_000 + 200 * number,
        }
        for number in range(7)
    ]
    return {
        "spans": spans,
        "asked_milli_gpu": 2000,
        "used_milli_gpu": 1690,
        "memory_used_mib_max": 12_200,
        "text": "asked 2 GPUs, used 1.7",
    }


def log_lines() -> list[str]:
    lines = ["resumed from epoch 16"]
    for epoch, loss, accuracy in (
        (17, 0.161, 0.958),
        (18, 0.149, 0.961),
        (19, 0.142, 0.964),
        (20, 0.136, 0.967),
        (21, 0.131, 0.969),
    ):
        lines.append(f"epoch {epoch}  loss {loss}  accuracy {accuracy}  saved")
    return [*lines, "<b>not markup</b>"]


QUOTE = {
    "hold_class": "over-quota",
    "text": "Borrowed. vision has 0 of 4 guaranteed GPUs free, so this job borrows 2: other teams"
    " can take them back, and it waits again. It would start now.",
    "stop_text": "If it is stopped before it saved a checkpoint: its memory is saved and it goes on"
    " where it stopped. If that fails, it starts its command anew and finds the files that it wrote.",
    "starts_now": True,
    "reason": None,
    "guaranteed_milli_gpu": 4000,
    "guaranteed_used_milli_gpu": 4000,
    "free_milli_gpu": 3000,
}

FILES: dict[str, Any] = {
    "path": "train.ipynb",
    "files": [
        {"path": "train.ipynb", "size_bytes": 24_000},
        {"path": "data/digits.npz", "size_bytes": 3_100_000},
    ],
    "size_bytes": 3_124_000,
    "excluded": [
        {
            "path": "data/raw.bin",
            "size_bytes": 90_000_000,
            "reason": "larger than 32 MiB",
            "linkable": False,
        }
    ],
    "packages": [{"name": "numpy", "here": "2.1.0", "job": "2.3.1"}],
    "environment": "/srv/envs/torch",
    "environment_name": "torch (Python 3.12)",
    "parameters": None,
    "advice": [
        {
            "text": "It starts torch: without torchrun each of the workers trains alone.",
            "launchers": ["torchrun"],
        }
    ],
    "proposal": {"launcher": "torchrun", "why": "train.ipynb starts torch.distributed"},
    "results_to": "digits",
}


def files(path: str) -> dict[str, Any]:
    """Of the script, the large file could be linked."""
    if path != "prepare.py":
        return FILES
    return FILES | {"path": path, "excluded": [FILES["excluded"][0] | {"linkable": True}]}


def listed(now_ms: int) -> dict[str, dict[str, Any]]:
    found = (("torch", "3.12"), ("jax", "3.13"))
    return {
        "pools": {"pools": [{"name": "train", "gpu_kind": "A100-40"}], "now_ms": now_ms},
        "environments": {
            "kind": "folder",
            "launchers": ["plain", "torchrun", "deepspeed", "halves"],
            "environments": [
                {"environment": f"/srv/envs/{name}", "name": name, "python": python}
                for name, python in found
            ],
        },
        "profiles": {"profiles": []},
    }


def advice(now_ms: int) -> dict[str, Any]:
    """Plans as the scheduler answers them."""
    plan = {
        "pool": "train",
        "gpus": 4,
        "workers": 1,
        "milli_gpu": 4000,
        "launcher": "torchrun",
        "layout": "FSDP × 4, accumulation × 2",
        "script": ["FSDP with FULL_SHARD", "8 samples at once on each GPU"],
        "verdict": "fits",
        "memory_text": "fits: 31.0 of 38.8 GiB (optimizer 12.1, activations 9.4, weights 6.0)",
        "speed_text": "9.1–10.4 k tokens/s",
        "wait_text": "3–8 min",
        "wait_note": "past estimates right 8 of 10",
        "run_s": {"low": 9000, "middle": 10000, "high": 11000},
        "finish_s": {"low": 9200, "middle": 10300, "high": 11500},
        "gpu_hours": 11.2,
        "cost": 7.84,
        "why": "Likely done soonest of all layouts that fit; limited by computation.",
        "grade": "C",
        "hold_class": "over-quota",
    }
    smaller = {
        **plan,
        "gpus": 2,
        "milli_gpu": 2000,
        "layout": "FSDP × 2, accumulation × 4",
        "wait_text": "none",
        "wait_note": "",
        "hold_class": "guaranteed",
        "why": "Is likely done 94 % later than the first, 1 % less money; limited by computation.",
    }
    return {
        "plans": [plan, smaller],
        "plain_text": "Plain, 4 GPUs of train (DDP × 4): does not fit: 49.0 of 38.8 GiB.",
        "declined": "",
        "why_not": [{"gpus": 8, "text": "The largest node of train has 4 GPUs."}],
        "considered": 230,
        "notes": [
            "Plans stay on one node of gpu: how fast links between its nodes are was not measured. An"
            " admin can: gpucommons probe gpu."
        ],
        "currency": "EUR",
        "now_ms": now_ms,
    }
