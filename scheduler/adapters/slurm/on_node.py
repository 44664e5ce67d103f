"""The first step of a job on the node that Slurm chose: what only this node knows goes into its plan.

Slurm says which GPUs are the job's, and tells the job by SIGTERM when it is about to take the node back
(its time limit, or somebody with more right): the job's workers then get SIGTERM and the pool's grace,
as if it had been preempted here.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gpucommons.scheduler.executors.local.attempt import orders
from gpucommons.scheduler.executors.local.attempt.attempt_folder import (
    AttemptFolder,
    read_json,
    write_json,
)

#: Beside the plan: what the executor knows and the plan has no place for.
FACTS = "slurm.json"
_VISIBLE = "CUDA_VISIBLE_DEVICES"


def shared_out(facts: Mapping[str, Any], visible: str) -> list[str] | None:
    """The GPUs of each worker, by rank; None where Slurm gave fewer than were asked for."""
    given = [part for part in visible.split(",") if part]
    parts, at = [], 0
    for count in facts["gpus"]:
        parts.append(",".join(given[at : at + count]))
        at += count
    return parts if at <= len(given) else None


def main() -> int:
    """Complete the plan, and supervise."""
    folder = AttemptFolder(Path(sys.argv[1]))
    facts, plan = read_json(folder.path / FACTS), read_json(folder.plan)
    # Another one has begun, or it was stopped before: the supervisor's own rule, before anything changes.
    if facts is None or plan is None or folder.supervisor.exists() or folder.exit.exists():
        return 1
    if not facts["simulated"]:
        parts = shared_out(facts, os.environ.get(_VISIBLE, ""))
        if parts is None:
            text = (
                f"Slurm gave this job {os.environ.get(_VISIBLE) or 'no GPUs'} on"
                f" {os.environ.get('SLURMD_NODENAME', 'its node')}, and it needs {sum(facts['gpus'])}:"
                " gres.conf must name the files of the node's GPUs"
            )
            never = {"exit_code": None, "start_failed": True, "killed": False, "told": False}
            write_json(folder.exit, {**never, "text": text})
            return 1
        for worker, visible in zip(plan["workers"], parts, strict=True):
            if visible:
                worker["env"] |= {_VISIBLE: visible, "NVIDIA_VISIBLE_DEVICES": visible}
        write_json(folder.plan, plan)
    return _supervise(folder, facts["grace_ms"])


def _supervise(folder: AttemptFolder, grace_ms: int) -> int:
    """Have the supervisor work, and hand Slurm's SIGTERM on to it as an order to stop."""
    words = [sys.executable, "-m", "gpucommons.scheduler.executors.supervisor", str(folder.path)]
    with subprocess.Popen(words, stdin=subprocess.DEVNULL) as child:

        def obey(_number: int, _frame: object) -> None:
            orders.order_stop(folder, int(time.time() * 1000) + grace_ms)
            child.send_signal(signal.SIGTERM)

        signal.signal(signal.SIGTERM, obey)
        return child.wait()


if __name__ == "__main__":
    sys.exit(main())
