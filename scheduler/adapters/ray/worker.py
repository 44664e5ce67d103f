"""One Ray node of the job, as a program: it ends when the notebook's head has gone.

A job that began when its notebook was over looks for it for a minute, and has succeeded: there is
nothing left to do, and nothing to try again.
"""

from __future__ import annotations

import os
import socket
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from gpucommons.scheduler.in_worker import ray
from gpucommons.scheduler.in_worker.child_processes import STOPPED, Stop
from gpucommons.scheduler.in_worker.first_worker import Server, Serving
from gpucommons.scheduler.in_worker.port_owners import ours_answers
from gpucommons.scheduler.in_worker.worker_messages import NotJoined, free_port, place_of, remark

PATIENCE_S = 60.0
_LOOK_S = 0.2
#: So long Ray looks for a head that has gone; of itself for a minute, on somebody else's GPU.
_HEAD_GONE = {"RAY_gcs_rpc_server_reconnect_timeout_s": "5"}
_GONE = "the notebook that these workers were for has gone, or closed its cluster"


def offer_of(environ: Mapping[str, str], head: str, memory_mib: int) -> ray.Offer:
    """What this worker has of its machine: one task at a time, and the GPUs that it sees."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as towards_head:
        towards_head.connect(place_of(head))
        address = towards_head.getsockname()[0]
    gpus = list(filter(None, environ.get("CUDA_VISIBLE_DEVICES", "").split(",")))
    return ray.Offer(
        address=address,
        head=head,
        own_port=free_port(),
        cpus=1,
        gpus=len(gpus),
        memory_mib=memory_mib,
    )


def work(head: str, server: Server, stop: Stop) -> int:
    """Serve until the head has gone; what the worker ends with.

    Raises
    ------
    NotJoined
        When the node breaks while the head is there.
    """
    place, until_s = place_of(head), time.monotonic() + PATIENCE_S
    while not (found := ours_answers(place)) and not stop and time.monotonic() < until_s:
        time.sleep(_LOOK_S)
    if found and not stop:
        serving = Serving(server)
        try:
            serving.wait_until_ready(stop)
            while not stop and serving.process.poll() is None:
                time.sleep(_LOOK_S)
        except NotJoined:
            if ours_answers(place):
                raise
        finally:
            serving.end()
    if stop:
        return STOPPED
    if ours_answers(place):
        message = "Ray's node ended while the notebook still needed it"
        raise NotJoined(message)
    remark(_GONE)
    return 0


def main(head: str, memory_mib: int, key_file: str) -> int:
    """The job's command."""
    env = {**ray.variables(Path(key_file).read_text()), **_HEAD_GONE}
    with ray.node(offer_of(os.environ, head, memory_mib), env) as server:
        return work(head, server, Stop())


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1], int(sys.argv[2]), sys.argv[3]))
    except NotJoined as problem:
        remark(f"{problem}.")
        sys.exit(1)
