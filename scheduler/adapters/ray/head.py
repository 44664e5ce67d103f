"""Ray's head beside a kernel, as a program: it ends when the kernel closes its input, or dies.

In a session of its own, for an interrupted cell interrupts all processes of the kernel's.
"""

from __future__ import annotations

import os
import sys

from gpucommons.scheduler.in_worker import ray
from gpucommons.scheduler.in_worker.child_processes import Stop
from gpucommons.scheduler.in_worker.first_worker import Serving
from gpucommons.scheduler.in_worker.worker_messages import NotJoined, free_port, place_of, remark


def main(place: str) -> int:
    """Serve at this ``host:port``; what it knows its own by is in the environment."""
    # What Ray prints goes where errors go: this says one word.
    said = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    # Nothing runs beside the kernel: its GPU and its memory are the notebook's.
    offer = ray.Offer(
        address=place_of(place)[0], head=place, own_port=free_port(), cpus=0, gpus=0, memory_mib=0
    )
    with ray.head(offer, {}) as server:
        serving = Serving(server)
        try:
            serving.wait_until_ready(stop := Stop())
            if not stop:
                said.write("ready\n")
                said.flush()
                sys.stdin.read()
        finally:
            serving.end()
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1]))
    except NotJoined as problem:
        remark(f"{problem}.")
        sys.exit(1)
