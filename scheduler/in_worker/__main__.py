"""``python -m gpucommons.scheduler.in_worker HOW … -- COMMAND``: what launchers put before a command."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from gpucommons.scheduler.in_worker import mpirun, ray, spark
from gpucommons.scheduler.in_worker.first_worker import Seat, Server, follow, lead
from gpucommons.scheduler.in_worker.ray import Offer
from gpucommons.scheduler.in_worker.worker_messages import NotJoined, own_address, place_of, remark


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="gpucommons.scheduler.in_worker")
    parser.add_argument("how", choices=["mpi", "lead", "follow", "ray", "spark"])
    parser.add_argument("--first", default="", help="where the first worker answers")
    parser.add_argument("--size", type=int, default=1)
    parser.add_argument("--stays-s", type=float, default=0.0)
    parser.add_argument("--head", default="", help="of the cluster: host:port")
    parser.add_argument("--cpus", type=int, default=1)
    parser.add_argument("--gpus", type=int, default=0)
    parser.add_argument("--memory-mib", type=int, default=0)
    parser.add_argument("--at", default="", help="of this worker: host:port")
    parser.add_argument("--rank", type=int, default=0)
    return parser


def main(words: Sequence[str]) -> int:
    """Run one worker, or what mpirun starts; returns what its process ends with."""
    if words[:1] == ["agent"]:
        return mpirun.agent(words[1:])
    if words[:1] == ["messenger"]:
        return mpirun.messenger()
    split = words.index("--") if "--" in words else len(words)
    asked = _parser().parse_args(words[:split])
    command = list(words[split + 1 :])
    if asked.how == "mpi":
        return mpirun.work(asked.rank, command)
    return _in_seat(asked, command)


def _in_seat(asked: argparse.Namespace, command: Sequence[str]) -> int:
    seat = Seat(rank=asked.rank, size=asked.size, first=asked.first)
    if asked.how == "lead":
        return lead(seat, command)
    if asked.how == "follow":
        return follow(seat, Server(command=command), stays_s=asked.stays_s)
    address, port = place_of(asked.at)
    offer = Offer(
        address=own_address(address),
        own_port=port,
        head=asked.head,
        cpus=asked.cpus,
        gpus=asked.gpus,
        memory_mib=asked.memory_mib,
    )
    work = ray.work if asked.how == "ray" else spark.work
    return work(seat, offer, command)


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except NotJoined as problem:
        remark(f"{problem}.")
        sys.exit(1)
